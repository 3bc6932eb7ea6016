"""`manage.py redis top`: a live view of queues, workers and running tasks."""

from django_redis_components.management.redis.top.group import Group

__all__ = ["Group"]

"""`manage.py redis tasks`: lists, finds, shows and changes tasks."""

from django_redis_components.management.redis.tasks.group import Group

__all__ = ["Group"]

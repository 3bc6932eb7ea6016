"""`manage.py redis workers`: lists the worker processes, sends commands to them, and changes their pools."""

from django_redis_components.management.redis.workers.group import Group

__all__ = ["Group"]

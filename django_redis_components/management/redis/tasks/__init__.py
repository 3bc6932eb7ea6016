"""`manage.py redis tasks`: lists the tasks of a queue; shows, cancels or runs one."""

from django_redis_components.management.redis.tasks.group import Group

__all__ = ["Group"]

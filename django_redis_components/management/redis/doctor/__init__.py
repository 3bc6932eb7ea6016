"""`manage.py redis doctor`: looks for problems of the installation, with their causes and fixes."""

from django_redis_components.management.redis.doctor.group import Group

__all__ = ["Group"]

"""`manage.py redis analytics`: reports and exports counts, stores retention, and erases what is stored of a user."""

from django_redis_components.management.redis.analytics.group import Group

__all__ = ["Group"]

"""`manage.py redis queues`: shows queues, pauses, resumes, purges and restores one, retries and deletes its tasks."""

from django_redis_components.management.redis.queues.group import Group

__all__ = ["Group"]

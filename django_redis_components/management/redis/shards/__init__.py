"""`manage.py redis shards`: what each shard of the task queue holds, where queues would be better, what is left."""

from django_redis_components.management.redis.shards.group import Group

__all__ = ["Group"]

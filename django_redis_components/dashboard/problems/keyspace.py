"""The keys of the problems of a connection."""

from __future__ import annotations

from django_redis_components.core import keys
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue.shards import Shard, home


def of_shard(part: str, shard: Shard | None) -> str:
    """Return the part of a key that each shard of the task queue has; None: that of the home shard."""
    return part if shard is None or shard == home(shard.using) else f"{part}:{shard.name}"


def key(part: str, using: str = "") -> str:
    """Return a key of a connection, by default that of the dashboard. See the package."""
    return keys.key("problems", using or conf.settings().dashboard.using, part)

"""The ids of items in a Bloom filter: requests for other ids do not reach the database (cache penetration)."""

from __future__ import annotations

from redis.exceptions import RedisError

from django_redis_components.bloom import BloomFilter
from example_project.market.models import Item

_ids = BloomFilter("market items", capacity=10_000, error_rate=0.001)


def may_exist(item_id: int) -> bool:
    """Return False for an id that no item has. A filter that is lost or unavailable hides no item."""
    try:
        return _ids.contains(item_id, default=True)
    except RedisError:
        return True


def add(item_id: int) -> None:
    """Add the id of a new item, before its commit. A filter that was lost is filled again."""
    if _ids.info().layers:
        _ids.add(item_id)
    else:
        _ids.rebuild(Item.objects.values_list("pk", flat=True).iterator())

"""The lock of an item. One lock per item, so that sales of different items run concurrently."""

from __future__ import annotations

from django_redis_components.locks import lock

#: Lease of the lock in seconds, for crashed holders. A sale takes a few milliseconds.
LEASE_S = 10

#: Seconds to wait while another buyer holds the lock.
WAIT_TIMEOUT_S = 5


def item_lock_name(item_id: int | str) -> str:
    """Return the name of an item's lock."""
    return f"market:item:{item_id}"


#: Decorator for functions with an argument ``item_id``: one call at a time per item, across all processes.
item_lock = lock(item_lock_name("{item_id}"), timeout=LEASE_S, on_conflict="wait", blocking_timeout=WAIT_TIMEOUT_S)

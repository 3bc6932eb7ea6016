"""The lock of an item: as fine as it can be, so that nobody waits for a sale of something else."""

from __future__ import annotations

from django_redis_components.locks import lock

#: Seconds after which the lock of a crashed holder is free again. A sale takes a few milliseconds.
LEASE_S = 10

#: Seconds that one waits while somebody else is buying the same thing.
PATIENCE_S = 5


def item_lock_name(item_id: int | str) -> str:
    """The name of an item's lock."""
    return f"market:item:{item_id}"


#: For functions with an argument ``item_id``: one at a time for each item, whichever process they run in.
item_lock = lock(item_lock_name("{item_id}"), timeout=LEASE_S, on_conflict="wait", blocking_timeout=PATIENCE_S)

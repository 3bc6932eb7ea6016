"""Locks: one holder at a time among all processes of a site.

Guarantees. On one primary a lock has one unexpired lease. A holder that dies is replaced when its lease
ends; a holder that is late learns it: `release` and `extend` refuse, `check` raises and `lost` is set by
its own clock. With `renew` one thread of the process renews its leases while it lives. Each grant has a
fencing token above all before it, also over FLUSHALL and failover unless the new primary's clock is behind
the last grant. `acquire`, `release` and `extend` may be repeated after a lost reply. Waiters are served in
the order in which they came (`fair`), without polling: a release hands the lock to the first of them. A
waiter that died costs those behind it two seconds at most.

What no lease can do: stop a holder that was paused past its end. Where that matters, store the fencing
token with what you write, and refuse lower ones.

Keys, all in the slot of ``{name}``:

==================================  ======  ====================================================================
``drc:locks:{name}``                string  the holder's token; lives as long as the lease
``drc:locks:{name}:fence``          string  the last fencing token; the lease and an hour
``drc:locks:{name}:queue``          zset    waiting tokens by ticket; 6 s after the last of them asked
``drc:locks:{name}:alive``          zset    until when they count as alive; as the queue
``drc:locks:{name}:bell:<token>``   list    wakes one waiter; 2 s
==================================  ======  ====================================================================

Example::

    from django_redis_components.locks import Lock, LockNotAcquired, lock

    with Lock("stock:42", timeout=10) as held:
        print(held.fencing_token, held.remaining())

    @lock("order:{order_id}", on_conflict="raise")
    def pay(order_id: int) -> str:
        return "paid"

    pay(order_id=7)

See also: `django_redis_components.semaphores` for more than one holder; docs/locks.md.
"""

from __future__ import annotations

from django_redis_components.locks.decorator import lock
from django_redis_components.locks.exceptions import LockError, LockLost, LockNotAcquired, LockNotOwned
from django_redis_components.locks.lock import Lock

__all__ = ["Lock", "LockError", "LockLost", "LockNotAcquired", "LockNotOwned", "lock"]

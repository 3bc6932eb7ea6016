"""Locks: one holder at a time among all processes of a site; of several names at once; many readers or one writer.

Guarantees. On one primary a lock has one unexpired lease. A holder that dies is replaced when its lease
ends; a holder that is late learns it: `release` and `extend` refuse, `check` raises and `lost` is set by
its own clock. With `renew` one thread of the process renews its leases while it lives. Each grant has a
fencing token above all before it, also over FLUSHALL and failover unless the new primary's clock is behind
the last grant. `acquire`, `release` and `extend` may be repeated after a lost reply. Waiters are served in
the order in which they came (`fair`): a release hands the lock to the first of them. Waiters that were killed cost
those behind them about 0.2 s in all, and waiters that hang 2 s in all.

`MultiLock` with a group takes all of its names or none, and serves those who want overlapping names in the
order in which they came. `ReadWriteLock` does so with readers and writers.

What no lease can do: stop a holder that was paused past its end. Where that matters, store the fencing
token with what you write, and refuse lower ones: `FencedModel` and `fenced_update` do.

Keys, all in the slot of ``{name}``:

===================================  ======  ====================================================================
``drc:locks:{name}``                 string  the holder's token; lives as long as the lease
``drc:locks:{name}:fence``           string  the last fencing token; the lease and an hour
``drc:locks:{name}:queue``           zset    waiting tokens by ticket; a minute after the last of them asked
``drc:locks:{name}:asked``           zset    when each of them asked last; as the queue
``drc:locks:{name}:paused``          zset    tickets of those that were offered the lock, or missed a turn; a minute
``drc:locks:{name}:handoffs``        zset    who was handed the lock and has not taken it yet; a minute
``drc:locks:{name}:probes``          zset    who was woken to see whether it lives; a minute
``drc:locks:{name}:wakeup:<token>``  list    wakes one waiter; 2 s
``drc:locks:{name}:wakeup``          list    wakes any waiter; 2 s
===================================  ======  ====================================================================

Of a `ReadWriteLock`, in the slot of ``{name}``, and of a `MultiLock`, in that of ``{group}``:

=========================================  ======  =============================================================
``drc:locks:{name}:rw:writer``             string  the writer's token; lives as long as the lease
``drc:locks:{name}:rw:readers``            zset    readers' tokens by the end of their leases; the longest
``drc:locks:{name}:rw:fence`` (and so on)  -       fence, queue, and under ``rw:writer`` the others: as above
``drc:locks:{group}:group``                hash    what each waiting token wants; as the queue
``drc:locks:{group}:group:held:<name>``    string  the holder's token; lives as long as the lease
``drc:locks:{group}:group:line:<name>``    zset    waiting tokens by ticket; as the queue
``drc:locks:{group}:group:fence:<name>``   string  the last fencing token; the lease and an hour
=========================================  ======  =============================================================

Example::

    from django_redis_components.locks import Lock, MultiLock, ReadWriteLock, lock

    with Lock("stock:42", timeout=10) as held:
        print(held.fencing_token, held.remaining())

    @lock("order:{order_id}", on_conflict="raise")
    def pay(order_id: int) -> str:
        return "paid"

    pay(order_id=7)

    with MultiLock("account:1", "account:2", group="accounts") as held:
        print(held.fencing_token)

    page = ReadWriteLock("page:7")
    with page.read():
        print(page.inspect().reading)

See also: `django_redis_components.semaphores` for more than one holder; docs/components/locks.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_redis_components.locks.decorator import lock
from django_redis_components.locks.exceptions import (
    LockError,
    LockLost,
    LockNotAcquired,
    LockNotOwned,
    NotEnoughReplicas,
    StaleFence,
)
from django_redis_components.locks.fencing import afenced_update, fenced_update
from django_redis_components.locks.lock import Lock
from django_redis_components.locks.multi import MultiLock
from django_redis_components.locks.readwrite import ReadWriteLock
from django_redis_components.locks.state import LockState, ReadWriteState

if TYPE_CHECKING:
    from django_redis_components.locks.models import FencedModel

__all__ = [
    "FencedModel",
    "Lock",
    "LockError",
    "LockLost",
    "LockNotAcquired",
    "LockNotOwned",
    "LockState",
    "MultiLock",
    "NotEnoughReplicas",
    "ReadWriteLock",
    "ReadWriteState",
    "StaleFence",
    "afenced_update",
    "fenced_update",
    "lock",
]


def __getattr__(name: str) -> object:
    """A model cannot be defined before the apps are loaded, and a lock may be imported before that."""
    if name == "FencedModel":
        from django_redis_components.locks.models import FencedModel

        return FencedModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

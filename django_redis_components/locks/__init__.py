"""Locks: one holder at a time among all processes of a site, for one name or several; or many readers and one writer.

Guarantees. On one primary a lock has at most one unexpired lease. If a holder dies, its lease expires and the next
waiter gets the lock. A late holder is notified: `release` and `extend` raise, `check` raises and `lost` is set by the
process's own clock. With `renew` one thread of the process renews its leases while the process lives. Each grant has
a fencing token above all earlier ones, also after FLUSHALL and failover unless the new primary's clock is behind the
last grant. `acquire`, `release` and `extend` may be repeated after a lost reply. Waiters are served in FIFO order
(`fair`): a release hands the lock to the first live waiter. Killed waiters delay the waiters behind them by about
0.2 s in total, hanging waiters by 2 s in total.

`MultiLock` with a group takes all of its names or none, and serves waiters for overlapping names in FIFO order.
`ReadWriteLock` serves readers and writers in FIFO order.

Limits. A lease cannot stop a holder that was paused past its end. Where that matters, store the fencing token with
the data and reject writes with a lower one, as `FencedModel` and `fenced_update` do.

Keys, all in the slot of ``{name}``:

===================================  ======  ======================================================================
``drc:locks:{name}``                 string  the holder's token; TTL: the lease
``drc:locks:{name}:fence``           string  the last fencing token; the lease and an hour
``drc:locks:{name}:holder:<token>``  string  its holder; the lease. After a forced release also the operator; an hour
``drc:locks:{name}:queue``           zset    waiters by ticket; a minute after the last request of a waiter
``drc:locks:{name}:asked``           zset    time of each waiter's last request; as the queue
``drc:locks:{name}:paused``          zset    tickets of waiters that were offered the lock or passed over; a minute
``drc:locks:{name}:handoffs``        zset    hand-offs that were not taken yet; a minute
``drc:locks:{name}:probes``          zset    waiters that were probed; a minute
``drc:locks:{name}:wakeup:<token>``  list    wakeup key of one waiter; 2 s
``drc:locks:{name}:wakeup``          list    wakeup key of any waiter; 2 s
===================================  ======  ======================================================================

Keys of a `ReadWriteLock`, in the slot of ``{name}``, and of a `MultiLock`, in the slot of ``{group}``:

=========================================  ======  ==============================================================
``drc:locks:{name}:rw:writer``             string  the writer's token; TTL: the lease
``drc:locks:{name}:rw:readers``            zset    readers' tokens by the ends of their leases; the longest lease
``drc:locks:{name}:rw:fence`` (and so on)  -       fence, queue, and under ``rw:writer`` the others: as above
``…:rw:writer:holder:<token>``             string  the holder, or the operator of a forced release: as above
``drc:locks:{group}:group``                hash    the names that each waiter requested; as the queue
``drc:locks:{group}:group:held:<name>``    string  the holder's token; the lease
``drc:locks:{group}:group:queue:<name>``   zset    waiters by ticket; as the queue
``drc:locks:{group}:group:fence:<name>``   string  the last fencing token; the lease and an hour
``…:group:holder:<token>``                 string  the holder, or the operator of a forced release: as above
=========================================  ======  ==============================================================

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

from django_redis_components.core.leasing.forced_release import ForcedRelease
from django_redis_components.core.leasing.holder import LeaseHolder
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
from django_redis_components.locks.operators import aforce_release, force_release
from django_redis_components.locks.readwrite import ReadLock, ReadWriteLock, WriteLock
from django_redis_components.locks.state import LockState, ReadWriteState

if TYPE_CHECKING:
    from django_redis_components.locks.models import FencedModel

__all__ = [
    "FencedModel",
    "ForcedRelease",
    "LeaseHolder",
    "Lock",
    "LockError",
    "LockLost",
    "LockNotAcquired",
    "LockNotOwned",
    "LockState",
    "MultiLock",
    "NotEnoughReplicas",
    "ReadLock",
    "ReadWriteLock",
    "ReadWriteState",
    "StaleFence",
    "WriteLock",
    "afenced_update",
    "aforce_release",
    "fenced_update",
    "force_release",
    "lock",
]


def __getattr__(name: str) -> object:
    """Import the model lazily: it needs loaded apps, and locks may be imported before that."""
    if name == "FencedModel":
        from django_redis_components.locks.models import FencedModel

        return FencedModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Semaphores: a limited number of holders at a time among all processes of a site.

Guarantees. No permit is granted while as many unexpired permits as the limit are held, regardless of the clients'
clocks: one script counts and grants, on the server's clock. If a holder dies, its permit expires. With `renew` one
thread of the process renews its permits while the process lives. `acquire`, `release`, `extend` and `set_limit` may
be repeated after a lost reply. Waiters are served in FIFO order, without polling. The permits that are offered to dead
waiters are unavailable for about 0.2 s in total, those offered to hanging waiters for 2 s in total. A late holder is
notified: `extend`, `release` and `check` raise, and `lost` is set by the process's own clock.

Limits. A lease cannot stop a holder that was paused past its end. More processes than permits may then be at work.

Keys, all in the slot of ``{name}``:

=========================================  ======  =====================================================================
``drc:semaphores:{name}``                  zset    permits by expiry time; TTL: until the last one expires
``drc:semaphores:{name}:holder:<permit>``  string  its holder; the lease. After a forced release the operator; an hour
``drc:semaphores:{name}:queue``            zset    waiters by ticket; a minute after the last request of a waiter
``drc:semaphores:{name}:asked``            zset    time of each waiter's last request; as the queue
``drc:semaphores:{name}:paused``           zset    tickets of waiters that were offered permits or passed over; a minute
``drc:semaphores:{name}:handoffs``         zset    hand-offs that were not taken yet; a minute
``drc:semaphores:{name}:probes``           zset    waiters that were probed; a minute
``drc:semaphores:{name}:wakeup:<permit>``  list    wakeup key of one waiter; 2 s
``drc:semaphores:{name}:wakeup``           list    wakeup key of any waiter; 2 s
``drc:semaphores:{name}:limit``            string  the limit that `set_limit` has set; until it is set to None
=========================================  ======  =====================================================================

Example::

    from django_redis_components.semaphores import Semaphore, SemaphoreFull, semaphore

    with Semaphore("reports", 3, timeout=60):
        print("one of three")

    @semaphore("api:{customer_id}", limit=5, on_conflict="skip")
    def sync(customer_id: int) -> str:
        return "done"

    sync(customer_id=7)

See also: `django_redis_components.locks` for exactly one holder; docs/components/semaphores.md.
"""

from __future__ import annotations

from django_redis_components.core.leasing.forced_release import ForcedRelease
from django_redis_components.core.leasing.holder import LeaseHolder
from django_redis_components.semaphores.decorator import semaphore
from django_redis_components.semaphores.exceptions import (
    PermitLost,
    PermitNotOwned,
    SemaphoreError,
    SemaphoreFull,
    TooManyPermits,
)
from django_redis_components.semaphores.operators import aforce_release, force_release
from django_redis_components.semaphores.semaphore import Semaphore
from django_redis_components.semaphores.state import PermitHolder, SemaphoreState

__all__ = [
    "ForcedRelease",
    "LeaseHolder",
    "PermitHolder",
    "PermitLost",
    "PermitNotOwned",
    "Semaphore",
    "SemaphoreError",
    "SemaphoreFull",
    "SemaphoreState",
    "TooManyPermits",
    "aforce_release",
    "force_release",
    "semaphore",
]

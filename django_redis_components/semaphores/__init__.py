"""Semaphores: at most so many holders at once among all processes of a site.

Guarantees. None is granted while there are as many unexpired permits as the limit, whatever the clients'
clocks say: one script on the server's clock counts and grants. A permit whose holder died expires. With
`renew` one thread of the process renews its permits while it lives. `acquire`, `release`, `refresh` and
`set_limit` may be repeated after a lost reply. Who waits is served in the order in which they came, without
polling; waiters that died cost those behind them the permits they are offered for 0.2 s in all, those that hang for
2 s. A holder that is late learns it: `refresh` and `release` return False, `check` raises and `lost` is set by its own
clock.

What no lease can do: stop a holder that was paused past its end. Then there may be more at work than permits.

Keys, all in the slot of ``{name}``:

===========================================  ====  ============================================================
``drc:semaphores:{name}``                    zset  permits by the time at which they expire; until the last does
``drc:semaphores:{name}:queue``              zset  waiting permits by ticket; a minute after the last of them asked
``drc:semaphores:{name}:asked``              zset  when each of them asked last; as the queue
``drc:semaphores:{name}:paused``             zset  tickets of those that were offered one, or missed a turn; a minute
``drc:semaphores:{name}:handoffs``           zset  who was handed one and has not taken it yet; a minute
``drc:semaphores:{name}:probes``             zset  who was woken to see whether it lives; a minute
``drc:semaphores:{name}:wakeup:<permit>``    list  wakes one waiter; 2 s
``drc:semaphores:{name}:wakeup``             list  wakes any waiter; 2 s
``drc:semaphores:{name}:limit``              text  the limit that `set_limit` has set; until it is set to None
===========================================  ====  ============================================================

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

from django_redis_components.semaphores.decorator import semaphore
from django_redis_components.semaphores.exceptions import (
    PermitLost,
    PermitNotHeld,
    SemaphoreError,
    SemaphoreFull,
    TooManyPermits,
)
from django_redis_components.semaphores.holder import PermitHolder
from django_redis_components.semaphores.semaphore import Semaphore

__all__ = [
    "PermitHolder",
    "PermitLost",
    "PermitNotHeld",
    "Semaphore",
    "SemaphoreError",
    "SemaphoreFull",
    "TooManyPermits",
    "semaphore",
]

"""Semaphores: at most so many holders at once among all processes of a site.

Guarantees. There are never more unexpired permits than the limit, whatever the clients' clocks say: one
script on the server's clock counts and grants. A permit whose holder died expires. `acquire`, `release`
and `refresh` may be repeated after a lost reply. Who waits is served in the order in which they came,
without polling; a waiter that died costs those behind it one permit for two seconds. A holder that is late
learns it: `refresh` and `release` return False.

Keys, all in the slot of ``{name}``:

===========================================  ====  ============================================================
``drc:semaphores:{name}``                    zset  permits by the time at which they expire; until the last does
``drc:semaphores:{name}:queue``              zset  waiting permits by ticket; 6 s after the last of them asked
``drc:semaphores:{name}:alive``              zset  until when they count as alive; as the queue
``drc:semaphores:{name}:bell:<permit>``      list  wakes one waiter; 2 s
===========================================  ====  ============================================================

Example::

    from django_redis_components.semaphores import Semaphore, SemaphoreFull, semaphore

    with Semaphore("reports", 3, timeout=60):
        print("one of three")

    @semaphore("api:{customer_id}", limit=5, on_conflict="skip")
    def sync(customer_id: int) -> str:
        return "done"

    sync(customer_id=7)

See also: `django_redis_components.locks` for exactly one holder; docs/semaphores.md.
"""

from __future__ import annotations

from django_redis_components.semaphores.decorator import semaphore
from django_redis_components.semaphores.exceptions import SemaphoreError, SemaphoreFull
from django_redis_components.semaphores.holder import PermitHolder
from django_redis_components.semaphores.semaphore import Semaphore

__all__ = ["PermitHolder", "Semaphore", "SemaphoreError", "SemaphoreFull", "semaphore"]

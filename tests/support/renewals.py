"""The thread that renews leases: whether it runs, and how a test makes it renew or end."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any

from django_redis_components.core.leasing.lease import Lease
from django_redis_components.core.leasing.owner import OwnedLeases
from django_redis_components.core.leasing.renewal import LeaseWatch, RenewalPolicy, renewer
from tests.support.waiting import eventually


def renew_now(held: Any) -> None:
    """Make the next renewal of a lock or semaphore due, and wait for it.

    A lease so short that it would soon be renewed anyway could expire on a busy machine.
    """
    lease = held.flows.owner_lease()
    before = lease.deadline_at
    renewer.recheck(lease)
    eventually(lambda: lease.deadline_at > before)


def is_renewer_running() -> bool:
    return any(thread.name == "redis-lease-renewer" for thread in threading.enumerate())


def end_renewer() -> None:
    """Wait until the thread has ended. No lease may be watched.

    It may sleep until the renewal of a lease that was released meanwhile was due: another lease wakes it.
    """
    if is_renewer_running():
        released = Lease("", time.monotonic())
        released.mark_released()
        policy = RenewalPolicy(weakref.ref(renewer), "default", 0.0, None)
        renewer.watch(LeaseWatch(policy, released, OwnedLeases(), lambda *_: (), 0, 0.0))
        eventually(lambda: not is_renewer_running())

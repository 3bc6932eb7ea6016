"""What the owner of a lease knows about it by its own clock, without a request to the server."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from typing import Any

from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.leasing.forced_release import ForcedRelease

#: A thread's marker or a task, which owns leases. A weak reference: a lease must not keep its owner alive.
Owner = weakref.ref[Any]

#: Share of a lease by which the local deadline precedes the server's: NTP may slew each clock by up to 500 parts in a
#: million.
DRIFT = 0.001
#: Seconds by which it precedes it in any case: the server rounds to milliseconds.
ROUNDING_S = 0.002


def local_deadline(requested_at: float, ttl_ms: int) -> float:
    """Return the monotonic time until which a lease of `ttl_ms`, requested at `requested_at`, is valid for certain."""
    return requested_at + ttl_ms / 1_000 * (1 - DRIFT) - ROUNDING_S


class _Process:
    """The id of this process, without a system call for each lease."""

    def __init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        """Read the id again, in the child of a fork."""
        self.pid = os.getpid()


_process = _Process()
after_fork_in_child(_process.refresh)


class Lease:
    """One grant, as its owner knows it.

    Attributes:
        token: identifies it on the server.
        deadline_at: monotonic time until which it is valid for certain.
        grant: the number that the script has granted (a lock's fencing token).
        depth: how often its owner has entered a reentrant lock; the last exit releases it.
        release_unknown: a release was sent, and it is not known whether it was executed.
        owner: the thread or task that owns it; None once it was released or lost.
        forced_release: the release by an operator by which it was lost; None if it expired, or that is not known.
        stack, source, number: the list of `OwnedLeases` that contains it, the object it was granted through, and its
            position among all grants of this process.
    """

    # Defaults of the class: each grant makes an object, and setting an attribute takes time.
    owner: Owner | None = None
    forced_release: ForcedRelease | None = None
    source: object = None
    number = 0
    depth = 1
    release_unknown = False
    is_released = False
    _lost = False
    _event: LostEvent | None = None

    def __init__(self, token: str, deadline_at: float, grant: int = 1) -> None:
        self.token = token
        self.deadline_at = deadline_at
        self.grant = grant
        self.pid = _process.pid
        self.stack: list[Lease] = []

    @property
    def has_expired(self) -> bool:
        """Whether the local deadline has passed."""
        return time.monotonic() >= self.deadline_at

    @property
    def is_lost(self) -> bool:
        """Whether it ended without a release."""
        return self._lost or (not self.is_released and self.has_expired)

    @property
    def remaining_s(self) -> float:
        """Seconds for which it is valid for certain."""
        if self._lost or self.is_released or self.release_unknown:
            return 0.0
        return max(0.0, self.deadline_at - time.monotonic())

    @property
    def lost(self) -> LostEvent:
        """The event of this lease, created on first use."""
        if self._event is None:
            event = LostEvent(self)
            if self._event is None:  # else another thread has created it meanwhile
                self._event = event
        return self._event

    def renew(self, deadline_at: float) -> None:
        """Store the deadline that the server has confirmed. Never shortens the lease."""
        self.deadline_at = max(self.deadline_at, deadline_at)

    def mark_lost(self) -> None:
        """Record that the server does not have it any more."""
        self._lost = True
        if self._event is not None:
            self._event.set()

    def mark_released(self) -> None:
        """Record that it was released."""
        self.is_released = True
        if self._event is not None:
            self._event.set()


class LostEvent(threading.Event):
    """Set from the moment a lease is lost, by the server's reply or by the local deadline.

    No thread sets it at the deadline: `is_set` and `wait` read the clock.
    """

    def __init__(self, lease: Lease | None = None) -> None:
        super().__init__()
        self._lease = lease

    def is_set(self) -> bool:
        """Whether the lease is lost."""
        return self._lease is not None and self._lease.is_lost

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the lease is lost (True), is released, or `timeout` seconds have passed (False)."""
        give_up_at = math.inf if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            if self._lease is not None and self._lease.is_released:
                return False  # the release may have come before this event was created
            end = give_up_at if self._lease is None else min(give_up_at, self._lease.deadline_at)
            left_s = end - time.monotonic()
            was_notified = super().wait(None if left_s == math.inf else max(left_s, 0.0))
            if was_notified or time.monotonic() >= give_up_at:
                return self.is_set()
        return True


def if_held(lease: Lease) -> Lease | None:
    """Return the lease, or None if it was released or belongs to a parent process."""
    return None if lease.is_released or lease.pid != _process.pid else lease

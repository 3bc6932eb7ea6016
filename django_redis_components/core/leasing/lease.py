"""What a holder knows of its leases by its own clock, without asking the server."""

from __future__ import annotations

import math
import os
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_redis_components.core.leasing.owner import Owner

#: Share of a lease by which the local deadline comes earlier than the server's: clocks may run at rates
#: that differ by up to 500 parts in a million each while NTP slews them.
DRIFT = 0.001
#: Seconds by which it comes earlier in any case, for the server's rounding to milliseconds.
ROUNDING_S = 0.002


def local_deadline(requested_at: float, ttl_ms: int) -> float:
    """Until when (monotonic seconds) a lease of `ttl_ms`, asked for at `requested_at`, is surely ours."""
    return requested_at + ttl_ms / 1_000 * (1 - DRIFT) - ROUNDING_S


class _Process:
    """The id of this process, without asking the kernel twice for each lease."""

    def __init__(self) -> None:
        self.look()

    def look(self) -> None:
        """After a fork it is another one."""
        self.pid = os.getpid()


_process = _Process()
os.register_at_fork(after_in_child=_process.look)


class Lease:
    """One grant, as its holder knows it.

    Attributes:
        token: what the server knows it by.
        deadline: monotonic seconds until which it is surely ours.
        grant: what the script granted (a lock's fencing token).
        depth: how often its holder has entered; it is given back when the last one leaves.
        release_unknown: giving it back was tried, and whether that was executed is not known.
        owner: whose it is; None when nobody has it any more.
        stack, origin, number: where `OwnedLeases` keeps it, of which object, and its place among all grants.
    """

    __slots__ = (
        "_event",
        "_lost",
        "deadline",
        "depth",
        "grant",
        "is_released",
        "number",
        "origin",
        "owner",
        "pid",
        "release_unknown",
        "stack",
        "token",
    )

    def __init__(self, token: str, deadline: float, grant: int = 1) -> None:
        self.token = token
        self.deadline = deadline
        self.grant = grant
        self.pid = _process.pid
        self.owner: Owner | None = None
        self.stack: list[Lease] = []
        self.origin: object = None
        self.number = 0
        self.depth = 1
        self.release_unknown = False
        self.is_released = False
        self._lost = False
        self._event: LostEvent | None = None

    @property
    def has_expired(self) -> bool:
        """Whether the local deadline has passed."""
        return time.monotonic() >= self.deadline

    @property
    def is_lost(self) -> bool:
        """Whether it ended without being given back."""
        return self._lost or (not self.is_released and self.has_expired)

    @property
    def remaining_s(self) -> float:
        """Seconds for which it is surely ours."""
        if self._lost or self.is_released or self.release_unknown:
            return 0.0
        return max(0.0, self.deadline - time.monotonic())

    @property
    def lost(self) -> LostEvent:
        """The event for this lease, made when first asked for."""
        if self._event is None:
            self._event = LostEvent(self)
        return self._event

    def renew(self, deadline: float) -> None:
        """The server has confirmed it until then. Never shortens."""
        self.deadline = max(self.deadline, deadline)

    def mark_lost(self) -> None:
        """The server does not know it any more."""
        self._lost = True
        self._wake()

    def mark_released(self) -> None:
        """It was given back."""
        self.is_released = True
        self._wake()

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()


class LostEvent(threading.Event):
    """Set from the moment a lease is lost, be it by the server's word or by the local deadline.

    Nobody sets it at the deadline: `is_set` and `wait` look at the clock.
    """

    def __init__(self, lease: Lease | None = None) -> None:
        super().__init__()
        self._lease = lease

    def is_set(self) -> bool:
        """Whether the lease is lost."""
        return self._lease is not None and self._lease.is_lost

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the lease is lost (True), given back, or `timeout` seconds have passed (False)."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            end = until if self._lease is None else min(until, self._lease.deadline)
            left = end - time.monotonic()
            woken = super().wait(None if left == math.inf else max(left, 0.0))
            if woken or time.monotonic() >= until:
                return self.is_set()
        return True


def is_held(lease: Lease) -> Lease | None:
    """The lease, unless it was given back or is a parent process's."""
    return None if lease.is_released or lease.pid != _process.pid else lease

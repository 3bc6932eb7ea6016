"""What a holder knows of its leases by its own clock, without asking the server."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
import weakref
from typing import Any

#: Share of a lease by which the local deadline comes earlier than the server's: clocks may run at rates
#: that differ by up to 500 parts in a million each while NTP slews them.
DRIFT = 0.001
#: Seconds by which it comes earlier in any case, for the server's rounding to milliseconds.
ROUNDING_S = 0.002


def deadline_of(asked_at: float, ttl_ms: int) -> float:
    """Until when (monotonic seconds) a lease of `ttl_ms`, asked for at `asked_at`, is surely ours."""
    return asked_at + ttl_ms / 1_000 * (1 - DRIFT) - ROUNDING_S


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
        entries: how often its holder has entered; it is given back when the last one leaves.
        stack: where `Leases` keeps it.
        returning: giving it back was tried, and whether that was executed is not known.
    """

    __slots__ = ("_event", "_lost", "deadline", "entries", "grant", "is_returned", "pid", "returning", "stack", "token")

    def __init__(self, token: str, deadline: float, grant: int = 1) -> None:
        self.token = token
        self.deadline = deadline
        self.grant = grant
        self.pid = _process.pid
        self.stack: list[Lease] = []
        self.entries = 1
        self.returning = False
        self.is_returned = False
        self._lost = False
        self._event: Lost | None = None

    @property
    def is_overdue(self) -> bool:
        """Whether the local deadline has passed."""
        return time.monotonic() >= self.deadline

    @property
    def is_lost(self) -> bool:
        """Whether it ended without being given back."""
        return self._lost or (not self.is_returned and self.is_overdue)

    @property
    def remaining_s(self) -> float:
        """Seconds for which it is surely ours."""
        if self._lost or self.is_returned or self.returning:
            return 0.0
        return max(0.0, self.deadline - time.monotonic())

    @property
    def lost(self) -> Lost:
        """The event for this lease, made when first asked for."""
        if self._event is None:
            self._event = Lost(self)
        return self._event

    def renew(self, deadline: float) -> None:
        """The server has confirmed it until then. Never shortens."""
        self.deadline = max(self.deadline, deadline)

    def mark_lost(self) -> None:
        """The server does not know it any more."""
        self._lost = True
        self._wake()

    def mark_returned(self) -> None:
        """It was given back."""
        self.is_returned = True
        self._wake()

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()


class Lost(threading.Event):
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


class _OfThread(threading.local):
    """The leases of each thread; None for one that never asked."""

    stack: list[Lease] | None = None


class Leases:
    """The leases of one object, apart for each thread and each asyncio task.

    So that an object may be shared: whoever lost its lease and gives it back late must not give back
    another's. A thread or task that never asked for one speaks for the newest, so that a lease may be taken
    in one place and given back in another. A fork's child holds none of its parent's.
    """

    #: The leases of each task; made with the first.
    _of_tasks: weakref.WeakKeyDictionary[Any, list[Lease]] | None = None

    def __init__(self, *, speaks_for_others: bool = True) -> None:
        """Args: speaks_for_others: False keeps to the leases of the thread or task itself."""
        self._speaks_for_others = speaks_for_others
        self._of_thread = _OfThread()
        #: The last one taken through this object, over or not.
        self.newest: Lease | None = None

    def asked(self) -> list[Lease]:
        """This thread or task asks for one: whatever comes of it, it speaks for itself from now on."""
        stack = self._stack()
        return self._begin() if stack is None else stack

    def add(self, lease: Lease, stack: list[Lease]) -> None:
        """Whoever asked, and has this stack, holds one more; what it let expire is forgotten."""
        if stack:
            stack[:] = [old for old in stack if not old.is_overdue]
        stack.append(lease)
        lease.stack = stack
        self.newest = lease

    def current(self) -> Lease | None:
        """The newest lease of this thread or task; the newest of all, if it never asked for one."""
        stack = self._stack()
        if stack is None and self._speaks_for_others:
            return _held(self.newest)
        return _held(stack[-1]) if stack else None

    def own(self) -> Lease | None:
        """The newest lease of this thread or task."""
        stack = self._stack()
        return _held(stack[-1]) if stack else None

    def returned(self, lease: Lease, *, lost: bool = False) -> None:
        """It was given back, or was to be and the server does not know it any more."""
        if lost:
            lease.mark_lost()
        else:
            lease.mark_returned()
        try:  # noqa: SIM105 - on the way of each release, and a context manager costs more than the rest
            lease.stack.remove(lease)
        except ValueError:
            pass  # forgotten, or given back twice

    def _stack(self) -> list[Lease] | None:
        """What the running task, else the running thread, holds."""
        task = _task()
        if task is None:
            return self._of_thread.stack
        return None if self._of_tasks is None else self._of_tasks.get(task)

    def _begin(self) -> list[Lease]:
        stack: list[Lease] = []
        task = _task()
        if task is None:
            self._of_thread.stack = stack
            return stack
        # In one step, for the tasks of two threads may be the first at the same moment.
        of_tasks: dict[Any, list[Lease]] = self.__dict__.setdefault("_of_tasks", weakref.WeakKeyDictionary())
        return of_tasks.setdefault(task, stack)


def _held(lease: Lease | None) -> Lease | None:
    """The lease, unless it was given back or is a parent process's."""
    return None if lease is None or lease.is_returned or lease.pid != _process.pid else lease


def _task() -> Any:
    return asyncio.current_task() if asyncio._get_running_loop() is not None else None

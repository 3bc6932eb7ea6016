"""Who owns a lease: the thread or asyncio task that called `acquire`.

The methods of locks and semaphores look up the caller when they are called, also the asyncio twins, which are plain
functions that return a coroutine. So the owner is the caller where something else drives the coroutine in another
task: `asyncio.wait_for` on Python 3.11, `gather`, `shield`, `create_task`, `run_coroutine_threadsafe`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar

from django_redis_components.core.leasing.lease import Lease, is_held

#: A task, or the mark of a thread, held weakly: what owns a lease must not be kept alive by it.
Owner = weakref.ref[Any]

#: One number for each question and each grant of this process, in their order.
_numbers = itertools.count(1)
#: Fewest records of an object before those of ended owners are dropped.
SWEEP_AT = 16


class _Mark:
    """Stands for a thread. It is collected when its thread ends."""

    __slots__ = ("__weakref__",)

    def done(self) -> bool:
        """As long as it is there, its thread runs."""
        return False


class _OfThread(threading.local):
    """The mark of each thread, and the owner that a lease of this thread has."""

    def __init__(self) -> None:
        self.mark = _Mark()
        self.owner: Owner = weakref.ref(self.mark)


_of_thread = _OfThread()


class _Takeover:
    """The mutex of `OwnedLeases.claim`, made anew in the child of a fork: a thread of the parent may hold it."""

    mutex: ClassVar[threading.RLock]

    @classmethod
    def renew(cls) -> None:
        """Make it. Reentrant, because a finalizer may claim a lease while this thread does."""
        cls.mutex = threading.RLock()


_Takeover.renew()
os.register_at_fork(after_in_child=_Takeover.renew)


def current_owner() -> Owner:
    """The running task, else the running thread."""
    task = asyncio.current_task() if asyncio._get_running_loop() is not None else None
    return _of_thread.owner if task is None else weakref.ref(task)


def has_ended(owner: Owner) -> bool:
    """Whether the task is done, or the thread has ended."""
    who = owner()
    return who is None or bool(who.done())


class Acquisition:
    """One call of `acquire`, or one `with` block.

    Attributes:
        owner: who made the call.
        lease: what it was granted, until the block has given it back.
        depth: which entry of the lease it is: above 1 where a reentrant lock was held already.
        is_leaving: whether the block has begun to give its lease back.
        of: id of the object, while a block has not asked yet.
    """

    __slots__ = ("depth", "is_leaving", "lease", "of", "owner")

    def __init__(self, owner: Owner | None = None, of: int = 0) -> None:
        self.owner = current_owner() if owner is None else owner
        self.lease: Lease | None = None
        self.depth = 1
        self.is_leaving = False
        self.of = of

    def held(self) -> Lease | None:
        """What it was granted, if its owner has that still."""
        lease = self.lease
        return lease if lease is not None and lease.owner is self.owner and is_held(lease) else None


class _Record:
    """What one owner has of one object.

    Attributes:
        leases: the last one granted is the last.
        asked: number of its last question, if that was not granted (yet); else 0.
    """

    __slots__ = ("asked", "leases")

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.asked = 0


class Records(dict[Owner, _Record]):
    """The records of one object, or of all reentrant objects of one lock."""

    __slots__ = ("__weakref__", "sweep_at")

    def __init__(self) -> None:
        self.sweep_at = SWEEP_AT

    def of(self, owner: Owner) -> _Record:
        """The record of this owner, made on first use."""
        record = self.get(owner)
        if record is None:
            if len(self) >= self.sweep_at:
                self._sweep()
            record = self.setdefault(owner, _Record())
        return record

    def _sweep(self) -> None:
        """Drop the records of ended owners that have nothing left to take over."""
        for owner, record in self.copy().items():
            if has_ended(owner) and all(lease.has_expired for lease in record.leases):
                self.pop(owner, None)
        self.sweep_at = 2 * len(self) + SWEEP_AT


class OwnedLeases:
    """The leases granted through one object, by owner.

    A lease of a living owner is invisible to all others: no other thread or task can release, extend or renew it. The
    lease of an owner that has ended can be taken over once, by a caller that has none of its own. So
    ``async_to_sync(lock.aacquire)()`` in a thread, whose inner task ends, is followed by ``lock.release()``.

    A caller whose `acquire` was refused cannot take over what was granted before it asked: it knows that another
    holds it. The child of a fork owns nothing.
    """

    def __init__(self, records: Records | None = None) -> None:
        """Args: records: those that reentrant objects of one lock share."""
        self.records = Records() if records is None else records
        #: What tells the leases of this object from those of others with the same records.
        self._origin = object()
        #: The last one granted through this object, over or not.
        self.newest: Lease | None = None

    def ask(self, acquisition: Acquisition) -> None:
        """An owner asks for a lease. Until one is granted it can take over only what is granted from now on."""
        self.records.of(acquisition.owner).asked = next(_numbers)

    def add(self, lease: Lease, acquisition: Acquisition) -> None:
        """The owner has one more; what it let expire is forgotten."""
        acquisition.lease = lease
        record = self.records.of(acquisition.owner)
        record.asked = 0
        stack = record.leases
        if stack:
            stack[:] = [old for old in stack if not old.has_expired]
        stack.append(lease)
        lease.stack = stack
        lease.owner = acquisition.owner
        lease.origin = self._origin
        lease.number = next(_numbers)
        self.newest = lease

    def own(self, owner: Owner) -> Lease | None:
        """The newest lease of this owner."""
        record = self.records.get(owner)
        return is_held(record.leases[-1]) if record is not None and record.leases else None

    def current(self, owner: Owner | None = None) -> Lease | None:
        """The newest lease of the owner, the caller by default; else one that it may take over. Changes nothing."""
        if self.newest is None and not self.records:
            return None
        who = current_owner() if owner is None else owner
        return self.own(who) or self._abandoned(who)

    def claim(self, owner: Owner) -> Lease | None:
        """The newest lease of the owner; without one it takes over that of an owner that has ended."""
        lease = self.own(owner)
        if lease is not None:
            return lease
        with _Takeover.mutex:  # of two callers one takes it over
            lease = self._abandoned(owner)
            if lease is not None:
                with contextlib.suppress(ValueError):  # forgotten
                    lease.stack.remove(lease)
                lease.owner = owner
                lease.stack = self.records.of(owner).leases
                lease.stack.append(lease)
        return lease

    def with_same_token(self, lease: Lease) -> list[Lease]:
        """Other leases under the same token: those of previous owners, for it has one owner at a time."""
        found = [old for record in self.records.copy().values() for old in record.leases]
        return [old for old in found if old.token == lease.token and old is not lease]

    def returned(self, lease: Lease, *, lost: bool = False) -> None:
        """It was given back, or was to be and the server does not know it any more."""
        try:  # noqa: SIM105 - on the way of each release, and a context manager costs more than the rest
            lease.stack.remove(lease)  # first: an interruption must not leave a lease on top that is over
        except ValueError:
            pass  # forgotten, or given back twice
        lease.owner = None
        if lost:
            lease.mark_lost()
        else:
            lease.mark_released()

    @contextlib.contextmanager
    def shown(self, lease: Lease) -> Iterator[None]:
        """Let the caller see this lease as its own for the block."""
        mine = self.records.of(current_owner()).leases
        mine.append(lease)
        try:
            yield
        finally:
            mine.clear()

    def _abandoned(self, owner: Owner) -> Lease | None:
        """The newest lease of this object whose owner has ended, if this owner may take it over."""
        record = self.records.get(owner)
        asked = 0 if record is None else record.asked
        found: Lease | None = None
        for other, each in self.records.copy().items():
            if each.leases and has_ended(other):
                for lease in each.leases:
                    if lease.origin is self._origin and lease.number > max(asked, found.number if found else 0):
                        found = is_held(lease) or found
        return found

"""Who owns a lease: the thread or asyncio task that called `acquire`.

The methods of locks and semaphores look up the caller when they are called, also the asyncio twins, which are plain
functions that return a coroutine. So the owner is the caller where something else drives the coroutine in another
task: `asyncio.wait_for` on Python 3.11, `gather`, `shield`, `create_task`, `run_coroutine_threadsafe`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import ClassVar

from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.leasing.lease import Lease, Owner, if_held

#: Numbers all requests and grants of this process, in their order.
_numbers = itertools.count(1)
#: Fewest records of an object before those of ended owners are removed.
SWEEP_AT = 16


class _ThreadMarker:
    """Represents a thread. It is collected when the thread ends."""

    __slots__ = ("__weakref__",)

    def done(self) -> bool:
        """Return False: while the marker exists, its thread runs."""
        return False


class _ThreadOwner(threading.local):
    """The marker of each thread, and the owner of the leases that the thread acquires."""

    def __init__(self) -> None:
        self.marker = _ThreadMarker()
        self.owner: Owner = weakref.ref(self.marker)


_thread_owner = _ThreadOwner()


class Mutexes:
    """The locks of this module, created again in the child of a fork: a thread of the parent may hold them.

    Reentrant, because a finalizer may obtain a lease, or create a lock, while this thread does.
    """

    takeover: ClassVar[threading.RLock]
    shared: ClassVar[threading.RLock]

    @classmethod
    def create(cls) -> None:
        """Create them."""
        cls.takeover, cls.shared = threading.RLock(), threading.RLock()


Mutexes.create()
after_fork_in_child(Mutexes.create)


def current_owner() -> Owner:
    """Return the running task, else the running thread."""
    task = asyncio.current_task() if asyncio._get_running_loop() is not None else None
    return _thread_owner.owner if task is None else weakref.ref(task)


def has_ended(owner: Owner) -> bool:
    """Whether the task is done, or the thread has ended."""
    target = owner()
    return target is None or bool(target.done())


class Acquisition:
    """One call of `acquire`, or one `with` block.

    Attributes:
        owner: the caller.
        lease: the lease that was granted, until the block has released it.
        depth: which entry of the lease this is: above 1 for a reentrant lock that was held before.
        permits: how many permits are requested; 1 for locks.
        limit: how many permits exist, as a refusal has reported it.
        late_for: what had passed when the reply arrived that granted a lease, for the error; empty if it was in time.
        is_leaving: whether the block has started to release its lease.
        object_id: id of the object, while a block has not sent its request yet.
    """

    lease: Lease | None = None
    depth = 1
    limit = 1
    late_for = ""
    is_leaving = False

    def __init__(self, owner: Owner | None = None, object_id: int = 0, permits: int = 1) -> None:
        self.owner = current_owner() if owner is None else owner
        self.object_id = object_id
        self.permits = permits

    def held(self) -> Lease | None:
        """Return the granted lease if the owner still has it."""
        lease = self.lease
        return lease if lease is not None and lease.owner is self.owner and if_held(lease) else None


class _Record:
    """What one owner has of one object.

    Attributes:
        leases: in the order in which they were granted.
        refused: number of the last request if it was not granted (yet), else 0.
    """

    __slots__ = ("leases", "refused")

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.refused = 0


class Records(dict[Owner, _Record]):
    """The records of one object, or of all reentrant objects of one lock."""

    __slots__ = ("__weakref__", "sweep_at")

    def __init__(self) -> None:
        self.sweep_at = SWEEP_AT

    def of(self, owner: Owner) -> _Record:
        """Return the record of this owner, created on first use."""
        record = self.get(owner)
        if record is None:
            if len(self) >= self.sweep_at:
                self._sweep()
            record = self.setdefault(owner, _Record())
        return record

    def _sweep(self) -> None:
        """Remove the records of ended owners whose leases have expired."""
        for owner, record in self.copy().items():
            if has_ended(owner) and all(lease.has_expired for lease in record.leases):
                self.pop(owner, None)
        self.sweep_at = 2 * len(self) + SWEEP_AT


_shared: weakref.WeakValueDictionary[tuple[str, str], Records] = weakref.WeakValueDictionary()


def shared_records(using: str, identity: str) -> Records:
    """Return the records of all reentrant objects of one lock. They exist while one of these objects is in use."""
    with Mutexes.shared:
        records = _shared.get((using, identity))
        if records is None:
            records = _shared[using, identity] = Records()
        return records


class OwnedLeases:
    """The leases granted through one object, by owner.

    A lease of a running owner is invisible to all others: no other thread or task can release, extend or renew it. The
    lease of an owner that has ended can be taken over once, by a caller that has none. So
    ``async_to_sync(lock.aacquire)()`` in a thread, whose inner task ends, may be followed by ``lock.release()``.

    A caller whose `acquire` was refused cannot take over what was granted before its request: another owner holds it.
    The child of a fork owns nothing.
    """

    def __init__(self) -> None:
        #: The requests and leases of each owner.
        self.records = Records()
        #: Distinguishes the leases of this object from those of others with the same records.
        self._source = object()
        #: The lease that was granted last through this object, also when it is over.
        self.newest: Lease | None = None

    def record_request(self, acquisition: Acquisition) -> None:
        """Record a request. Until it is granted, its owner can take over only what is granted later."""
        owner = acquisition.owner
        record = self.records.get(owner) or self.records.of(owner)  # `get` first: on the path of each acquisition
        record.refused = next(_numbers)

    def add(self, lease: Lease, acquisition: Acquisition) -> None:
        """Add a lease that was granted, and remove those of the owner that have expired."""
        acquisition.lease = lease
        record = self.records.get(acquisition.owner) or self.records.of(acquisition.owner)
        record.refused = 0
        stack = record.leases
        if stack:
            stack[:] = [old for old in stack if not old.has_expired]
        stack.append(lease)
        lease.stack = stack
        lease.owner = acquisition.owner
        lease.source = self._source
        lease.number = next(_numbers)
        self.newest = lease

    def own(self, owner: Owner) -> Lease | None:
        """Return the newest lease of this owner."""
        record = self.records.get(owner)
        return if_held(record.leases[-1]) if record is not None and record.leases else None

    def current(self, owner: Owner | None = None) -> Lease | None:
        """Return the owner's (default: the caller's) newest lease, else one that it may take over. Changes nothing."""
        if self.newest is None and not self.records:
            return None
        caller = current_owner() if owner is None else owner
        return self.own(caller) or self._orphaned(caller)

    def obtain(self, owner: Owner) -> Lease | None:
        """Return the newest lease of the owner; without one, take over the lease of an owner that has ended."""
        record = self.records.get(owner)
        if record is not None and record.leases and (lease := if_held(record.leases[-1])) is not None:
            return lease
        with Mutexes.takeover:  # of two callers one takes it over
            lease = self._orphaned(owner)
            if lease is not None:
                with contextlib.suppress(ValueError):  # removed already
                    lease.stack.remove(lease)
                lease.owner = owner
                lease.stack = self.records.of(owner).leases
                lease.stack.append(lease)
        return lease

    def others_with_token(self, lease: Lease) -> list[Lease]:
        """Return other leases with the same token: those of its previous owners."""
        found = [old for record in self.records.copy().values() for old in record.leases]
        return [old for old in found if old.token == lease.token and old is not lease]

    def remove(self, lease: Lease, *, lost: bool = False) -> None:
        """Remove a lease that was released, or (`lost`) that the server did not have when it was to be released."""
        try:  # noqa: SIM105 - on the path of each release, where a context manager costs more than all the rest
            lease.stack.remove(lease)  # first: an interruption must not leave an ended lease on top
        except ValueError:
            pass  # removed before, or released twice
        lease.owner = None
        if lost:
            lease.mark_lost()
        else:
            lease.mark_released()

    @contextlib.contextmanager
    def lent_to_caller(self, lease: Lease) -> Iterator[None]:
        """Show this lease to the caller as its own while the block runs."""
        own = self.records.of(current_owner()).leases
        own.append(lease)
        try:
            yield
        finally:
            own.clear()

    def _orphaned(self, owner: Owner) -> Lease | None:
        """Return the newest lease of this object whose owner has ended, if this owner may take it over."""
        record = self.records.get(owner)
        refused = 0 if record is None else record.refused
        found: Lease | None = None
        for other, each in self.records.copy().items():
            if each.leases and has_ended(other):
                for lease in each.leases:
                    if lease.source is self._source and lease.number > max(refused, found.number if found else 0):
                        found = if_held(lease) or found
        return found


class SharedLeases(OwnedLeases):
    """The leases granted through a reentrant object. Its records are those of all reentrant objects of this lock."""

    def __init__(self, using: str, identity: Callable[[], str]) -> None:
        """Args: identity: returns which lock it is. Called on first use, when the settings are loaded."""
        self._source = object()
        self.newest = None
        self._using, self._identity = using, identity

    @cached_property
    def records(self) -> Records:  # type: ignore[override]
        """The requests and leases of each owner."""
        return shared_records(self._using, self._identity())

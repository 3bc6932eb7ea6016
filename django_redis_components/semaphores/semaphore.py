"""The semaphore."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from asgiref.sync import markcoroutinefunction

from django_redis_components.core.arguments import check_int
from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing.flows import LeaseFlows
from django_redis_components.core.leasing.leased import Leased
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.semaphores.exceptions import PermitLost, PermitNotOwned, SemaphoreFull
from django_redis_components.semaphores.permits import MAX_LIMIT, MAX_PERMITS, PermitKind
from django_redis_components.semaphores.state import SemaphoreState


class SemaphoreFlows(LeaseFlows):
    """The operations of a semaphore."""

    noun = "semaphore"
    not_owned = PermitNotOwned
    lost_error = PermitLost

    def not_acquired(self, acquisition: Acquisition) -> SemaphoreFull:
        """Return the error of a `with` block that did not get a permit."""
        return SemaphoreFull(self.name, acquisition.limit, self.wait_limit_s, acquisition.late_for)


class Semaphore(Leased):
    """At most `limit` permits held at once among all processes that use this name.

    A permit expires after `timeout`, on the server's clock, so that a holder that died does not keep it. Use `renew`
    or `extend` for work that takes longer; `check` verifies without a request that the lease is still valid. Permits
    belong to the thread or task that called `acquire`: an object may be shared, and may be acquired several times.
    Methods about a permit are about the one that this thread or task acquired last. `adopt` transfers it.

    Each method that sends a request has an asyncio twin with an ``a`` before its name, and raises
    `redis.exceptions.RedisError` when the server does not answer. Then it may be repeated: `acquire` and `release` are
    idempotent by token, also when only the reply was lost.

    Args:
        name: 1 to 200 bytes, without control characters and braces.
        limit: number of permits, unless `set_limit` has set another for all. Where processes disagree, each applies its
            own limit.
        timeout: seconds of a lease.
        renew: whether a thread of this process renews the lease when a third of it has passed, as long as the process
            lives and this object is referenced.
        max_lease: seconds after which it is not renewed any more, against work that never ends.
        blocking: whether `acquire` and `with` wait for permits, in FIFO order.
        blocking_timeout: longest wait in seconds; None waits without a limit.
        on_lost: called with the semaphore, in a thread of ours, as soon as a permit of it is lost.
        using: our connection alias.

    Attributes:
        limit: the limit of this object.

    Raises:
        TypeError, ValueError: an argument has a wrong type or value.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        *,
        timeout: Seconds = 10.0,
        renew: bool = False,
        max_lease: Seconds | None = None,
        blocking: bool = True,
        blocking_timeout: Seconds | None = None,
        on_lost: Callable[[Semaphore], object] | None = None,
        using: str = "default",
    ) -> None:
        self._kind = PermitKind(name, check_int(limit, "limit", 1, MAX_LIMIT), timeout)
        self.name = self._kind.name
        self.limit = limit
        flows = SemaphoreFlows(
            self,
            name,
            self._kind,
            timeout=timeout,
            renew=renew,
            max_lease=max_lease,
            blocking=blocking,
            blocking_timeout=blocking_timeout,
            on_lost=on_lost,
            using=using,
        )
        super().__init__(name, flows, using)

    def __repr__(self) -> str:
        return f"<Semaphore {self.name!r} of {self.limit}>"

    def acquire(
        self, permits: int = 1, *, blocking: bool | None = None, blocking_timeout: Seconds | None = None
    ) -> bool:
        """Acquire permits, all or none. They belong to the calling thread or task, which must `release` them.

        Args:
            permits: 1 to the limit, at most 1,000.
            blocking: whether to wait; None: as the object was created.
            blocking_timeout: longest wait in seconds; None: as the object was created.

        Returns:
            True if they were acquired, False if there are not enough.

        Raises:
            TypeError, ValueError: an argument has a wrong type or value.
            TooManyPermits: `set_limit` allows fewer than that, so that waiting would never succeed.
        """
        acquisition = self._acquisition(permits)
        return run(client(self.using), self.flows.acquire(blocking, blocking_timeout, acquisition=acquisition))

    @markcoroutinefunction
    def aacquire(
        self, permits: int = 1, *, blocking: bool | None = None, blocking_timeout: Seconds | None = None
    ) -> Coroutine[Any, Any, bool]:
        """See `acquire`. A cancelled task leaves the queue, and releases what it was just granted."""
        acquisition = self._acquisition(permits)
        return self._arun(self.flows.acquire(blocking, blocking_timeout, acquisition=acquisition))

    def set_limit(self, limit: int | None) -> None:
        """Set the limit for all users of this name at once, whatever limit their objects have.

        It remains until it is set again; None removes it. Permits that are held stay held: after a lower limit no
        permit is granted until enough were released. After a higher one waiters get their permits at once.

        Raises:
            TypeError, ValueError: not an integer from 1 to 1,000,000.
        """
        run(client(self.using), _set_limit(self._kind, limit))

    async def aset_limit(self, limit: int | None) -> None:
        """See `set_limit`."""
        await arun(aclient(self.using), _set_limit(self._kind, limit))

    def available(self) -> int:
        """Return how many permits are free. Another process may acquire them before the caller does."""
        return run(client(self.using), _available(self._kind))

    async def aavailable(self) -> int:
        """See `available`."""
        return await arun(aclient(self.using), _available(self._kind))

    def inspect(self) -> SemaphoreState:
        """Read the limit, the holders of permits and the waiters. Changes nothing."""
        return run(client(self.using), self._kind.inspect())

    async def ainspect(self) -> SemaphoreState:
        """See `inspect`."""
        return await arun(aclient(self.using), self._kind.inspect())

    def _acquisition(self, permits: int) -> Acquisition:
        if type(permits) is not int or permits != 1:
            permits = check_int(permits, "permits", 1, min(self.limit, MAX_PERMITS))
        return Acquisition(permits=permits)


def _set_limit(kind: PermitKind, limit: int | None) -> Flow[None]:
    yield kind.set_limit(limit)


def _available(kind: PermitKind) -> Flow[int]:
    state = yield from kind.inspect()
    return max(0, (state.limit or 0) - state.held)

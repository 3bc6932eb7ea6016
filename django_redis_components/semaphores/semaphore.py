"""The semaphore."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from typing import Any

from asgiref.sync import markcoroutinefunction

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing.context_managers import Blocks
from django_redis_components.core.leasing.lease import LostEvent
from django_redis_components.core.leasing.owner import current_owner
from django_redis_components.core.leasing.renewal_policy import renewal_policy_for
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.semaphores.flows import Holder, PermitHolder


class Semaphore(Blocks):
    """At most `limit` permits held at once among all processes that use this name.

    A permit expires by itself after `timeout`, on the server's clock, so that a holder that died gives it
    back. Work that takes longer is to `renew` or `refresh` it; `check` tells, without asking the server,
    whether it still lasts. Permits belong to the
    thread or task that called `acquire`: an object may be shared, and may be taken several times. What is said of
    its permit is said of what this thread or task took last.

    Each method that talks to Redis has an asyncio twin with an ``a`` before its name, and raises
    `redis.exceptions.RedisError` when the server does not answer. Then it may be called again: `acquire` and
    `release` know their own permit, also when only the reply was lost.

    Args:
        name: 1 to 200 bytes, without control characters and braces.
        limit: how many permits there are, unless `set_limit` has said otherwise for all. Where processes
            disagree, each keeps to its own figure.
        timeout: seconds of a lease.
        renew: whether a thread of this process renews the lease at a third of its time, for as long as the
            process lives and this object is in use.
        max_lease: seconds after which it is not renewed any longer, against work that never ends.
        blocking: whether `acquire` and `with` wait for permits, first come, first served.
        blocking_timeout: seconds to wait at most, with `blocking`; None waits for ever.
        on_lost: called with the semaphore, in a thread of ours, as soon as a permit of it is lost.
        using: our connection alias.

    Raises:
        TypeError, ValueError: an argument is not of this kind.
    """

    _holder: Holder

    def __init__(
        self,
        name: str,
        limit: int,
        *,
        timeout: Seconds = 10.0,
        renew: bool = False,
        max_lease: Seconds | None = None,
        blocking: bool = False,
        blocking_timeout: Seconds | None = None,
        on_lost: Callable[[Semaphore], object] | None = None,
        using: str = "default",
    ) -> None:
        self.name = name
        self.limit = limit
        policy = renewal_policy_for(self, "semaphore", using, timeout, renew, max_lease, on_lost)
        self._holder = Holder(name, limit, timeout, blocking, blocking_timeout, policy, using)
        self._using = using

    def __repr__(self) -> str:
        return f"<Semaphore {self.name!r} of {self.limit}>"

    def acquire(self, permits: int = 1) -> bool:
        """Take permits, all or none. They belong to the calling thread or task.

        Returns:
            True if they are ours now, False if there are not enough.

        Raises:
            TypeError, ValueError: not a whole number from 1 to the limit, or above 1,000.
            TooManyPermits: `set_limit` has left fewer than that, so that no wait would bring them.
        """
        return run(client(self._using), self._holder.acquire(permits))

    @markcoroutinefunction
    def aacquire(self, permits: int = 1) -> Coroutine[Any, Any, bool]:
        """See `acquire`. A cancelled task leaves the line, or gives back what it was just granted."""
        return self._run_async(self._holder.acquire(permits))

    def release(self) -> bool:
        """Give back what was taken last; the first in line has it at once.

        Returns:
            True if it was ours until now; False if it had expired, or nothing was taken.
        """
        return run(client(self._using), self._holder.release())

    @markcoroutinefunction
    def arelease(self) -> Coroutine[Any, Any, bool]:
        """See `release`."""
        return self._run_async(self._holder.release(current_owner()))

    def adopt(self, token: str) -> None:
        """Go on with the permits that are held under this token, for what is left of their lease. Writes nothing.

        It hands permits over, to another process, thread or task: from now on the caller owns them, and through
        this object no other does.

        Raises:
            PermitNotHeld: nothing is held under this token.
        """
        run(client(self._using), self._holder.adopt(token, current_owner()))

    @markcoroutinefunction
    def aadopt(self, token: str) -> Coroutine[Any, Any, None]:
        """See `adopt`."""
        return self._run_async(self._holder.adopt(token, current_owner()))

    def refresh(self) -> bool:
        """Let what was taken last keep for its full `timeout` again. False if it is lost."""
        return run(client(self._using), self._holder.refresh())

    @markcoroutinefunction
    def arefresh(self) -> Coroutine[Any, Any, bool]:
        """See `refresh`."""
        return self._run_async(self._holder.refresh(current_owner()))

    def check(self) -> None:
        """Go on only while the permit is surely ours. Asks nobody.

        Raises:
            PermitLost: it has expired.
            PermitNotHeld: nothing was taken, or it was given back.
        """
        self._holder.check()

    def remaining(self) -> float:
        """Seconds for which the permit is surely ours; 0.0 without one. Asks nobody."""
        lease = self._holder.leases.current()
        return lease.remaining_s if lease else 0.0

    @property
    def token(self) -> str | None:
        """What the permit is known by on the server; None when nothing was taken."""
        lease = self._holder.leases.current()
        return lease.token if lease else None

    @property
    def lost(self) -> threading.Event:
        """Set from the moment the permit is lost, also when nobody looks at it: it goes by the clock."""
        lease = self._holder.leases.current() or self._holder.leases.newest
        return lease.lost if lease else LostEvent()

    def set_limit(self, limit: int | None) -> None:
        """Change the limit for all users of this name at once, whatever they were made with.

        It stays until it is set again; None lets each keep to its own again. What is held stays held: after a
        lower limit there is a new permit only when enough have gone. After a higher one those who wait have
        their permits at once.

        Raises:
            TypeError, ValueError: not a whole number from 1 to 1,000,000.
        """
        run(client(self._using), self._holder.set_limit(limit))

    async def aset_limit(self, limit: int | None) -> None:
        """See `set_limit`."""
        await arun(aclient(self._using), self._holder.set_limit(limit))

    def limit_in_force(self) -> int:
        """The limit that `set_limit` has set, else this object's own."""
        return run(client(self._using), self._holder.limit_in_force())

    async def alimit_in_force(self) -> int:
        """See `limit_in_force`."""
        return await arun(aclient(self._using), self._holder.limit_in_force())

    def available(self) -> int:
        """How many permits are free. A figure to look at, not to decide by: it may be old on arrival."""
        return run(client(self._using), self._holder.available())

    async def aavailable(self) -> int:
        """See `available`."""
        return await arun(aclient(self._using), self._holder.available())

    def holders(self) -> list[PermitHolder]:
        """Who holds the first thousand permits to expire; those that expire first come first."""
        return run(client(self._using), self._holder.holders())

    async def aholders(self) -> list[PermitHolder]:
        """See `holders`."""
        return await arun(aclient(self._using), self._holder.holders())

    async def _run_async(self, flow: Flow[Any]) -> Any:
        return await arun(aclient(self._using), flow)

"""The semaphore."""

from __future__ import annotations

from typing import Any, Self

from django_redis_components.core.connections import aclient, client
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.semaphores.holder import Holder, PermitHolder


class Semaphore:
    """At most `limit` permits held at once among all processes that use this name.

    A permit expires by itself after `timeout`, on the server's clock, so that a holder that died gives it
    back; work that takes longer must `refresh` it. An object may be shared by threads and tasks, and may
    be taken several times: `release` gives back what this thread or task took last.

    Each method has an asyncio twin with an ``a`` before its name, and raises `redis.exceptions.RedisError`
    when the server does not answer. Then it may be called again: `acquire` and `release` know their own
    permit, also when only the reply was lost.

    Args:
        name: 1 to 200 bytes, without control characters and braces.
        limit: how many permits there are. Where processes disagree, each keeps to its own figure.
        timeout: seconds of a lease.
        blocking: whether `acquire` and `with` wait for permits, first come, first served.
        blocking_timeout: seconds to wait at most, with `blocking`; None waits for ever.
        using: our connection alias.

    Raises:
        TypeError, ValueError: an argument is not of this kind.
    """

    def __init__(
        self,
        name: str,
        limit: int,
        *,
        timeout: Seconds = 10.0,
        blocking: bool = False,
        blocking_timeout: Seconds | None = None,
        using: str = "default",
    ) -> None:
        self.name = name
        self.limit = limit
        self._holder = Holder(name, limit, timeout, blocking, blocking_timeout)
        self._using = using

    def __repr__(self) -> str:
        return f"<Semaphore {self.name!r} of {self.limit}>"

    def acquire(self, permits: int = 1) -> bool:
        """Take permits, all or none. Returns True if they are ours now, False if there are not enough."""
        return run(client(self._using), self._holder.acquire(permits))

    async def aacquire(self, permits: int = 1) -> bool:
        """See `acquire`. A cancelled task leaves the line, or gives back what it was just granted."""
        return await arun(aclient(self._using), self._holder.acquire(permits))

    def release(self) -> bool:
        """Give back what was taken last; the first in line has it at once.

        Returns:
            True if it was ours until now; False if it had expired, or nothing was taken.
        """
        return run(client(self._using), self._holder.release())

    async def arelease(self) -> bool:
        """See `release`."""
        return await arun(aclient(self._using), self._holder.release())

    def refresh(self) -> bool:
        """Let what was taken last keep for its full `timeout` again. False if it is lost."""
        return run(client(self._using), self._holder.refresh())

    async def arefresh(self) -> bool:
        """See `refresh`."""
        return await arun(aclient(self._using), self._holder.refresh())

    def available(self) -> int:
        """How many permits are free. A figure to look at, not to decide by: it may be old on arrival."""
        return run(client(self._using), self._holder.available())

    async def aavailable(self) -> int:
        """See `available`."""
        return await arun(aclient(self._using), self._holder.available())

    def holders(self) -> list[PermitHolder]:
        """Who holds permits, at most a thousand; those that expire first come first."""
        return run(client(self._using), self._holder.holders())

    async def aholders(self) -> list[PermitHolder]:
        """See `holders`."""
        return await arun(aclient(self._using), self._holder.holders())

    def __enter__(self) -> Self:
        run(client(self._using), self._holder.enter())
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        run(client(self._using), self._holder.leave(error))

    async def __aenter__(self) -> Self:
        await arun(aclient(self._using), self._holder.enter())
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        await arun(aclient(self._using), self._holder.leave(error))

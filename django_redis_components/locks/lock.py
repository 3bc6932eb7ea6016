"""The lock."""

from __future__ import annotations

from collections.abc import Callable

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.units import Seconds, check_flag
from django_redis_components.locks.base import BaseLock
from django_redis_components.locks.lock_scripts import PlainScripts
from django_redis_components.locks.state import LockState, inspect


class Lock(BaseLock):
    """One holder at a time among all processes that use this name.

    A lease ends by itself after `timeout`, so that a holder that died does not block the others for ever.
    Work that takes longer is to `renew` or `extend` it; `check` tells, without asking the server, whether
    it still lasts. A lease belongs to the thread or task that called `acquire`: an object may be shared, and no
    other thread or task can release or extend it; `adopt` hands it over.

    Each method that talks to Redis has an asyncio twin with an ``a`` before its name, and raises
    `redis.exceptions.RedisError` when the server does not answer. Then `acquire` and `release` may be
    called again: they know their own token, also when only the reply was lost.

    Args:
        name: 1 to 200 bytes, without control characters and braces.
        timeout: seconds of a lease.
        renew: whether a thread of this process renews the lease at a third of its time, for as long as the
            process lives and this object is in use.
        max_lease: seconds after which it is not renewed any longer, against work that never ends.
        blocking: whether `acquire` and `with` wait while somebody else holds the lock.
        blocking_timeout: seconds to wait at most; None waits for ever.
        fair: whoever came first is served first. False lets a newcomer take a lock that was just freed:
            faster for a process that takes it again and again, while others may starve. All users of a
            name should agree.
        reentrant: whether a thread or task that holds the lock may take it again, also through another
            reentrant object of this name. It is released with the last `release`.
        min_replicas: replicas that must have the grant before it counts, so that a failover to one of them
            does not lose it. They have a second for it, or three tenths of the lease if that is less.
        on_lost: called with the lock, in a thread of ours, as soon as the lease is lost.
        using: our connection alias.

    Raises:
        TypeError, ValueError: an argument is not of this kind.
    """

    def __init__(
        self,
        name: str,
        *,
        timeout: Seconds = 30.0,
        renew: bool = False,
        max_lease: Seconds | None = None,
        blocking: bool = True,
        blocking_timeout: Seconds | None = None,
        fair: bool = True,
        reentrant: bool = False,
        min_replicas: int = 0,
        on_lost: Callable[[Lock], object] | None = None,
        using: str = "default",
    ) -> None:
        self._calls = PlainScripts(name, timeout, check_flag(fair, "fair"))
        super().__init__(
            name,
            self._calls,
            timeout=timeout,
            renew=renew,
            max_lease=max_lease,
            blocking=blocking,
            blocking_timeout=blocking_timeout,
            reentrant=reentrant,
            min_replicas=min_replicas,
            on_lost=on_lost,
            using=using,
        )

    def inspect(self) -> LockState:
        """Who holds the lock, since when, and who waits: one script that changes nothing."""
        return run(client(self._using), inspect(self._calls))

    async def ainspect(self) -> LockState:
        """See `inspect`."""
        return await arun(aclient(self._using), inspect(self._calls))

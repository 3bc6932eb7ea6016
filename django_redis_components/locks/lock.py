"""The lock of one name."""

from __future__ import annotations

from collections.abc import Callable

from django.utils.translation import gettext_lazy

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_flag
from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing.scripted_kind import ScriptedKind
from django_redis_components.core.leasing.scripts import KindScripts
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.locks.base import BaseLock
from django_redis_components.locks.state import LockState, read_lock


class PlainKind(ScriptedKind):
    """The kind of `Lock`."""

    scripts = KindScripts("locks/plain")
    slug, noun, label = "lock", "Lock", gettext_lazy("lock")

    def __init__(self, name: str, timeout: Seconds = 1.0, fair: bool = True) -> None:
        super().__init__(keys.validate_name(name, "lock name"), timeout)
        self.options = "fair" if fair else "unfair"

    def make_keys(self) -> tuple[str, str]:
        """Return the lock and its queue."""
        lock = keys.key("locks", self.name)
        return lock, f"{lock}:queue"

    def inspect(self) -> Flow[LockState]:
        """Read the holder and the waiters."""
        return read_lock(self)


class Lock(BaseLock):
    """One holder at a time among all processes that use this name.

    A lease expires after `timeout`, so that a holder that died does not block the others for ever. Use `renew` or
    `extend` for work that takes longer; `check` verifies without a request that the lease is still valid. A lease
    belongs to the thread or task that called `acquire`: an object may be shared, and no other thread or task can
    release or extend it. `adopt` transfers it.

    Each method that sends a request has an asyncio twin with an ``a`` before its name, and raises
    `redis.exceptions.RedisError` when the server does not answer. Then `acquire` and `release` may be repeated: they
    are idempotent by token, also when only the reply was lost.

    Args:
        name: 1 to 200 bytes, without control characters and braces.
        timeout: seconds of a lease.
        renew: whether a thread of this process renews the lease when a third of it has passed, as long as the process
            lives and this object is referenced.
        max_lease: seconds after which it is not renewed any more, against work that never ends.
        blocking: whether `acquire` and `with` wait while another owner holds the lock.
        blocking_timeout: longest wait in seconds; None waits without a limit.
        fair: serve waiters in FIFO order. False lets a new caller take a lock that was just released: faster for a
            process that acquires it again and again, while others may starve. All users of a name should agree.
        reentrant: whether the thread or task that holds the lock may acquire it again, also through another
            reentrant object of this name. The last `release` releases it.
        min_replicas: replicas that must have the grant before it counts, so that a failover to one of them
            does not lose it. They have a second to acknowledge it, or three tenths of the lease if that is less.
        on_lost: called with the lock, in a thread of ours, as soon as the lease is lost.
        using: our connection alias.

    Raises:
        TypeError, ValueError: an argument has a wrong type or value.
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
        self._kind = PlainKind(name, timeout, check_flag(fair, "fair"))
        super().__init__(
            name,
            self._kind,
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
        """Read the holder, the age of its lease, and the waiters. Changes nothing."""
        return run(client(self.using), self._kind.inspect())

    async def ainspect(self) -> LockState:
        """See `inspect`."""
        return await arun(aclient(self.using), self._kind.inspect())

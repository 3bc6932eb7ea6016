"""The lock of one name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_flag
from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.leasing.calls import (
    ReleaseCall,
    acquire_with_token,
    as_text,
    release_with_token,
    with_confirm,
)
from django_redis_components.core.leasing.lease import Lease
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.leasing.wait_queue import HANDOFF_MS, WaitQueue
from django_redis_components.core.protocol import Call, Flow, Read, arun, run
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.locks.base import BaseLock
from django_redis_components.locks.scripts import ABANDON, ACQUIRE, CONFIRM, EXTEND, RELEASE
from django_redis_components.locks.state import LockState, inspect_lock, lock_keys, read_deadline


class PlainScripts:
    """The requests of `Lock`."""

    def __init__(self, name: str, timeout: Seconds = 1.0, fair: bool = True) -> None:
        self.name = keys.validate_name(name, "lock name")
        self.ttl_ms = to_ms(timeout, "timeout")
        self._fair = int(fair)
        self._made_keys: dict[str, str] | None = None
        #: Calls without a token, see `acquire_with_token`.
        self._acquire_calls: dict[bool, Call] = {}
        self._release_call: ReleaseCall | None = None

    @property
    def keys(self) -> dict[str, str]:
        """Built on first use: a lock may be created in a module that is imported before the settings."""
        made = self._made_keys
        if made is None:
            lock = keys.key("locks", self.name)
            made = self._made_keys = {"lock": lock, "fence": f"{lock}:fence", "queue": f"{lock}:queue"}
        return made

    @property
    def base(self) -> str:
        """The lock's key."""
        return self.keys["lock"]

    identity = base

    @property
    def ack_keys(self) -> Sequence[str]:
        """A key in the lock's slot."""
        return (f"{self.base}:ack",)

    def token_suffix(self, acquisition: Acquisition) -> str:
        """Return nothing: tokens are used as they are."""
        return ""

    def acquire(self, token: str, wait: bool) -> Call:
        """Request the lock, or a place in the queue."""
        return acquire_with_token(token, self._acquire_calls.get(wait) or self._make_acquire(wait))

    def refuse(self, acquisition: Acquisition, reply: Sequence[int]) -> None:
        """Do nothing: there is one reason."""

    def abandon(self, token: str) -> Call:
        """Give up place and grant."""
        return ABANDON(**self.keys, token=token, handoff_ms=HANDOFF_MS, fair=self._fair)

    def release(self, token: str) -> Sequence[ReleaseCall]:
        """Release it."""
        return (release_with_token(token, self._release_call or self._make_release()),)

    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]:
        """Make the lease last at least that long from now."""
        return (EXTEND(lock=self.keys["lock"], fence=self.keys["fence"], token=token, ttl_ms=ttl_ms),)

    def read(self, token: str) -> Flow[Lease | None]:
        """Return the lease of this token, as it is."""
        found = yield from read_deadline(token, self._inspect())
        return None if found is None else Lease(token, found[0], found[1][0].fencing_token or 0)

    def owned(self, token: str) -> Flow[bool]:
        """Return whether this token holds it."""
        return bool((yield Read("GET", self.base)) == token.encode())

    def locked(self) -> Flow[bool]:
        """Return whether any token holds it."""
        return bool((yield Read("EXISTS", self.base)))

    def _inspect(self) -> Flow[list[LockState]]:
        return [(yield from inspect_lock(lock_keys(self.name)))]

    def _make_acquire(self, wait: bool) -> Call:
        call = ACQUIRE(
            **self.keys,
            token="",
            description="",
            ttl_ms=self.ttl_ms,
            wait=int(wait),
            handoff_ms=HANDOFF_MS,
            fair=self._fair,
        )
        made = self._acquire_calls[wait] = as_text(call)
        return made

    def _make_release(self) -> ReleaseCall:
        release = RELEASE(**self.keys, token="", released_by="", handoff_ms=HANDOFF_MS, fair=self._fair)
        made = self._release_call = with_confirm(release, CONFIRM(base=self.base, handoff_ms=HANDOFF_MS))
        return made


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
        scripts = PlainScripts(name, timeout, check_flag(fair, "fair"))
        super().__init__(
            name,
            scripts,
            WaitQueue(scripts),
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
        return run(client(self.using), inspect_lock(lock_keys(self.name)))

    async def ainspect(self) -> LockState:
        """See `inspect`."""
        return await arun(aclient(self.using), inspect_lock(lock_keys(self.name)))

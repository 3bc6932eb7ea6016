"""What a lock asks the server for: one class for each kind of lock, so that `Holder` need not know them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from django_redis_components.core import keys
from django_redis_components.core.leasing import wait_queue
from django_redis_components.core.leasing.lease import Lease
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.protocol import Call, Flow, Read
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.locks.scripts import ABANDON, ACQUIRE, CONFIRM, EXTEND, RELEASE
from django_redis_components.locks.state import LockState, inspect, read_deadline


class LockScripts(Protocol):
    """The requests of one kind of lock.

    Attributes:
        ttl_ms: milliseconds of a lease.
        identity: which lock it is; reentrant locks of one identity share their leases.
        ack_keys: keys that may be written without harm, one for each node that a grant is made on.
    """

    ttl_ms: int

    @property
    def identity(self) -> str: ...
    @property
    def ack_keys(self) -> Sequence[str]: ...
    def acquire(
        self, queue: wait_queue.WaitQueue, wait_limit_s: float, token: str | None, acquisition: Acquisition
    ) -> Flow[bool]: ...
    def read(self, token: str) -> Flow[Lease | None]: ...
    def release(self, token: str) -> Sequence[Call]: ...
    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]: ...
    def owned(self, token: str) -> Flow[bool]: ...
    def locked(self) -> Flow[bool]: ...


class PlainScripts:
    """The requests of `Lock`."""

    def __init__(self, name: str, timeout: Seconds, fair: bool = True) -> None:
        self.name = keys.validate_name(name, "lock name")
        self.ttl_ms = to_ms(timeout, "timeout")
        self._fair = int(fair)
        self._made_keys: dict[str, str] | None = None
        #: Calls for no token, see `wait_queue.with_token`.
        self._acquire_calls: dict[bool, Call] = {}
        self._release: Call | None = None

    @property
    def keys(self) -> dict[str, str]:
        """Made on first use: a lock may stand in a module that is imported before the settings."""
        made = self._made_keys
        if made is None:
            lock = keys.key("locks", self.name)
            made = self._made_keys = {"lock": lock, "fence": f"{lock}:fence", "queue": f"{lock}:queue"}
        return made

    @property
    def identity(self) -> str:
        """The lock's key."""
        return self.keys["lock"]

    @property
    def ack_keys(self) -> Sequence[str]:
        """A key beside the lock."""
        return (f"{self.keys['lock']}:ack",)

    def acquire(
        self, queue: wait_queue.WaitQueue, wait_limit_s: float, token: str | None, acquisition: Acquisition
    ) -> Flow[bool]:
        """Take the lock; False if another token holds it."""
        return queue.acquire(self.keys["lock"], self.ask, self.abandon, wait_limit_s, acquisition, token=token)

    def read(self, token: str) -> Flow[Lease | None]:
        """The lease that this token holds, as it is."""
        found = yield from read_deadline(token, self._inspect())
        return None if found is None else Lease(token, found[0], found[1][0].fencing_token or 0)

    def ask(self, token: str, wait: bool) -> Call:
        """Take it, or a place in the queue."""
        return wait_queue.with_token(token, self._acquire_calls.get(wait) or self._make_acquire(wait))

    def abandon(self, token: str) -> Call:
        """Give up place and grant."""
        return ABANDON(**self.keys, token=token, handoff_ms=wait_queue.HANDOFF_MS, fair=self._fair)

    def release(self, token: str) -> Sequence[Call]:
        """Give it back."""
        return (wait_queue.with_token(token, self._release or self._make_release()),)

    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]:
        """Make the lease last at least that long from now."""
        return (EXTEND(lock=self.keys["lock"], fence=self.keys["fence"], token=token, ttl_ms=ttl_ms),)

    def owned(self, token: str) -> Flow[bool]:
        """Whether the server says that this token holds it."""
        return bool((yield Read("GET", self.keys["lock"])) == token.encode())

    def locked(self) -> Flow[bool]:
        """Whether anybody holds it."""
        return bool((yield Read("EXISTS", self.keys["lock"])))

    def _inspect(self) -> Flow[list[LockState]]:
        return [(yield from inspect(self))]

    def _make_acquire(self, wait: bool) -> Call:
        made = self._acquire_calls[wait] = ACQUIRE(
            **self.keys,
            token="",
            ttl_ms=self.ttl_ms,
            wait=int(wait),
            handoff_ms=wait_queue.HANDOFF_MS,
            fair=self._fair,
        )
        return made

    def _make_release(self) -> Call:
        release = RELEASE(**self.keys, token="", handoff_ms=wait_queue.HANDOFF_MS, fair=self._fair)
        made = self._release = confirmed(release, self.keys["lock"])
        return made


def confirmed(release: Call, base: str) -> wait_queue.ReleaseCall:
    """A release, and what follows it when it has handed over."""
    confirm = CONFIRM(base=base, handoff_ms=wait_queue.HANDOFF_MS)
    return wait_queue.ReleaseCall(release.script, release.keys, release.args, confirm)

"""What a lock asks the server for: one class for each kind of lock, so that `Holder` need not know them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from django_redis_components.core import keys, turns
from django_redis_components.core.leases import Lease
from django_redis_components.core.owners import Acquisition
from django_redis_components.core.protocol import Call, Flow, Read
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.locks.scripts import ABANDON, ACQUIRE, EXTEND, RELEASE
from django_redis_components.locks.state import LockState, inspect, read_deadline


class Calls(Protocol):
    """The requests of one kind of lock.

    Attributes:
        ttl_ms: milliseconds of a lease.
        identity: which lock it is; reentrant locks of one identity share their leases.
        marks: keys that may be written without harm, one for each node that a grant is made on.
    """

    ttl_ms: int

    @property
    def identity(self) -> str: ...
    @property
    def marks(self) -> Sequence[str]: ...
    def take(self, turn: turns.Turns, patience_s: float, token: str | None, acquisition: Acquisition) -> Flow[bool]: ...
    def read(self, token: str) -> Flow[Lease | None]: ...
    def give(self, token: str) -> Sequence[Call]: ...
    def lengthen(self, token: str, ttl_ms: int) -> Sequence[Call]: ...
    def owned(self, token: str) -> Flow[bool]: ...
    def locked(self) -> Flow[bool]: ...


class PlainCalls:
    """The requests of `Lock`."""

    def __init__(self, name: str, timeout: Seconds, fair: bool = True) -> None:
        self.name = keys.validate_name(name, "lock name")
        self.ttl_ms = to_ms(timeout, "timeout")
        self._fair = int(fair)
        self._made_keys: dict[str, str] | None = None
        #: Calls for no token, see `turns.under`.
        self._questions: dict[int, Call] = {}
        self._release: Call | None = None

    @property
    def keys(self) -> dict[str, str]:
        """Made on first use: a lock may stand in a module that is imported before the settings."""
        made = self._made_keys
        if made is None:
            lock = keys.key("locks", self.name)
            parts = {"lock": lock, "fence": f"{lock}:fence", "queue": f"{lock}:queue", "alive": f"{lock}:alive"}
            made = self._made_keys = parts
        return made

    @property
    def identity(self) -> str:
        """The lock's key."""
        return self.keys["lock"]

    @property
    def marks(self) -> Sequence[str]:
        """A key beside the lock."""
        return (f"{self.keys['lock']}:ack",)

    def take(self, turn: turns.Turns, patience_s: float, token: str | None, acquisition: Acquisition) -> Flow[bool]:
        """Take the lock; False if somebody else has it."""
        return turn.take(self.keys["lock"], self.ask, self.walk_away, patience_s, acquisition, token=token)

    def read(self, token: str) -> Flow[Lease | None]:
        """The lease that this token holds, as it is."""
        found = yield from read_deadline(token, self._inspect())
        return None if found is None else Lease(token, found[0], found[1][0].fencing_token or 0)

    def ask(self, token: str, patience_ms: int) -> Call:
        """Take it, or a place in line."""
        return turns.under(token, self._questions.get(patience_ms) or self._question(patience_ms))

    def walk_away(self, token: str) -> Call:
        """Give up place and grant."""
        return ABANDON(**self.keys, token=token, handoff_ms=turns.HANDOFF_MS, fair=self._fair)

    def give(self, token: str) -> Sequence[Call]:
        """Give it back."""
        return (turns.under(token, self._release or self._make_release()),)

    def lengthen(self, token: str, ttl_ms: int) -> Sequence[Call]:
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

    def _question(self, patience_ms: int) -> Call:
        made = self._questions[patience_ms] = ACQUIRE(
            **self.keys,
            token="",
            ttl_ms=self.ttl_ms,
            patience_ms=patience_ms,
            handoff_ms=turns.HANDOFF_MS,
            fair=self._fair,
        )
        return made

    def _make_release(self) -> Call:
        made = self._release = RELEASE(**self.keys, token="", handoff_ms=turns.HANDOFF_MS, fair=self._fair)
        return made

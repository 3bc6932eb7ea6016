"""The base of kinds whose requests are scripts: all but `MultiLock` without a group."""

from __future__ import annotations

import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.leasing.calls import ReleaseCall
from django_redis_components.core.leasing.forced_release import describe_author
from django_redis_components.core.leasing.holder import LeaseHolder, describe_caller, parse_holder
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.leasing.scripts import CONFIRM, KindScripts
from django_redis_components.core.leasing.wait_queue import HANDOFF_MS, liveness_ms
from django_redis_components.core.protocol import Call, Flow
from django_redis_components.core.units import Seconds, from_ms, to_ms

#: Most holders, and waiters, that are listed; `held` and `waiting` count all of them.
MAX_LISTED = 100


class LeaseState(NamedTuple):
    """One lease, as `inspect` has read it.

    Attributes:
        token: identifies it.
        remaining: seconds until it expires; infinite for a key without a TTL.
        held_by: the process, thread, and task or request that acquired it; None if unknown.
    """

    token: str
    remaining: float
    held_by: LeaseHolder | None


class WaiterState(NamedTuple):
    """One waiter, as `inspect` has read it.

    Attributes:
        token: of its requests.
        waited: seconds since it took its place in the queue.
    """

    token: str
    waited: float


class ObjectState(NamedTuple):
    """What `inspect` has read of one lock or semaphore, or of one name of a group.

    Attributes:
        at_ms: the server's time in milliseconds since the epoch.
        held: how many leases or permits are held.
        limit: how many may be held; 0 for no limit, or for that of the object.
        number: of the last grant; 0 when it has expired.
        waiting: number of waiters that sent a request lately.
        holders: in order of expiry, a bounded number.
        queue: waiters in its order, a bounded number.
    """

    at_ms: int
    held: int
    limit: int
    number: int
    waiting: int
    holders: tuple[LeaseState, ...]
    queue: tuple[WaiterState, ...]

    @property
    def waiters(self) -> tuple[str, ...]:
        """The tokens of the waiters in the queue."""
        return tuple(waiter.token for waiter in self.queue)

    @property
    def age(self) -> float:
        """Seconds since the last grant, whose number is its time in microseconds; 0.0 if it is not known."""
        return from_ms(max(0, self.at_ms - self.number // 1_000)) if self.number else 0.0


class _Prepared(NamedTuple):
    """What all requests of one object have in common, as text: numbers would be converted each time they are sent."""

    keys: tuple[str, str]
    #: The arguments after token and description, by whether to wait.
    acquire: Mapping[bool, tuple[str, ...]]
    #: The arguments after token and operator.
    release: tuple[str, ...]
    confirm: Call


class ScriptedKind(ABC):
    """One lock or semaphore of a kind. Subclasses name the scripts and the keys.

    The requests that free locks and permits need are prepared once. Naming their keys and arguments each time costs as
    much as everything else that is done for them in Python.

    Attributes:
        scripts: those of the kind.
        slug: what operators call the kind, in links, in JSON and on the command line: "lock".
        noun: what it is called at the beginning of a sentence, in English.
        label, role_labels: what pages call it, and its holders by role.
        holder_keys: matches the keys of holders after ``<prefix>:<component>:{``; its groups are name and group.
        is_in_group: whether a name belongs to a group.
        is_counted: whether a holder may have several permits.
        name: of the object.
        ttl_ms: milliseconds of a lease.
        options: the text that tells the scripts how to serve this object; see the Lua file of the kind.
        suffix: the text that each token ends in, for one permit.
        limit: how many leases or permits may be held unless the server knows; None if unknown.
    """

    scripts: ClassVar[KindScripts]
    slug: ClassVar[str]
    noun: ClassVar[str]
    label: ClassVar[Any]
    role_labels: ClassVar[Mapping[str, Any]] = {}
    holder_keys: ClassVar[re.Pattern[str]] = re.compile(r"(?P<name>[^{}]+)\}")
    is_in_group: ClassVar[bool] = False
    is_counted: ClassVar[bool] = False
    options = ""
    limit: int | None = None

    def __init__(self, name: str, timeout: Seconds = 1.0) -> None:
        """Args: name: valid."""
        self.name = name
        self.ttl_ms = to_ms(timeout, "timeout")
        self.suffix = self.suffix_of(1)
        self._calls: _Prepared | None = None

    @classmethod
    def named(cls, name: str, group: str) -> Self:
        """Return the lock or semaphore that operators name. A group is given if the kind has them."""
        return cls(name)

    @abstractmethod
    def make_keys(self) -> tuple[str, str]:
        """Return the key of the holders and the key of the queue."""
        ...

    @property
    def base(self) -> str:
        """The key of the holders, to which the others are related."""
        return self._prepared().keys[0]

    @property
    def identity(self) -> str:
        """The key."""
        return self.base

    @property
    def ack_keys(self) -> Sequence[str]:
        """A key in the slot of the others."""
        return (f"{self.base}:ack",)

    def suffix_of(self, permits: int) -> str:
        """Return the text that the token of a request for this number of permits ends in."""
        return ""

    def refuse(self, acquisition: Acquisition, reply: Sequence[int]) -> None:  # noqa: B027 - a default
        """Do nothing: there is one reason."""

    def acquire(self, token: str, wait: bool) -> Call:
        """Request a lease, or a place in the queue."""
        calls = self._calls or self._prepared()
        return Call(self.scripts.acquire, calls.keys, (token, describe_caller(), *calls.acquire[wait]))

    def release(self, token: str, author: str | None = None) -> Sequence[ReleaseCall]:
        """Release a lease. An author is an operator, who does it by force."""
        calls = self._calls or self._prepared()
        released_by = "" if author is None else describe_author(author)
        return (ReleaseCall(self.scripts.release, calls.keys, (token, released_by, *calls.release), calls.confirm),)

    def abandon(self, token: str) -> Call:
        """Give up place and grant."""
        base, queue = self._prepared().keys
        return self.scripts.abandon(base=base, queue=queue, token=token, handoff_ms=HANDOFF_MS, options=self.options)

    def extend(self, token: str, ttl_ms: int) -> Sequence[Call]:
        """Make the lease last at least that long from now."""
        return (self.scripts.extend(base=self.base, token=token, ttl_ms=ttl_ms, options=self.options),)

    def read(self, token: str) -> Flow[Lease | None]:
        """Return the lease of this token, as it is."""
        requested_at = time.monotonic()
        found = yield self.read_call(token)
        return Lease(token, deadline_of(requested_at, found[0]), found[1]) if found else None

    def read_call(self, token: str) -> Call:
        """Read the lease of this token. Reply: [milliseconds left, number of the grant], or []."""
        return self.scripts.read(base=self.base, token=token, options=self.options)

    def locked(self) -> Flow[bool]:
        """Return whether a request would have to wait."""
        states = parse_states((yield self.inspect_call(1)))
        return any(state.held >= (state.limit or self.limit or 1) for state in states)

    @abstractmethod
    def inspect(self) -> Flow[Any]:
        """Return the public state, made of `parse_states`."""
        ...

    def inspect_call(self, most: int = MAX_LISTED) -> Call:
        """Read the state of the object, or of each name of a group. Lists `most` holders and waiters."""
        base, queue = self._prepared().keys
        return self.scripts.inspect(base=base, queue=queue, most=most, liveness_ms=liveness_ms(), options=self.options)

    def parts(self) -> Sequence[ScriptedKind]:
        """Return each object that has its own holder: of several names, one for each."""
        return (self,)

    def may_hold(self, token: str) -> bool:
        """Return whether a holder can have this token."""
        return True

    def role_of(self, token: str) -> str:
        """Return what a holder is: "holder", "reader", ..."""
        return "holder"

    def permits_of(self, token: str) -> int:
        """Return for how many a holder counts."""
        return 1

    def limit_of(self, state: ObjectState) -> int | None:
        """Return how many leases or permits may be held; None for no limit, or if it is not known."""
        return state.limit or self.limit

    def _prepared(self) -> _Prepared:
        """Made on first use: an object may be created in a module that is imported before the settings."""
        if self._calls is None:
            keys, handoff = self.make_keys(), (str(HANDOFF_MS), self.options)
            acquire = {wait: (str(self.ttl_ms), str(int(wait)), *handoff) for wait in (False, True)}
            self._calls = _Prepared(keys, acquire, handoff, CONFIRM(base=keys[0], handoff_ms=HANDOFF_MS))
        return self._calls


def parse_states(reply: list[Any]) -> list[ObjectState]:
    """Return what `inspect_call` has read."""
    at_ms, *found = reply
    return [_parse(at_ms, *each) for each in found]


def deadline_of(requested_at: float, left_ms: int) -> float:
    """Return the local deadline of a lease that was read; infinite for a key without a TTL."""
    return math.inf if left_ms < 0 else local_deadline(requested_at, left_ms)


def _parse(
    at_ms: int, held: int, limit: int, number: int, waiting: int, holders: list[Any], waiters: list[bytes]
) -> ObjectState:
    queue = tuple(_parse_waiters(at_ms, waiters))
    return ObjectState(at_ms, held, limit, number, waiting, tuple(_parse_holders(holders)), queue)


def _parse_holders(values: list[Any]) -> Iterator[LeaseState]:
    for token, left_ms, description in zip(values[::3], values[1::3], values[2::3], strict=True):
        yield LeaseState(_decoded(token), math.inf if left_ms < 0 else from_ms(left_ms), parse_holder(description))


def _parse_waiters(at_ms: int, values: list[bytes]) -> Iterator[WaiterState]:
    """Yield waiters. A ticket is the time at which the waiter was queued, in microseconds.

    Another client may have written one that is no time, such as infinity.
    """
    for token, ticket in pairs_of(values):
        queued_ms = min(max(float(ticket), 0.0) / 1_000, at_ms)
        yield WaiterState(_decoded(token), (at_ms - queued_ms) / 1_000)


def _decoded(token: bytes) -> str:
    return token.decode(errors="backslashreplace")  # other clients may write any bytes

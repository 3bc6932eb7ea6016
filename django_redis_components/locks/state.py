"""What the server knows of a lock, read without changing anything."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django_redis_components.core import keys
from django_redis_components.core.leasing.lease import local_deadline
from django_redis_components.core.leasing.wait_queue import liveness_ms
from django_redis_components.core.protocol import Batch, Flow
from django_redis_components.core.units import from_ms
from django_redis_components.locks.scripts import INSPECT, INSPECT_ALL, INSPECT_RW

if TYPE_CHECKING:
    from django_redis_components.locks.lock_scripts import PlainScripts

#: Most waiters that are listed; `waiting` counts all of them.
MAX_LISTED = 100


@dataclasses.dataclass(frozen=True, slots=True)
class LockState:
    """A lock at one moment, as the server sees it.

    Attributes:
        holder: the holder's token; None when nobody holds it.
        fencing_token: the number of the last grant, also of one that is over; None when it is forgotten.
        age: seconds since the holder was granted the lock; 0.0 without one.
        remaining: seconds until its lease ends; 0.0 without one, infinite for a key without an end.
        waiting: how many wait and have asked lately.
        waiters: their tokens in the order in which they will be served, at most a hundred.
    """

    holder: str | None
    fencing_token: int | None
    age: float
    remaining: float
    waiting: int
    waiters: tuple[str, ...]


def inspect(calls: PlainScripts) -> Flow[LockState]:
    """Read the state of a lock."""
    return (yield from inspect_keys(_with_queue(calls.keys)))


def inspect_keys(made: dict[str, str]) -> Flow[LockState]:
    """Read the state of what these keys hold: those of a lock, or those of a name in a group."""
    return _lock_state((yield INSPECT(**made, most=MAX_LISTED, liveness_ms=liveness_ms())))


def inspect_group(group: str, names: Sequence[str]) -> Flow[dict[str, LockState]]:
    """Read the state of each of a group's names, at one moment."""
    replies = yield INSPECT_ALL(group=group, most=MAX_LISTED, liveness_ms=liveness_ms(), names=names)
    return {name: _lock_state(reply) for name, reply in zip(names, replies, strict=True)}


def inspect_each(locks: Sequence[PlainScripts]) -> Flow[dict[str, LockState]]:
    """Read the state of each of several locks, in one round trip for each node."""
    made = [_with_queue(calls.keys) for calls in locks]
    replies = yield Batch([INSPECT(**each, most=MAX_LISTED, liveness_ms=liveness_ms()) for each in made])
    return {calls.name: _lock_state(reply) for calls, reply in zip(locks, replies, strict=True)}


def _with_queue(made: dict[str, str]) -> dict[str, str]:
    """The keys of a lock, and those of its waiters."""
    return made | {"asked": f"{made['lock']}:asked", "handoffs": f"{made['lock']}:handoffs"}


def _lock_state(reply: list[Any]) -> LockState:
    holder, left_ms, fence, age_ms, waiting, *tokens = reply
    return LockState(
        holder=holder.decode(errors="backslashreplace") if holder else None,  # other clients write any bytes
        fencing_token=fence or None,
        age=from_ms(age_ms),
        remaining=_left(left_ms),
        waiting=waiting,
        waiters=tuple(token.decode() for token in tokens),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class ReadWriteState:
    """A read-write lock at one moment, as the server sees it.

    Attributes:
        writer: the writer's token; None when nobody writes.
        remaining: seconds until the writer's lease ends; 0.0 without one, infinite for a key without an end.
        fencing_token: the number of the last writer, also of one that is gone; None when it is forgotten.
        reading: how many readers are in.
        readers: their tokens and the seconds left to them, those that end first first; at most a hundred.
        waiting: how many wait and have asked lately.
        waiters: their tokens in the order in which they will be served, at most a hundred; those of readers end
            in ":r", those of writers in ":w".
    """

    writer: str | None
    remaining: float
    fencing_token: int | None
    reading: int
    readers: dict[str, float]
    waiting: int
    waiters: tuple[str, ...]


def readwrite_keys(name: str) -> dict[str, str]:
    """The keys of a read-write lock; none of them is one of a `Lock` of this name."""
    parts = ("writer", "readers", "fence", "queue")
    return {part: keys.key("locks", name, "rw", part) for part in parts}


def inspect_readwrite(name: str) -> Flow[ReadWriteState]:
    """Read the state of a read-write lock."""
    figures, reading, waiters = yield INSPECT_RW(**readwrite_keys(name), most=MAX_LISTED, liveness_ms=liveness_ms())
    writer, left_ms, fence, waiting, inside = figures
    pairs = iter(reading)
    return ReadWriteState(
        writer=writer.decode() if writer else None,
        remaining=_left(left_ms) if writer else 0.0,
        fencing_token=fence or None,
        reading=inside,
        readers={token.decode(): from_ms(ms) for token, ms in zip(pairs, pairs, strict=True)},
        waiting=waiting,
        waiters=tuple(token.decode() for token in waiters),
    )


def read_deadline(token: str, flow: Flow[Iterable[LockState]]) -> Flow[tuple[float, Sequence[LockState]] | None]:
    """Until when (monotonic seconds) this token holds all that a flow reads, and what was read; None if it does not."""
    requested_at = time.monotonic()
    states = list((yield from flow))
    if {state.holder for state in states} != {token}:
        return None
    left_s = min(state.remaining for state in states)
    return (math.inf if left_s == math.inf else local_deadline(requested_at, int(left_s * 1_000))), states


def _left(ms: int) -> float:
    return math.inf if ms < 0 else from_ms(ms)

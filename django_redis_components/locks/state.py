"""The state of locks on the server, read without changing it."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

from django_redis_components.core import keys
from django_redis_components.core.leasing.holder import LeaseHolder, parse_holder
from django_redis_components.core.leasing.lease import local_deadline
from django_redis_components.core.leasing.wait_queue import liveness_ms
from django_redis_components.core.protocol import Batch, Flow
from django_redis_components.core.units import from_ms
from django_redis_components.locks.scripts import INSPECT, INSPECT_MULTI, INSPECT_READWRITE

#: Most waiters that are listed; `waiting` counts all of them.
MAX_LISTED = 100


@dataclasses.dataclass(frozen=True, slots=True)
class LockState:
    """The state of a lock at one moment.

    Attributes:
        holder: the holder's token; None when the lock is free.
        fencing_token: the number of the last grant, also after its release; None when it has expired.
        age: seconds since the holder was granted the lock; 0.0 without a holder.
        remaining: seconds until its lease expires; 0.0 without a holder, infinite for a key without a TTL.
        waiting: number of waiters that sent a request lately.
        waiters: their tokens in the order in which they will be served, at most a hundred.
        held_by: the process, thread, and task or request that acquired it; None if unknown.
    """

    holder: str | None
    fencing_token: int | None
    age: float
    remaining: float
    waiting: int
    waiters: tuple[str, ...]
    held_by: LeaseHolder | None = None


def lock_keys(name: str) -> dict[str, str]:
    """Return the keys of a lock, for `INSPECT`."""
    lock = keys.key("locks", name)
    parts = ("fence", "queue", "asked", "handoffs")
    return {"lock": lock, "base": lock} | {part: f"{lock}:{part}" for part in parts}


def inspect_lock(made: dict[str, str]) -> Flow[LockState]:
    """Read the state of a lock with these keys, or of a name in a group."""
    return _lock_state((yield INSPECT(**made, most=MAX_LISTED, liveness_ms=liveness_ms())))


def inspect_group(group: str, names: Sequence[str]) -> Flow[dict[str, LockState]]:
    """Read the state of each of a group's names, at one moment."""
    replies = yield INSPECT_MULTI(group=group, most=MAX_LISTED, liveness_ms=liveness_ms(), names=names)
    return {name: _lock_state(reply) for name, reply in zip(names, replies, strict=True)}


def inspect_each(names: Sequence[str]) -> Flow[dict[str, LockState]]:
    """Read the state of each of several locks, in one round trip per node."""
    calls = [INSPECT(**lock_keys(name), most=MAX_LISTED, liveness_ms=liveness_ms()) for name in names]
    replies = yield Batch(calls)
    return {name: _lock_state(reply) for name, reply in zip(names, replies, strict=True)}


def _lock_state(reply: list[Any]) -> LockState:
    holder, left_ms, fence, age_ms, waiting, description, *tokens = reply
    return LockState(
        holder=holder.decode(errors="backslashreplace") if holder else None,  # other clients may write any bytes
        fencing_token=fence or None,
        age=from_ms(age_ms),
        remaining=_left(left_ms),
        waiting=waiting,
        waiters=tuple(token.decode() for token in tokens),
        held_by=parse_holder(description),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class ReadWriteState:
    """The state of a read-write lock at one moment.

    Attributes:
        writer: the writer's token; None without a writer.
        remaining: seconds until the writer's lease expires; 0.0 without a writer, infinite for a key without a TTL.
        fencing_token: the number of the last writer, also after its release; None when it has expired.
        reading: number of readers that hold the lock.
        readers: their tokens and the seconds until their leases expire, in order of expiry; at most a hundred.
        waiting: number of waiters that sent a request lately.
        waiters: their tokens in the order in which they will be served, at most a hundred; those of readers end
            in ":r", those of writers in ":w".
        held_by: token of the writer or of a listed reader to the process, thread, and task or request that acquired it;
            without those that are unknown.
    """

    writer: str | None
    remaining: float
    fencing_token: int | None
    reading: int
    readers: dict[str, float]
    waiting: int
    waiters: tuple[str, ...]
    held_by: dict[str, LeaseHolder] = dataclasses.field(default_factory=dict)


def readwrite_keys(name: str) -> dict[str, str]:
    """Return the keys of a read-write lock. None of them is a key of the `Lock` of this name."""
    parts = ("writer", "readers", "fence", "queue")
    return {part: keys.key("locks", name, "rw", part) for part in parts}


def inspect_readwrite(name: str) -> Flow[ReadWriteState]:
    """Read the state of a read-write lock."""
    figures, reading, waiters, descriptions = yield INSPECT_READWRITE(
        **readwrite_keys(name), most=MAX_LISTED, liveness_ms=liveness_ms()
    )
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
        held_by=_holders([writer, *reading[::2]], descriptions),
    )


def _holders(tokens: list[bytes], descriptions: list[bytes]) -> dict[str, LeaseHolder]:
    parsed = zip(tokens, map(parse_holder, descriptions), strict=True)
    return {token.decode(): holder for token, holder in parsed if holder is not None}


def read_deadline(token: str, flow: Flow[Iterable[LockState]]) -> Flow[tuple[float, Sequence[LockState]] | None]:
    """Return the local deadline of a token's lease on all locks that a flow reads, and their states.

    None if the token does not hold all of them.
    """
    requested_at = time.monotonic()
    states = list((yield from flow))
    if {state.holder for state in states} != {token}:
        return None
    left_s = min(state.remaining for state in states)
    return (math.inf if left_s == math.inf else local_deadline(requested_at, int(left_s * 1_000))), states


def _left(ms: int) -> float:
    return math.inf if ms < 0 else from_ms(ms)

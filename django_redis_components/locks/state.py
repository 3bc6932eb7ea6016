"""The state of locks on the server, read without changing it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from django_redis_components.core.leasing import scripted_kind
from django_redis_components.core.leasing.holder import LeaseHolder
from django_redis_components.core.leasing.scripted_kind import ObjectState, ScriptedKind, parse_states
from django_redis_components.core.protocol import Batch, Flow

#: Most holders, and waiters, that are listed.
MAX_LISTED = scripted_kind.MAX_LISTED
#: What the tokens of readers and of writers end in.
READER, WRITER = ":r", ":w"


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


def read_lock(kind: ScriptedKind) -> Flow[LockState]:
    """Read the state of a lock."""
    [found] = parse_states((yield kind.inspect_call(MAX_LISTED)))
    return _lock_state(found)


def read_locks(kinds: Sequence[ScriptedKind], names: Sequence[str]) -> Flow[dict[str, LockState]]:
    """Read the state of each of these names, of a group or of several locks, in one round trip per node."""
    replies = yield Batch([kind.inspect_call(MAX_LISTED) for kind in kinds])
    states = [state for reply in replies for state in parse_states(reply)]
    return {name: _lock_state(state) for name, state in zip(names, states, strict=True)}


def read_readwrite(kind: ScriptedKind) -> Flow[ReadWriteState]:
    """Read the state of a read-write lock."""
    [state] = parse_states((yield kind.inspect_call(MAX_LISTED)))
    writers = [holder for holder in state.holders if not holder.token.endswith(READER)]
    readers = [holder for holder in state.holders if holder.token.endswith(READER)]
    return ReadWriteState(
        writer=writers[0].token if writers else None,
        remaining=writers[0].remaining if writers else 0.0,
        fencing_token=state.number or None,
        reading=state.held - len(writers),
        readers={reader.token: reader.remaining for reader in readers},
        waiting=state.waiting,
        waiters=state.waiters,
        held_by={holder.token: holder.held_by for holder in state.holders if holder.held_by is not None},
    )


def _lock_state(state: ObjectState) -> LockState:
    holder = state.holders[0] if state.holders else None
    return LockState(
        holder=holder.token if holder else None,
        fencing_token=state.number or None,
        age=state.age if holder else 0.0,
        remaining=holder.remaining if holder else 0.0,
        waiting=state.waiting,
        waiters=state.waiters,
        held_by=holder.held_by if holder else None,
    )

"""The state of semaphores on the server, read without changing it."""

from __future__ import annotations

import dataclasses

from django_redis_components.core.leasing import scripted_kind
from django_redis_components.core.leasing.holder import LeaseHolder
from django_redis_components.core.leasing.scripted_kind import ScriptedKind, parse_states
from django_redis_components.core.protocol import Flow

#: Most holders, and waiters, that are listed; `held` and `waiting` count all of them.
MAX_LISTED = scripted_kind.MAX_LISTED


@dataclasses.dataclass(frozen=True, slots=True)
class PermitHolder:
    """One lease of a semaphore.

    Attributes:
        token: identifies it.
        permits: how many permits it has.
        remaining: seconds until it expires.
        held_by: the process, thread, and task or request that acquired it; None if unknown.
    """

    token: str
    permits: int
    remaining: float
    held_by: LeaseHolder | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class SemaphoreState:
    """The state of a semaphore at one moment.

    Attributes:
        limit: number of permits: what `set_limit` has set, else the limit of the object, or of the holders; None when
            none of them is known.
        held: number of permits that are held.
        holders: the leases in order of expiry, at most a hundred.
        waiting: number of waiters that sent a request lately.
        waiters: their tokens in the order in which they will be served, at most a hundred.
    """

    limit: int | None
    held: int
    holders: tuple[PermitHolder, ...]
    waiting: int
    waiters: tuple[str, ...]


def parse_permit(token: str) -> tuple[int, int | None]:
    """Return how many permits a token has, and the limit that it was requested with; (1, None) if it does not say."""
    _, *numbers = token.rsplit(":", 2)
    if len(numbers) == 2 and all(number.isascii() and number.isdigit() for number in numbers):
        return int(numbers[0]), int(numbers[1])
    return 1, None


def read_semaphore(kind: ScriptedKind) -> Flow[SemaphoreState]:
    """Read the state of a semaphore."""
    [found] = parse_states((yield kind.inspect_call(MAX_LISTED)))
    holders = tuple(
        PermitHolder(holder.token, parse_permit(holder.token)[0], holder.remaining, holder.held_by)
        for holder in found.holders
    )
    return SemaphoreState(kind.limit_of(found), found.held, holders, found.waiting, found.waiters)

"""The state of semaphores on the server, read without changing it."""

from __future__ import annotations

import dataclasses

from django_redis_components.core import keys
from django_redis_components.core.leasing.holder import LeaseHolder, parse_holder
from django_redis_components.core.leasing.wait_queue import liveness_ms
from django_redis_components.core.protocol import Flow
from django_redis_components.core.units import from_ms
from django_redis_components.semaphores.scripts import INSPECT

#: Most holders, and waiters, that are listed; `held` and `waiting` count all of them.
MAX_LISTED = 100


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


def semaphore_keys(name: str) -> dict[str, str]:
    """Return the keys of a semaphore."""
    base = keys.key("semaphores", name)
    return {"holders": base, "queue": f"{base}:queue", "limit": f"{base}:limit"}


def parse_permit(token: str) -> tuple[int, int | None]:
    """Return how many permits a token has, and the limit that it was requested with; (1, None) if it does not say."""
    _, *numbers = token.rsplit(":", 2)
    if len(numbers) == 2 and all(number.isascii() and number.isdigit() for number in numbers):
        return int(numbers[0]), int(numbers[1])
    return 1, None


def inspect_semaphore(made: dict[str, str], own_limit: int | None = None) -> Flow[SemaphoreState]:
    """Read the state of a semaphore.

    Args:
        made: those of `semaphore_keys`.
        own_limit: the limit unless one was set for all.
    """
    figures, found, waiters, descriptions = yield INSPECT(**made, most=MAX_LISTED, liveness_ms=liveness_ms())
    held, set_limit, waiting = figures
    pairs = iter(found)
    members = [(member.decode(), from_ms(ms)) for member, ms in zip(pairs, pairs, strict=True)]
    holders = tuple(
        PermitHolder(token, parse_permit(token)[0], remaining, parse_holder(description))
        for (token, remaining), description in zip(members, descriptions, strict=True)
        if "#" not in token  # the second and further permits of a lease
    )
    requested = [limit for _, limit in (parse_permit(holder.token) for holder in holders) if limit is not None]
    limit = set_limit or own_limit or max(requested, default=None)
    return SemaphoreState(limit, held, holders, waiting, tuple(token.decode() for token in waiters))

"""What the server knows of a semaphore, read without changing anything."""

from __future__ import annotations

import dataclasses

from django_redis_components.core import keys
from django_redis_components.core.leasing.wait_queue import liveness_ms
from django_redis_components.core.protocol import Flow
from django_redis_components.core.units import from_ms
from django_redis_components.semaphores.scripts import INSPECT

#: Most permits that are listed; `held` counts all of them.
MAX_LISTED = 100


@dataclasses.dataclass(frozen=True, slots=True)
class SemaphoreState:
    """A semaphore at one moment, as the server sees it.

    Attributes:
        held: how many permits are held.
        limit: how many there are: what `set_limit` has set, else what the permits that are held were asked under;
            None when nobody holds one.
        permits: what each holder is known by, and the seconds left to it, those that end first first.
        waiting: how many wait and have asked lately.
    """

    held: int
    limit: int | None
    permits: dict[str, float]
    waiting: int


def semaphore_keys(name: str) -> dict[str, str]:
    """The keys of a semaphore."""
    base = keys.key("semaphores", name)
    return {"holders": base, "queue": f"{base}:queue", "limit": f"{base}:limit"}


def permits_of(permit: str) -> tuple[int, int | None]:
    """For how many a permit counts, and the limit that it was asked under; (1, None) if it does not say."""
    _, *numbers = permit.rsplit(":", 2)
    if len(numbers) == 2 and all(number.isascii() and number.isdigit() for number in numbers):
        return int(numbers[0]), int(numbers[1])
    return 1, None


def inspect(name: str) -> Flow[SemaphoreState]:
    """Read the state of a semaphore."""
    made = semaphore_keys(name)
    figures, found = yield INSPECT(
        holders=made["holders"], limit=made["limit"], most=MAX_LISTED, liveness_ms=liveness_ms()
    )
    held, limit, waiting = figures
    pairs = iter(found)
    permits = {member.decode(): from_ms(ms) for member, ms in zip(pairs, pairs, strict=True) if b"#" not in member}
    own = [most for _, most in map(permits_of, permits) if most is not None]
    return SemaphoreState(held, limit or max(own, default=None), permits, waiting)

"""The three algorithms: what their scripts are asked, and what the replies mean.

==========  ===============================================================================================
``gcra``    the generic cell rate algorithm, also known as a leaky bucket: the whole limit at once after a
            pause, then one each period/limit. One short string for each visitor
``sliding`` never more than the limit in any period, exactly. Memory for each hit of the last period
``fixed``   a window begins with the first hit and ends a period later. One short string; up to twice the limit
            around the end of a window
==========  ===============================================================================================

The arithmetic of GCRA is exact: the server keeps whole microseconds and a rest in units of 1/limit, and what
could exceed its 53 bits is calculated here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from django_redis_components.core.protocol import Call
from django_redis_components.core.rates import MAX_COUNT, Rate
from django_redis_components.ratelimits.scripts import (
    FIXED,
    GCRA,
    REFUND_FIXED,
    REFUND_GCRA,
    REFUND_SLIDING,
    SLIDING,
)

#: Most hits that an exact sliding window may count: each is a member of a sorted set, about 90 bytes.
MAX_SLIDING = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """One rate after a hit.

    Attributes:
        rate: the rate.
        remaining: what is left of it now.
        retry_us: microseconds until the hit that was denied would be allowed by this rate; 0: now.
        reset_us: microseconds until all of it is there again.
    """

    rate: Rate
    remaining: int
    retry_us: int
    reset_us: int


class Algorithm(Protocol):
    """What the room needs of an algorithm."""

    name: str
    most: int

    def numbers(self, rates: Sequence[Rate], cost: int) -> tuple[int, ...]: ...
    def ask(self, places: Sequence[str], numbers: tuple[int, ...], cost: int, common: dict[str, Any]) -> Call: ...
    def refund(self, places: Sequence[str], numbers: tuple[int, ...], cost: int) -> Call: ...
    def states(self, rates: Sequence[Rate], reply: Sequence[int], cost: int) -> Iterator[State]: ...


class Gcra:
    """See the table above."""

    name = "gcra"
    most = MAX_COUNT

    def numbers(self, rates: Sequence[Rate], cost: int) -> tuple[int, ...]:
        """Limit, period and cost of each rate, as the script takes them."""
        made: tuple[int, ...] = ()
        for rate in rates:
            made += (rate.limit, rate.period_us, *divmod(cost * rate.period_us, rate.limit))
        return made

    def ask(self, places: Sequence[str], numbers: tuple[int, ...], cost: int, common: dict[str, Any]) -> Call:
        """The call that counts; `common` is what every algorithm is asked."""
        return GCRA(rates=places, numbers=numbers, **common)

    def refund(self, places: Sequence[str], numbers: tuple[int, ...], cost: int) -> Call:
        """The call that gives back."""
        return REFUND_GCRA(rates=places, numbers=numbers)

    def states(self, rates: Sequence[Rate], reply: Sequence[int], cost: int) -> Iterator[State]:
        """What a reply says of each rate."""
        for at, rate in enumerate(rates):
            limit, period_us = rate.limit, rate.period_us
            ahead_us, rest = reply[2 * at + 1], reply[2 * at + 2]
            free = (period_us - ahead_us) * limit - rest
            missing = cost * period_us - free
            yield State(rate, free // period_us, max(0, -(-missing // limit)), ahead_us + (rest > 0))


class Sliding:
    """See the table above."""

    name = "sliding"
    most = MAX_SLIDING

    def numbers(self, rates: Sequence[Rate], cost: int) -> tuple[int, ...]:
        """Limit and period of each rate."""
        return tuple(number for rate in rates for number in (rate.limit, rate.period_us))

    def ask(self, places: Sequence[str], numbers: tuple[int, ...], cost: int, common: dict[str, Any]) -> Call:
        """The call that counts; `common` is what every algorithm is asked."""
        return SLIDING(logs=places, cost=cost, numbers=numbers, **common)

    def refund(self, places: Sequence[str], numbers: tuple[int, ...], cost: int) -> Call:
        """The call that gives back."""
        return REFUND_SLIDING(logs=places, cost=cost)

    def states(self, rates: Sequence[Rate], reply: Sequence[int], cost: int) -> Iterator[State]:
        """What a reply says of each rate."""
        for at, rate in enumerate(rates):
            used, retry_us, reset_us = reply[3 * at + 1 : 3 * at + 4]
            yield State(rate, max(0, rate.limit - used), retry_us, reset_us)


class Fixed:
    """See the table above."""

    name = "fixed"
    most = MAX_COUNT

    def numbers(self, rates: Sequence[Rate], cost: int) -> tuple[int, ...]:
        """Limit and period of each rate."""
        return tuple(number for rate in rates for number in (rate.limit, rate.period_us))

    def ask(self, places: Sequence[str], numbers: tuple[int, ...], cost: int, common: dict[str, Any]) -> Call:
        """The call that counts; `common` is what every algorithm is asked."""
        return FIXED(rates=places, cost=cost, numbers=numbers, **common)

    def refund(self, places: Sequence[str], numbers: tuple[int, ...], cost: int) -> Call:
        """The call that gives back."""
        return REFUND_FIXED(rates=places, cost=cost, numbers=numbers)

    def states(self, rates: Sequence[Rate], reply: Sequence[int], cost: int) -> Iterator[State]:
        """What a reply says of each rate."""
        for at, rate in enumerate(rates):
            used, left_us = reply[2 * at + 1], reply[2 * at + 2]
            yield State(rate, max(0, rate.limit - used), left_us * (used + cost > rate.limit), left_us * (used > 0))


#: By name.
ALGORITHMS: dict[str, Algorithm] = {each.name: each for each in (Gcra(), Sliding(), Fixed())}


def algorithm_of(name: Any) -> Algorithm:
    """The algorithm of this name.

    Raises:
        ValueError: there is none.
    """
    found = ALGORITHMS.get(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(f"algorithm={name!r}: expected one of {', '.join(map(repr, ALGORITHMS))}.")
    return found

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

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

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


class State(NamedTuple):
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

    def ask(self, places: Sequence[str], rates: Sequence[Rate], cost: int, common: dict[str, Any]) -> Call: ...
    def refund(self, places: Sequence[str], rates: Sequence[Rate], cost: int) -> Call: ...
    def states(self, rates: Sequence[Rate], reply: Sequence[int], cost: int) -> tuple[State, ...]: ...


class Gcra:
    """See the table above."""

    name = "gcra"
    most = MAX_COUNT

    def ask(self, places: Sequence[str], rates: Sequence[Rate], cost: int, common: dict[str, Any]) -> Call:
        """The call that counts; `common` is what every algorithm is asked."""
        return GCRA(rates=places, numbers=self._numbers(rates, cost), **common)

    def refund(self, places: Sequence[str], rates: Sequence[Rate], cost: int) -> Call:
        """The call that gives back."""
        return REFUND_GCRA(rates=places, numbers=self._numbers(rates, cost))

    def states(self, rates: Sequence[Rate], reply: Sequence[int], cost: int) -> tuple[State, ...]:
        """What a reply says of each rate."""
        states = []
        for at, rate in enumerate(rates):
            limit, period_us = rate.limit, rate.period_us
            ahead_us, rest = reply[2 * at + 1], reply[2 * at + 2]
            free = (period_us - ahead_us) * limit - rest
            missing = cost * period_us - free
            retry_us = -(-missing // limit) if missing > 0 else 0
            states.append(State(rate, free // period_us, retry_us, ahead_us + (rest > 0)))
        return tuple(states)

    def _numbers(self, rates: Sequence[Rate], cost: int) -> tuple[int, ...]:
        """Limit, period and cost of each rate, as the scripts take them."""
        made: tuple[int, ...] = ()
        for rate in rates:
            made += (rate.limit, rate.period_us, *divmod(cost * rate.period_us, rate.limit))
        return made


class Sliding:
    """See the table above."""

    name = "sliding"
    most = MAX_SLIDING

    def ask(self, places: Sequence[str], rates: Sequence[Rate], cost: int, common: dict[str, Any]) -> Call:
        """The call that counts; `common` is what every algorithm is asked."""
        return SLIDING(logs=places, cost=cost, numbers=_limits_and_periods(rates), **common)

    def refund(self, places: Sequence[str], rates: Sequence[Rate], cost: int) -> Call:
        """The call that gives back."""
        return REFUND_SLIDING(logs=places, cost=cost)

    def states(self, rates: Sequence[Rate], reply: Sequence[int], cost: int) -> tuple[State, ...]:
        """What a reply says of each rate."""
        states = []
        for at, rate in enumerate(rates):
            used, retry_us, reset_us = reply[3 * at + 1 : 3 * at + 4]
            states.append(State(rate, max(0, rate.limit - used), retry_us, reset_us))
        return tuple(states)


class Fixed:
    """See the table above."""

    name = "fixed"
    most = MAX_COUNT

    def ask(self, places: Sequence[str], rates: Sequence[Rate], cost: int, common: dict[str, Any]) -> Call:
        """The call that counts; `common` is what every algorithm is asked."""
        return FIXED(rates=places, cost=cost, numbers=_limits_and_periods(rates), **common)

    def refund(self, places: Sequence[str], rates: Sequence[Rate], cost: int) -> Call:
        """The call that gives back."""
        return REFUND_FIXED(rates=places, cost=cost, numbers=_limits_and_periods(rates))

    def states(self, rates: Sequence[Rate], reply: Sequence[int], cost: int) -> tuple[State, ...]:
        """What a reply says of each rate."""
        states = []
        for at, rate in enumerate(rates):
            begin_us, used = reply[2 * at + 1], reply[2 * at + 2]
            left_us = begin_us + rate.period_us
            retry_us, reset_us = left_us * (used + cost > rate.limit), left_us * (used > 0)
            states.append(State(rate, max(0, rate.limit - used), retry_us, reset_us))
        return tuple(states)


def _limits_and_periods(rates: Sequence[Rate]) -> tuple[int, ...]:
    return tuple([number for rate in rates for number in (rate.limit, rate.period_us)])


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

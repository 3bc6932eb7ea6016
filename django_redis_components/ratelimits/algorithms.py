"""The three algorithms: how each builds its script calls and reads the replies.

==========  ===============================================================================================
``gcra``    generic cell rate algorithm (a leaky bucket): after a pause the whole limit at once, then one hit every
            period / limit. One short string per key
``sliding`` never more than the limit in any period, exactly. Stores each hit of the last period
``fixed``   a window starts with the first hit and ends a period later. One short string; up to twice the limit
            around the end of a window
==========  ===============================================================================================

The arithmetic of GCRA is exact: the server stores whole microseconds and a remainder in units of 1/limit. Values that
could exceed Lua's 53-bit integers are calculated in Python.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, Protocol, cast

from django_redis_components.core.arguments import check_choice
from django_redis_components.core.protocol import Call
from django_redis_components.core.rates import MAX_COUNT, ParsedRate
from django_redis_components.core.scripts import LuaScript
from django_redis_components.ratelimits.scripts import (
    BLOCK,
    BLOCK_SLIDING,
    FIXED,
    GCRA,
    REFUND_FIXED,
    REFUND_GCRA,
    REFUND_SLIDING,
    SLIDING,
)

#: Maximum limit of an exact sliding window: each hit is a member of a sorted set, about 90 bytes.
MAX_SLIDING_LIMIT = 10_000


@dataclasses.dataclass(slots=True, unsafe_hash=True)  # not frozen: that takes four times as long, once per hit
class RateState:
    """The state of one rate after a hit.

    Attributes:
        rate: the rate.
        remaining: hits left now.
        retry_after: seconds until this rate would allow the denied hit; 0.0 if it allows it now.
        reset_after: seconds until the full limit is available.
    """

    rate: ParsedRate
    remaining: int
    retry_after: float
    reset_after: float


class Algorithm(Protocol):
    """The interface of an algorithm: it builds calls and parses replies."""

    name: str
    max_limit: int

    def hit_call(
        self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], cost: int, common: dict[str, Any]
    ) -> Call: ...
    def refund_call(self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], cost: int) -> Call: ...
    def block_call(self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], block: dict[str, Any]) -> Call: ...
    def parse_states(self, rates: Sequence[ParsedRate], reply: Sequence[int], cost: int) -> tuple[RateState, ...]: ...


class Gcra:
    """The generic cell rate algorithm."""

    name = "gcra"
    max_limit = MAX_COUNT

    def hit_call(
        self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], cost: int, common: dict[str, Any]
    ) -> Call:
        """Return the call that counts a hit; `common` has the arguments that all algorithms share."""
        return GCRA(rates=rate_keys, numbers=self._numbers(rates, cost), **common)

    def refund_call(self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], cost: int) -> Call:
        """Return the call that refunds a hit."""
        return REFUND_GCRA(rates=rate_keys, numbers=self._numbers(rates, cost))

    def block_call(self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], block: dict[str, Any]) -> Call:
        """Return the call that blocks a key; `block` has the arguments that all algorithms share."""
        return BLOCK(rates=rate_keys, **block)

    def parse_states(self, rates: Sequence[ParsedRate], reply: Sequence[int], cost: int) -> tuple[RateState, ...]:
        """Return the state of each rate from the script's reply."""
        states = []
        for index, rate in enumerate(rates):
            limit, period_us = rate.limit, rate.period_us
            ahead_us, remainder = reply[2 * index + 1], reply[2 * index + 2]
            free = (period_us - ahead_us) * limit - remainder
            missing = cost * period_us - free
            retry_us = -(-missing // limit) if missing > 0 else 0
            reset_us = ahead_us + (remainder > 0)
            states.append(RateState(rate, free // period_us, retry_us / 1_000_000, reset_us / 1_000_000))
        return tuple(states)

    def _numbers(self, rates: Sequence[ParsedRate], cost: int) -> tuple[int, ...]:
        """Return limit, period and cost of each rate, in the order of the scripts' arguments."""
        numbers: tuple[int, ...] = ()
        for rate in rates:
            numbers += (rate.limit, rate.period_us, *divmod(cost * rate.period_us, rate.limit))
        return numbers


class Sliding:
    """An exact sliding window."""

    name = "sliding"
    max_limit = MAX_SLIDING_LIMIT

    def hit_call(
        self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], cost: int, common: dict[str, Any]
    ) -> Call:
        """See `Gcra.hit_call`."""
        return SLIDING(logs=rate_keys, cost=cost, numbers=_limits_and_periods(rates), **common)

    def refund_call(self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], cost: int) -> Call:
        """See `Gcra.refund_call`."""
        return REFUND_SLIDING(logs=rate_keys, cost=cost)

    def block_call(self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], block: dict[str, Any]) -> Call:
        """See `Gcra.block_call`."""
        return BLOCK_SLIDING(logs=rate_keys, numbers=_limits_and_periods(rates), **block)

    def parse_states(self, rates: Sequence[ParsedRate], reply: Sequence[int], cost: int) -> tuple[RateState, ...]:
        """See `Gcra.parse_states`."""
        states = []
        for index, rate in enumerate(rates):
            used, retry_us, reset_us = reply[3 * index + 1 : 3 * index + 4]
            states.append(RateState(rate, max(0, rate.limit - used), retry_us / 1_000_000, reset_us / 1_000_000))
        return tuple(states)


class Fixed:
    """Fixed windows; each starts with its first hit."""

    name = "fixed"
    max_limit = MAX_COUNT

    def hit_call(
        self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], cost: int, common: dict[str, Any]
    ) -> Call:
        """See `Gcra.hit_call`."""
        return FIXED(rates=rate_keys, cost=cost, numbers=_limits_and_periods(rates), **common)

    def refund_call(self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], cost: int) -> Call:
        """See `Gcra.refund_call`."""
        return REFUND_FIXED(rates=rate_keys, cost=cost, numbers=_limits_and_periods(rates))

    def block_call(self, rate_keys: Sequence[str], rates: Sequence[ParsedRate], block: dict[str, Any]) -> Call:
        """See `Gcra.block_call`."""
        return BLOCK(rates=rate_keys, **block)

    def parse_states(self, rates: Sequence[ParsedRate], reply: Sequence[int], cost: int) -> tuple[RateState, ...]:
        """See `Gcra.parse_states`."""
        states = []
        for index, rate in enumerate(rates):
            start_us, used = reply[2 * index + 1], reply[2 * index + 2]
            left = (start_us + rate.period_us) / 1_000_000
            retry_after, reset_after = left * (used + cost > rate.limit), left * (used > 0)
            states.append(RateState(rate, max(0, rate.limit - used), retry_after, reset_after))
        return tuple(states)


class HitRequest:
    """Builds the script calls for hits of one cost.

    The arguments that hits share are converted once; each hit adds only its keys and its id. All counting scripts take
    the penalty's key first and the id as their first argument.
    """

    __slots__ = ("_arguments", "_script", "cost")

    def __init__(
        self, algorithm: Algorithm, rates: Sequence[ParsedRate], cost: int, denials: int, block_us: int
    ) -> None:
        common = {"penalty": "", "id": b"", "denials": denials, "block_us": block_us}
        template = algorithm.hit_call([], rates, cost, common)
        self._script = cast(LuaScript, template.script)
        self._arguments = tuple(map(str, template.args[1:]))  # strings: integers would be converted for every hit
        self.cost = cost

    def call(self, penalty_key: str, rate_keys: Sequence[str], hit_id: bytes) -> Call:
        """Return the call for one hit. With an empty id the script counts nothing."""
        return Call(self._script, (penalty_key, *rate_keys), (hit_id, *self._arguments))

    def read_call(self, penalty_key: str, rate_keys: Sequence[str]) -> Call:
        """Return a call that counts nothing, and writes nothing even if the server's clock was set back."""
        return Call(self._script.reader, (penalty_key, *rate_keys), (b"", *self._arguments))


def _limits_and_periods(rates: Sequence[ParsedRate]) -> tuple[int, ...]:
    return tuple([number for rate in rates for number in (rate.limit, rate.period_us)])


#: Algorithms by name.
#: Names of the algorithms.
AlgorithmName = Literal["gcra", "sliding", "fixed"]

ALGORITHMS: dict[str, Algorithm] = {each.name: each for each in (Gcra(), Sliding(), Fixed())}


def algorithm_by_name(name: Any) -> Algorithm:
    """Return the algorithm with this name.

    Raises:
        TypeError, ValueError: no algorithm has this name.
    """
    return ALGORITHMS[check_choice(name, "algorithm", ALGORITHMS)]

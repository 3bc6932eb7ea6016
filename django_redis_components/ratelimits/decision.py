"""The result of a hit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from django_redis_components.core.rates import ParsedRate
from django_redis_components.ratelimits.algorithms import RateState


@dataclasses.dataclass(slots=True)  # not frozen: that takes four times as long, once per hit
class Decision:
    """Whether a hit is allowed. Its truth value is `is_allowed`: ``if limit.hit(key): …``.

    If a limit has several rates, `limit`, `remaining` and `reset_after` belong to the rate with the fewest hits left;
    after a denial, to the rate with the longest `retry_after`.

    Attributes:
        is_allowed: whether the hit is allowed.
        limit: the hits that the rate allows per period.
        remaining: the hits left in the rate.
        retry_after: seconds until this hit would be allowed; 0.0 if it was.
        reset_after: seconds until the rate's full limit is available.
        is_blocked: True if the penalty or an operator's block denied the hit, regardless of the rates.
        is_checked: False if Redis did not answer and `on_error` decided: with "open" by the hits of this process.
        states: the state of each rate when the server, or this process, decided; empty if blocked or if `on_error`
            denied the hit.
        blocked_by: the author of the operator's block that denied the hit, "" if not given; None without such a block.
    """

    is_allowed: bool
    limit: int
    remaining: int
    retry_after: float
    reset_after: float
    is_blocked: bool = False
    is_checked: bool = True
    states: tuple[RateState, ...] = dataclasses.field(default=(), repr=False)
    blocked_by: str | None = None

    def __bool__(self) -> bool:
        return self.is_allowed


def allowed(states: tuple[RateState, ...]) -> Decision:
    """Return the decision for a hit that all rates allow."""
    tightest = states[0] if len(states) == 1 else min(states, key=_headroom)
    return Decision(True, tightest.rate.limit, tightest.remaining, 0.0, tightest.reset_after, False, True, states)


def denied(states: tuple[RateState, ...]) -> Decision:
    """Return the decision for a hit that a rate denies."""
    longest = max(states, key=_retry_after)
    return Decision(
        False,
        longest.rate.limit,
        longest.remaining,
        longest.retry_after,
        longest.reset_after,
        False,
        True,
        states,
    )


def blocked(rates: Sequence[ParsedRate], left_us: int, blocked_by: str | None = None) -> Decision:
    """Return the decision for a hit during a block: by the penalty, or by an operator."""
    left_s = left_us / 1_000_000
    return Decision(False, rates[0].limit, 0, left_s, left_s, is_blocked=True, blocked_by=blocked_by)


def unchecked(rates: Sequence[ParsedRate], retry_after_s: float) -> Decision:
    """Return the denial of a hit that Redis did not check."""
    return Decision(False, rates[0].limit, 0, retry_after_s, retry_after_s, is_checked=False)


def _headroom(state: RateState) -> tuple[int, float]:
    return state.remaining, -state.reset_after


def _retry_after(state: RateState) -> float:
    return state.retry_after

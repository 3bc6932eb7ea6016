"""The answer to a hit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from django_redis_components.core.rates import Rate
from django_redis_components.ratelimits.algorithms import State


@dataclasses.dataclass(slots=True)  # not frozen: that would take four times as long, and each hit makes one
class Decision:
    """Whether a hit is allowed. It is true or false as that is: ``if limit.hit(key): …``.

    Where a limit has several rates, `limit`, `remaining` and `reset_after` are those of the rate that is nearest to
    its end; after a denial, of the one that asks for the longest wait.

    Attributes:
        allowed: whether it is.
        limit: how many the rate allows.
        remaining: how many are left of it.
        retry_after: seconds until this hit would be allowed; 0.0 when it was.
        reset_after: seconds until all of the rate is there again.
        blocked: denied by the penalty, whatever the rates say.
        checked: False when Redis did not answer and `on_error` has decided.
        states: each rate by itself, when the server was asked; empty when it is blocked or unchecked.
    """

    allowed: bool
    limit: int
    remaining: int
    retry_after: float
    reset_after: float
    blocked: bool = False
    checked: bool = True
    states: tuple[State, ...] = dataclasses.field(default=(), repr=False)

    def __bool__(self) -> bool:
        return self.allowed


def allowed(states: tuple[State, ...]) -> Decision:
    """The decision that all rates allow."""
    nearest = states[0] if len(states) == 1 else min(states, key=_nearness)
    return Decision(True, nearest.rate.limit, nearest.remaining, 0.0, nearest.reset_us / 1_000_000, False, True, states)


def denied(states: tuple[State, ...]) -> Decision:
    """The decision that a rate denies."""
    longest = max(states, key=_wait)
    return Decision(
        False,
        longest.rate.limit,
        longest.remaining,
        longest.retry_us / 1_000_000,
        longest.reset_us / 1_000_000,
        False,
        True,
        states,
    )


def blocked(rates: Sequence[Rate], left_us: int) -> Decision:
    """The decision of a penalty."""
    left_s = left_us / 1_000_000
    return Decision(False, rates[0].limit, 0, left_s, left_s, blocked=True)


def unchecked(rates: Sequence[Rate], is_allowed: bool, retry_after_s: float) -> Decision:
    """The decision that is made without Redis."""
    limit = rates[0].limit
    if is_allowed:
        return Decision(True, limit, limit, 0.0, 0.0, checked=False)
    return Decision(False, limit, 0, retry_after_s, retry_after_s, checked=False)


def _nearness(state: State) -> tuple[int, int]:
    return state.remaining, -state.reset_us


def _wait(state: State) -> int:
    return state.retry_us

"""Backoff policies: how long to wait before a task is retried. Pure functions.

A backoff is a number of seconds, a list of them (the last one repeats), or a callable
``(exception, tried) -> seconds or None``; None gives up at once.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

from django_redis_components.core.arguments import check_number, short_repr
from django_redis_components.core.decorators import refuse_deferred_function
from django_redis_components.core.units import Seconds, to_seconds


@dataclasses.dataclass(frozen=True, slots=True)
class Tried:
    """The state of the task, for a backoff callable.

    Attributes:
        id: the task's id.
        name: the task's name.
        attempts: exceptions so far, including this one.
    """

    id: str
    name: str
    attempts: int


Backoff = Seconds | Sequence[Seconds] | Callable[[BaseException, Tried], Seconds | None]


@dataclasses.dataclass(frozen=True)
class exponential:  # noqa: N801 - used like a function: backoff=exponential(base=2)
    """Exponential backoff with full jitter: uniform between 0 and min(cap, base * factor ** (attempt - 1)).

    Source: Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.

    Args:
        base: maximum seconds (or a timedelta) before the second attempt.
        factor: growth per attempt, at least 1.
        cap: maximum seconds (or a timedelta) between two attempts.
    """

    base: Seconds = 2.0
    factor: float = 2.0
    cap: Seconds = 600.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", to_seconds(self.base, "base", zero=True))
        object.__setattr__(self, "cap", to_seconds(self.cap, "cap", zero=True))
        check_number(self.factor, "factor", 1)

    def __call__(self, _: BaseException, tried: Tried) -> float:
        """Seconds until the next attempt."""
        cap_s = cast(float, self.cap)
        try:
            longest_s = cast(float, self.base) * float(self.factor) ** (tried.attempts - 1)
        except OverflowError:  # larger than any float
            longest_s = cap_s if self.base else 0.0
        return random.uniform(0.0, min(cap_s, longest_s))


#: The backoff of tasks without one.
DEFAULT = exponential()


def validate(backoff: Any) -> None:
    """Raise TypeError or ValueError unless the option `backoff` can be used."""
    if backoff is None or callable(backoff):
        refuse_deferred_function(backoff, "backoff")
        return
    if isinstance(backoff, list | tuple):
        if not backoff:
            raise ValueError("backoff=[]: expected at least one number of seconds.")
        for index, item in enumerate(backoff):
            to_seconds(item, f"backoff[{index}]", zero=True)
        return
    if isinstance(backoff, int | float | timedelta):
        to_seconds(backoff, "backoff", zero=True)
        return
    raise TypeError(f"backoff={short_repr(backoff)}: expected seconds, a list of seconds, or a callable.")


def delay_of(backoff: Any, exception: BaseException, tried: Tried) -> float | None:
    """Return the seconds until the next attempt, or None to fail the task."""
    chosen = DEFAULT if backoff is None else backoff
    if callable(chosen):
        seconds = chosen(exception, tried)
        return None if seconds is None else to_seconds(seconds, "backoff()", zero=True)
    if isinstance(chosen, list | tuple):
        chosen = chosen[min(tried.attempts, len(chosen)) - 1]
    return to_seconds(chosen, "backoff", zero=True)

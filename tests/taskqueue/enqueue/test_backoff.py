"""The pause before the next attempt."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from django_redis_components.taskqueue import exponential
from django_redis_components.taskqueue.retry import DEFAULT, Tried, delay_of


def tried(attempts: int) -> Tried:
    return Tried("id", "name", attempts)


def test_number_is_the_pause_before_each_attempt() -> None:
    assert [delay_of(1.5, LookupError(), tried(number)) for number in (1, 2, 9)] == [1.5, 1.5, 1.5]
    assert delay_of(timedelta(minutes=1), LookupError(), tried(1)) == 60.0
    assert delay_of(0, LookupError(), tried(1)) == 0.0


def test_last_pause_of_a_list_repeats() -> None:
    assert [delay_of([1, 10, 60], LookupError(), tried(number)) for number in (1, 2, 3, 4, 99)] == [1, 10, 60, 60, 60]


def test_callable_returns_the_pause_or_none() -> None:
    asked: list[Any] = []
    error = LookupError("x")

    def choose(exception: BaseException, about: Tried) -> float | None:
        asked.append((exception, about))
        return None if about.attempts > 1 else 2.5

    assert [delay_of(choose, error, tried(number)) for number in (1, 2)] == [2.5, None]
    assert asked == [(error, tried(1)), (error, tried(2))]


def test_invalid_return_value_of_a_callable_raises() -> None:
    with pytest.raises(TypeError, match=r"^backoff\(\)='soon': expected a number of seconds of at least 0"):
        delay_of(lambda *_: "soon", LookupError(), tried(1))


def test_exponential_stays_below_its_growing_bound() -> None:
    random.seed(1)
    backoff = exponential(base=1, factor=3, cap=20)

    for attempt, bound in ((1, 1), (2, 3), (3, 9), (4, 20), (500, 20)):
        drawn = [backoff(LookupError(), tried(attempt)) for _ in range(200)]
        assert all(0 <= seconds <= bound for seconds in drawn)
        assert max(drawn) > bound / 2


@pytest.mark.parametrize("factor", [2, 1e6, 10**6, 1e200, 10**300])
def test_exponential_reaches_its_cap_whatever_its_factor(factor: float) -> None:
    backoff = exponential(factor=factor, cap=20)

    drawn = [delay_of(backoff, LookupError(), tried(attempt)) for attempt in (70, 1_000, 1_000_000) for _ in range(50)]

    assert 10 < max(each for each in drawn if each is not None) <= 20
    assert delay_of(exponential(base=0, factor=factor), LookupError(), tried(1_000_000)) == 0


def test_exponential_takes_timedeltas() -> None:
    assert exponential(base=timedelta(seconds=1), cap=timedelta(minutes=2)) == exponential(base=1, cap=120)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"base": -1}, ValueError, "base=-1: expected a number of seconds of at least 0, or a timedelta."),
        ({"cap": "x"}, TypeError, "cap='x': expected a number of seconds of at least 0, or a timedelta."),
        ({"factor": 0.5}, ValueError, "factor=0.5: expected a number of at least 1."),
        ({"factor": True}, TypeError, "factor=True: expected a number of at least 1."),
    ],
)
def test_invalid_exponential_raises(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        exponential(**options)

    assert str(caught.value) == text


def test_default_backoff_is_exponential_with_jitter() -> None:
    assert exponential() == DEFAULT
    assert 0 <= delay_of(None, LookupError(), tried(1)) <= 2.0

"""Jittered durations and their bounds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_redis_components.expiry import jitter


def test_jitter_stays_between_its_bounds() -> None:
    drawn = [jitter(100, 0.2) for _ in range(1_000)]

    assert 80 <= min(drawn) < 84
    assert 96 < max(drawn) <= 100


def test_default_spread_is_a_tenth() -> None:
    assert all(54 <= jitter(timedelta(minutes=1)) <= 60 for _ in range(100))


def test_spread_of_zero_returns_the_duration() -> None:
    assert jitter(60, 0) == 60


def test_jitter_is_constant_per_key_and_differs_between_keys() -> None:
    assert jitter(60, key="a") == jitter(60, key="a")
    shares = sorted(jitter(60, key=str(number)) for number in range(1_000))
    assert 54 <= shares[0] < 54.1
    assert 59.9 < shares[-1] <= 60
    assert 56.5 < shares[500] < 57.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((-1,), ValueError, "seconds=-1: expected a number of seconds above 0, or a timedelta."),
        (("60",), TypeError, "seconds='60': expected a number of seconds above 0, or a timedelta."),
        ((60, 1), ValueError, "spread=1: expected a number from 0 to below 1."),
        ((60, -0.1), ValueError, "spread=-0.1: expected a number from 0 to below 1."),
        ((60, "0.1"), TypeError, "spread='0.1': expected a number from 0 to below 1."),
        ((60, True), TypeError, "spread=True: expected a number from 0 to below 1."),
    ],
)
def test_invalid_argument_raises(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        jitter(*arguments)
    assert str(raised.value) == message

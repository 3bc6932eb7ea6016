"""Durations that differ, within bounds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from django_redis_components.expiry import jitter


def test_it_is_at_most_what_was_asked_for_and_at_least_its_share_less() -> None:
    drawn = [jitter(100, 0.2) for _ in range(1_000)]

    assert 80 <= min(drawn) < 84
    assert 96 < max(drawn) <= 100


def test_a_tenth_unless_told_otherwise() -> None:
    assert all(54 <= jitter(timedelta(minutes=1)) <= 60 for _ in range(100))


def test_no_spread_is_no_jitter() -> None:
    assert jitter(60, 0) == 60


def test_a_key_always_gets_the_same_and_keys_differ() -> None:
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
def test_a_wrong_argument_is_named(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        jitter(*arguments)
    assert str(raised.value) == message

"""Conversion of durations from seconds to milliseconds."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_redis_components.core.units import MAX_MS, from_ms, to_ms, to_seconds


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        (1, 1_000),
        (0.25, 250),
        (2.007, 2_007),  # 2.007 * 1000 is 2007.0000000000002
        (0.0011, 2),
        (1e-9, 1),
        (timedelta(milliseconds=1.5), 2),
        (timedelta(minutes=1), 60_000),
        (MAX_MS / 1_000, MAX_MS),
    ],
)
def test_duration_is_rounded_up_to_milliseconds(given: float | timedelta, ms: int) -> None:
    assert to_ms(given, "timeout") == ms


def test_whole_milliseconds_are_unchanged() -> None:
    assert [ms for ms in range(1, 100_000) if to_ms(ms / 1_000, "timeout") != ms] == []


@pytest.mark.parametrize("given", [0, 0.0, timedelta(0)])
def test_zero_is_accepted_only_when_allowed(given: float | timedelta) -> None:
    assert to_ms(given, "grace", zero=True) == 0

    with pytest.raises(ValueError, match=r"timeout=.*: expected a number of seconds above 0, or a timedelta\."):
        to_ms(given, "timeout")


@pytest.mark.parametrize("given", [-1, -0.001, float("nan"), float("inf"), timedelta(seconds=-1)])
def test_duration_out_of_range_is_rejected(given: float | timedelta) -> None:
    with pytest.raises(ValueError, match=r"grace=.*: expected a number of seconds of at least 0, or a timedelta\."):
        to_seconds(given, "grace", zero=True)


@pytest.mark.parametrize("given", ["5", None, True, b"1", [1]])
def test_duration_must_be_a_number_or_timedelta(given: object) -> None:
    with pytest.raises(TypeError, match=r"timeout=.*: expected a number of seconds above 0, or a timedelta\."):
        to_seconds(given, "timeout")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [30_000_000_000, timedelta(days=4_000)])
def test_more_than_ten_years_is_rejected(given: float | timedelta) -> None:
    with pytest.raises(ValueError, match=r"expected at most ten years; durations are in seconds\."):
        to_seconds(given, "timeout")


def test_integer_too_large_for_a_float_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"expected a number of seconds above 0"):
        to_seconds(10**400, "timeout")


def test_milliseconds_are_converted_to_seconds() -> None:
    assert from_ms(1_500) == 1.5

"""Ranges of days as whole months, weeks and days."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_redis_components.analytics.periods import Unit, cover, days_of, following, start_of

starts = st.dates(date(2019, 1, 1), date(2032, 12, 31))


def range_of(start: date, length: int) -> list[date]:
    return [start + timedelta(days=number) for number in range(length)]


@given(starts, st.integers(1, 400))
def test_periods_cover_each_day_of_a_range_once(start: date, length: int) -> None:
    found = cover(range_of(start, length))

    days: list[date] = []
    for unit, first in found:
        after = following(unit, first)
        days += range_of(first, (after - first).days)
    assert days == range_of(start, length)
    assert len(found) <= 36
    assert len(found) <= length


@pytest.mark.parametrize(
    ("start", "length", "units"),
    [
        (date(2026, 1, 1), 365, ["month"] * 12),
        (date(2024, 2, 1), 29, ["month"]),
        (date(2026, 11, 2), 7, ["week"]),
        (date(2026, 11, 2), 6, ["day"] * 6),
        (date(2026, 11, 24), 38, ["day"] * 7 + ["month"]),
    ],
)
def test_longest_periods_are_used(start: date, length: int, units: list[Unit]) -> None:
    assert [unit for unit, _ in cover(range_of(start, length))] == units


@given(starts)
def test_first_and_last_day_of_a_period(day: date) -> None:
    month = day.replace(day=1)
    week = day - timedelta(days=day.weekday())

    assert days_of("month", month) == [month, following("month", month) - timedelta(days=1)]
    assert days_of("week", week) == [week, week + timedelta(days=6)]
    assert days_of("day", day) == [day, day]


@pytest.mark.parametrize("unit", ["day", "week", "month"])
def test_periods_at_the_ends_of_the_calendar_have_a_first_and_a_last_day(unit: Unit) -> None:
    last, first = start_of(unit, date.max), start_of(unit, date.min)

    assert days_of(unit, last) == [last, date.max]
    assert days_of(unit, first)[0] == first == date.min
    assert cover([date.max - timedelta(days=1), date.max]) == [("day", date(9999, 12, 30)), ("day", date.max)]
    assert cover(range_of(date(9999, 12, 1), 31)) == [("month", date(9999, 12, 1))]


@pytest.mark.parametrize(
    ("unit", "start", "count"), [("month", date.max, 1), ("week", date.max, 1), ("day", date.min, -1)]
)
def test_period_beyond_the_calendar_is_refused(unit: Unit, start: date, count: int) -> None:
    with pytest.raises(ValueError, match=rf"^{start}: expected a {unit} from which the calendar has 1 more\.$"):
        following(unit, start, count)

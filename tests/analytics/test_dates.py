"""What a day is: local dates over daylight saving, midnight and time zones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone as django_timezone

from django_redis_components.analytics.dates import local_date, site_date, span

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("moment", "day"),
    [
        ("2026-03-28T22:59:59", date(2026, 3, 28)),
        ("2026-03-28T23:00:00", date(2026, 3, 29)),  # the day of 23 hours begins, at UTC+1
        ("2026-03-29T21:59:59", date(2026, 3, 29)),  # and ends at UTC+2
        ("2026-03-29T22:00:00", date(2026, 3, 30)),
        ("2026-10-24T22:00:00", date(2026, 10, 25)),  # the day of 25 hours
        ("2026-10-25T22:59:59", date(2026, 10, 25)),
        ("2026-10-25T23:00:00", date(2026, 10, 26)),
        ("2026-12-31T23:00:00", date(2027, 1, 1)),
    ],
)
def test_aware_datetime_belongs_to_its_local_date(moment: str, day: date) -> None:
    assert local_date(datetime.fromisoformat(moment).replace(tzinfo=UTC)) == day


def test_repeated_hour_of_the_clock_change_is_on_one_day() -> None:
    first = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=0)
    second = first.replace(fold=1)

    assert second.astimezone(UTC) - first.astimezone(UTC) == timedelta(hours=1)
    assert local_date(first) == local_date(second) == date(2026, 10, 25)


def test_active_time_zone_decides_on_the_day() -> None:
    moment = datetime(2026, 11, 21, 12, tzinfo=UTC)

    with django_timezone.override("Pacific/Kiritimati"):
        assert local_date(moment) == date(2026, 11, 22)


def test_site_date_ignores_the_active_time_zone() -> None:
    before = datetime.now(BERLIN).date()

    with django_timezone.override("Pacific/Kiritimati"):
        east = local_date(), site_date()
    with django_timezone.override("Pacific/Midway"):
        west = local_date(), site_date()

    assert east[0] > west[0]  # 25 hours apart: never the same date
    assert {east[1], west[1]} <= {before, datetime.now(BERLIN).date()}


def test_date_and_naive_datetime_keep_their_day() -> None:
    with django_timezone.override("Pacific/Kiritimati"):
        assert local_date(date(2026, 3, 29)) == date(2026, 3, 29)
        assert local_date(datetime(2026, 3, 29, 23, 59)) == date(2026, 3, 29)  # noqa: DTZ001


def test_day_is_the_local_clock_date_without_use_tz(settings: Any) -> None:
    settings.USE_TZ = False
    before = datetime.now(BERLIN).date()

    assert {local_date(), site_date()} <= {before, datetime.now(BERLIN).date()}


def test_value_that_is_not_a_day_raises() -> None:
    with pytest.raises(TypeError, match=r"^start='2026-01-01': expected a date, a datetime or None\.$"):
        span("2026-01-01", None)  # type: ignore[arg-type]


def test_span_includes_both_ends_across_a_clock_change() -> None:
    assert span(date(2026, 3, 28), date(2026, 3, 30)) == [date(2026, 3, 28), date(2026, 3, 29), date(2026, 3, 30)]
    assert span(date(2026, 3, 28), None) == [date(2026, 3, 28)]


def test_span_of_datetimes_uses_local_dates() -> None:
    start = datetime(2026, 10, 24, 22, tzinfo=UTC)
    end = datetime(2026, 10, 25, 23, 30, tzinfo=timezone(timedelta(hours=2)))

    assert span(start, end) == [date(2026, 10, 25)]


def test_span_with_end_before_start_raises() -> None:
    with pytest.raises(ValueError, match=r"^end=2026-01-01 is before start=2026-01-02\.$"):
        span(date(2026, 1, 2), date(2026, 1, 1))


def test_span_of_more_than_400_days_raises() -> None:
    start = date(2026, 1, 1)

    assert len(span(start, start + timedelta(days=399))) == 400
    with pytest.raises(ValueError, match=r"^2026-01-01 to 2027-02-05 are 401 days: expected at most 400\."):
        span(start, start + timedelta(days=400))

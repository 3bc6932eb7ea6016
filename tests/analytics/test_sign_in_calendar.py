"""Sign-ins against a calendar in plain Python: year ends, leap days, time zones and daylight saving."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_redis_components.analytics import SignIns
from tests.support import Store

#: Days around which calendars go wrong: year ends, leap days, changes of the clocks in Berlin, Auckland and Havana.
EDGES = [
    date(2023, 12, 31), date(2024, 2, 28), date(2024, 12, 30), date(2026, 3, 28), date(2026, 10, 24),
    date(2026, 3, 7), date(2026, 4, 4), date(2026, 9, 26), date(2027, 12, 31), date(2028, 2, 28),
]  # fmt: skip
ZONES = ["UTC", "Europe/Berlin", "Pacific/Auckland", "America/Havana", "Asia/Kathmandu", "Pacific/Kiritimati"]

days_near_edges = st.builds(lambda edge, by: edge + timedelta(days=by), st.sampled_from(EDGES), st.integers(-4, 4))
any_days = st.dates(date(2020, 1, 1), date(2032, 12, 31))
COMMON = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

pytestmark = pytest.mark.integration


def streak(days: set[date], at: date) -> int:
    if at not in days:
        at -= timedelta(days=1)
    length = 0
    while at - timedelta(days=length) in days:
        length += 1
    return length


@COMMON
@given(st.sets(days_near_edges | any_days, max_size=30), days_near_edges)
def test_days_of_a_user_equal_a_set_of_dates(redis_server: Store, days: set[date], day: date) -> None:
    redis_server.delete_keys()
    sign_ins = SignIns("site")
    for each in days:
        assert sign_ins.sign_in(7, at=each) is True

    assert sign_ins.has_signed_in(7, at=day) is (day in days)
    assert (sign_ins.first(7), sign_ins.last(7)) == ((min(days), max(days)) if days else (None, None))
    assert sign_ins.streak(7, at=day) == streak(days, day)
    runs = [streak(days, each) for each in days]
    assert sign_ins.longest_streak(7) == max(runs, default=0)
    length = calendar.monthrange(day.year, day.month)[1]
    assert sign_ins.month(7, day.year, day.month) == [day.replace(day=1 + number) in days for number in range(length)]
    assert sign_ins.year(7, day.year) == [
        date(day.year, 1, 1) + timedelta(days=number) in days for number in range(365 + calendar.isleap(day.year))
    ]
    for start, end in ((day, day + timedelta(days=40)), (None, day), (day, None)):
        expected = sum((start or date.min) <= each <= (end or date.max) for each in days)
        assert sign_ins.count(7, start, end) == expected


@COMMON
@given(
    st.sampled_from(ZONES),
    st.lists(
        st.builds(
            lambda edge, minutes: datetime(edge.year, edge.month, edge.day, tzinfo=UTC) + timedelta(minutes=minutes),
            st.sampled_from(EDGES),
            st.integers(-3_000, 3_000),
        ),
        min_size=1,
        max_size=12,
    ),
)
def test_times_count_on_their_date_in_the_active_time_zone(redis_server: Store, name: str, times: list) -> None:
    redis_server.delete_keys()
    zone, sign_ins = ZoneInfo(name), SignIns("site")
    days: set[date] = set()

    with timezone.override(zone):
        for at in times:
            day = at.astimezone(zone).date()
            assert sign_ins.sign_in(7, at=at) is (day not in days)
            days.add(day)

    assert sign_ins.count(7) == len(days)
    assert (sign_ins.first(7), sign_ins.last(7)) == (min(days), max(days))
    assert sign_ins.streak(7, at=max(days)) == streak(days, max(days))


@COMMON
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), days_near_edges), max_size=25))
def test_added_and_undone_days_equal_a_set(redis_server: Store, changes: list[tuple[bool, int, date]]) -> None:
    redis_server.delete_keys()
    sign_ins = SignIns("site", mapped=True)
    model: set[tuple[int, date]] = set()
    changes = [(is_added, user, min(day, date(2026, 11, 20))) for is_added, user, day in changes]

    for is_added, user, day in changes:
        if is_added:
            assert sign_ins.backfill(user, at=day, by="test") is ((user, day) not in model)
            model.add((user, day))
        else:
            assert sign_ins.remove(user, at=day, by="test") is ((user, day) in model)
            model.discard((user, day))

    for user in range(4):
        assert sign_ins.count(user) == sum(each == user for each, _ in model)
    for _, _, day in changes:
        assert sign_ins.total(at=day) == sum(each == day for _, each in model)

"""Events: periods of the local time, sets of users as expressions, mapped ids, cohorts and funnels."""

from __future__ import annotations

import random
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_redis_components.analytics import (
    Cohort,
    Events,
    PageViews,
    Ranking,
    UserSet,
    acohorts,
    afunnel,
    cohorts,
    funnel,
)
from django_redis_components.analytics.events import missing_units_flow
from django_redis_components.analytics.periods import following, label, start_of
from django_redis_components.core.client.connections import client
from django_redis_components.core.protocol import run
from tests.support import Proxy, Store, run_async, run_together

DAY = date(2026, 11, 18)  # a Wednesday


@pytest.mark.contract
def test_users_are_counted_by_day_week_and_month(store: Store) -> None:
    active = Events("active")

    assert [active.mark(7, at=DAY), active.mark(7, at=DAY), active.mark(8, at=DAY)] == [True, False, True]
    active.mark(9, at=DAY - timedelta(days=2))
    active.mark(10, at=DAY - timedelta(days=17))

    assert [active.day(at=DAY).count(), active.week(at=DAY).count(), active.month(at=DAY).count()] == [2, 3, 4]
    assert active.day(at=DAY + timedelta(days=1)).count() == 0
    assert [
        active.did(7, unit="day", at=DAY),
        active.did(9, unit="day", at=DAY),
        active.did(9, unit="week", at=DAY),
    ] == [True, False, True]
    assert active.between(DAY - timedelta(days=2), DAY, unit="day").count() == 3
    assert all(store.raw.pttl(key) > 0 for key in store.keys() if b":ev:active" in key)  # noqa: SIM118 - no dict


@pytest.mark.contract
def test_sets_of_users_are_combined(store: Store) -> None:
    active, paid, left = Events("active"), Events("paid"), Events("left")
    for event, users in ((active, (1, 2, 3, 1_000)), (paid, (2, 3, 4)), (left, (3,))):
        for user in users:
            event.mark(user, at=DAY)
    a, p, gone = active.week(at=DAY), paid.month(at=DAY), left.day(at=DAY)

    assert [(a & p).count(), (a | p).count(), (a & ~p).count(), (p & ~a).count()] == [2, 5, 2, 1]
    assert [(a & p & ~gone).count(), ((a | p) & ~gone).count(), (~gone & (a & ~p)).count()] == [1, 4, 2]
    assert (a & ~(p | gone)).count() == 2
    assert (a & ~~p).count() == 2
    assert not [key for key in store.keys() if b":scratch:" in key]  # noqa: SIM118 - a Store is no dict
    assert run_async(lambda: (a & ~p).acount()) == 2


def test_union_of_many_periods_needs_the_memory_of_one(own_server: Store) -> None:
    event, last = Events("active", units=("day",)), DAY + timedelta(days=39)
    for number in range(40):
        event.mark(8_000_000 + number, at=DAY + timedelta(days=number))
    active = event.between(DAY, last, unit="day")
    own_server.raw.config_resetstat()
    before = own_server.raw.info("memory")["used_memory_peak"]

    assert (active & ~event.day(at=last)).count() == 39
    assert (active | event.between(DAY, last, unit="day")).count() == 40

    assert own_server.raw.info("memory")["used_memory_peak"] - before < 5_000_000
    assert not [key for key in own_server.keys() if b":scratch:" in key]  # noqa: SIM118 - a Store is no dict


def test_complements_and_other_sites_are_errors(redis_server: Store) -> None:
    a, p = Events("active").day(at=DAY), Events("paid").day(at=DAY)

    for endless in (~a, ~a & ~p, a | ~p):
        with pytest.raises(ValueError, match="has no end: combine it with a set of users, as in active & ~paid"):
            endless.count()
    with pytest.raises(ValueError, match="Both sets of users must be of one site and connection"):
        a & Events("active", site="other").day(at=DAY)
    with pytest.raises(TypeError):
        a & 7  # type: ignore[operator]


EXPRESSIONS = st.recursive(
    st.sampled_from("abcd"),
    lambda inner: st.tuples(st.sampled_from("&|"), inner, inner) | st.tuples(st.just("~"), inner),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EXPRESSIONS)
def test_any_expression_equals_that_of_python_sets(redis_server: Store, expression: Any) -> None:
    source = random.Random(5)
    everybody = set(range(40))
    users = {
        name: {user for user in everybody if source.random() < share}
        for name, share in zip("abcd", (0.5, 0.2, 0.8, 0.02), strict=True)
    }
    events = {name: Events(name) for name in users}
    if not redis_server.keys():
        for name, members in users.items():
            for user in members:
                events[name].mark(user, at=DAY)

    def model(part: Any) -> set[int]:
        if isinstance(part, str):
            return users[part]
        if part[0] == "~":
            return everybody - model(part[1])
        one, other = model(part[1]), model(part[2])
        return one & other if part[0] == "&" else one | other

    def ours(part: Any) -> UserSet:
        if isinstance(part, str):
            return events[part].day(at=DAY)
        if part[0] == "~":
            return ~ours(part[1])
        return ours(part[1]) & ours(part[2]) if part[0] == "&" else ours(part[1]) | ours(part[2])

    anybody = events["a"].day(at=DAY) | events["b"].day(at=DAY) | events["c"].day(at=DAY) | events["d"].day(at=DAY)
    found = (anybody & ours(expression)).count()

    assert found == len(model(expression) & set.union(*users.values()))


@pytest.mark.contract
def test_ids_of_any_kind_are_mapped_to_numbers(store: Store) -> None:
    signup, paid = Events("signup", mapped=True), Events("paid", mapped=True)
    users: list[Any] = [UUID(int=number) for number in range(5)] + [2**40, "anna@example.org"]

    for user in users:
        assert signup.mark(user, at=DAY)
        assert not signup.mark(user, at=DAY)
    paid.mark(2**40, at=DAY)

    assert (signup.day(at=DAY).count(), (signup.day(at=DAY) & paid.week(at=DAY)).count()) == (7, 1)
    assert [paid.did(user, at=DAY) for user in (2**40, "anna@example.org", "x")] == [True, False, False]
    [key] = [key for key in store.keys() if key.endswith(b":ev:signup:day:20261118")]  # noqa: SIM118 - no dict
    assert store.raw.strlen(key) == 1


def test_mark_is_repeated_after_a_lost_reply(proxy: Proxy) -> None:
    event = Events("e", mapped=True, using="proxied")
    event.mark("first", at=DAY)
    proxy.drop_next_reply(after=b"{default}")

    assert not event.mark("second", at=DAY), "the repeated call finds its own mark"

    assert proxy.dropped == 1
    assert event.day(at=DAY).count() == 2


def test_concurrent_first_marks_of_one_id_give_it_one_number(redis_server: Store) -> None:
    run_together(4, lambda number: [Events("e", mapped=True).mark(f"user {n}", at=DAY) for n in range(100)])

    assert Events("e", mapped=True).day(at=DAY).count() == 100
    [ids] = [key for key in redis_server.keys() if key.endswith(b":ids")]  # noqa: SIM118 - a Store is no dict
    numbers = redis_server.raw.hgetall(ids)
    assert int(numbers.pop(b"")) == 100, "the next one"
    assert {int(number) for number in numbers.values()} == set(range(100))


def test_large_ids_are_refused_and_allocate_nothing(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "ANALYTICS": {"MAX_USER_ID": 3}}
    event, mapped = Events("e"), Events("m", mapped=True)

    for user in (4, 2**40, -1):
        with pytest.raises(ValueError, match=f"^user_id={user}: expected an integer from 0 to 3"):
            event.mark(user)
    assert redis_server.keys() == []
    for number in range(4):
        mapped.mark(f"user {number}")
    with pytest.raises(ValueError, match="4 users have numbers already"):
        mapped.mark("one more")


@pytest.mark.contract
def test_forgotten_user_is_in_no_period(store: Store) -> None:
    event = Events("e", units=("hour", "day", "week", "month"))
    now = timezone.now()
    for at in (now, now - timedelta(days=30), now - timedelta(days=390)):
        event.mark(7, at=at)
        event.mark(8, at=at)

    assert event.forget(7) >= 10
    assert event.forget(7) == 0
    assert not event.did(7, unit="month", at=now)
    assert event.did(8, unit="month", at=now)
    assert run_async(lambda: event.aforget(8)) >= 10


@pytest.mark.contract
def test_forget_reaches_marks_of_any_time(store: Store) -> None:
    hours = Events("e", units=("hour", "day"))
    hours.mark(7, at=datetime(1999, 12, 31, 23, tzinfo=UTC))
    hours.mark(7, at=datetime(2090, 1, 1, tzinfo=UTC))

    assert Events("e").forget(7) == 4, "also in units that this object does not keep"

    assert Events("e").forget(7) == 0


@pytest.mark.contract
def test_deleted_event_leaves_no_key(store: Store) -> None:
    for event in ("e", "other"):
        Events(event).mark(7, at=DAY)

    assert (Events("e").delete(), Events("e").delete()) == (True, False)

    assert Events("other").did(7, unit="week", at=DAY)
    assert run_async(lambda: Events("other").adelete()) is True
    assert store.keys() == []


def test_index_of_periods_lives_as_long_as_they_and_forgets_expired_ones(redis_server: Store, settings: Any) -> None:
    event, index = Events("e", units=("day",)), f"{redis_server.prefix}:analytics:{{default}}:ev:e"
    event.mark(7, at=DAY)
    before = redis_server.raw.pttl(index)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "ANALYTICS": {"TTL": 1_000}}
    event.mark(7, at=DAY + timedelta(days=1))

    assert before - 10_000 < redis_server.raw.pttl(index) <= before
    for number in range(2, 30):
        event.mark(7, at=DAY + timedelta(days=number))
        redis_server.raw.delete(f"{index}:day:{DAY + timedelta(days=number):%Y%m%d}")  # expired
    assert redis_server.raw.scard(index) < 15


def test_periods_are_those_of_the_local_time(redis_server: Store) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    event = Events("e", units=("hour", "day"))
    late = datetime(2026, 12, 31, 23, 30, tzinfo=UTC)

    with timezone.override(berlin):
        event.mark(7, at=late)
        assert event.day(at=date(2027, 1, 1)).count() == 1
        assert event.hour(at=datetime(2027, 1, 1, 0, 59)).count() == 1  # noqa: DTZ001 - naive, of the site
    with timezone.override(UTC):
        assert event.day(at=date(2026, 12, 31)).count() == 0
    with pytest.raises(TypeError, match="expected a datetime or None, for an hour"):
        Events("e", units=("hour",)).mark(7, at=DAY)


def test_day_without_a_time_is_not_marked_in_an_hour(redis_server: Store) -> None:
    event = Events("e", units=("hour", "day"))

    assert (event.mark(7, at=DAY), event.mark(7, at=DAY)) == (True, False)

    assert event.did(7, unit="day", at=DAY)
    assert not [key for key in redis_server.keys() if b":hour:" in key]  # noqa: SIM118 - a Store is no dict


def test_both_hours_of_a_daylight_saving_fold_are_one(redis_server: Store) -> None:
    event = Events("e", units=("hour", "day"))
    with timezone.override(ZoneInfo("Europe/Berlin")):
        for user, utc_hour in ((6, 23), (7, 0), (8, 1), (9, 2)):  # 1:30, 2:30 twice, and 3:30
            event.mark(user, at=datetime(2026, 10, 24 if utc_hour == 23 else 25, utc_hour, 30, tzinfo=UTC))

        hours = [event.hour(at=datetime(2026, 10, 25, hour)).count() for hour in (1, 2, 3)]  # noqa: DTZ001 - naive
        assert (hours, event.day(at=date(2026, 10, 25)).count()) == ([1, 2, 1], 4)
        assert event.between(datetime(2026, 10, 25, 0), datetime(2026, 10, 25, 23), unit="hour").count() == 4  # noqa: DTZ001


@pytest.mark.parametrize(
    ("write", "labels"),
    [
        (
            lambda: Events("e", units=("hour", "day", "week", "month")).mark(7),
            {"ev:e:hour:2026123123", "ev:e:day:20261231", "ev:e:week:2026W53", "ev:e:month:202612", "ev:e", "ev"},
        ),
        (lambda: PageViews().hit("/a/"), {"pv:2026123123", "pv:20261231", "pv:2026W53", "pv:202612"}),
        (
            lambda: Ranking("default", units=("day", "week", "month")).add("anna", 1),
            {"rk:day:20261231", "rk:week:2026W53", "rk:month:202612", "rk"},
        ),
    ],
)
def test_all_periods_of_a_write_are_of_one_moment(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, write: Any, labels: set[str]
) -> None:
    with timezone.override(UTC):
        late = datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
        moments = iter(late + timedelta(days=days) for days in range(100))  # a day passes with each read
        monkeypatch.setattr(timezone, "now", lambda: next(moments))

        write()

    found = {key.decode().rpartition("{default}:")[2] for key in redis_server.keys()}  # noqa: SIM118 - no dict
    assert found == labels


@given(st.dates(date(2020, 1, 1), date(2099, 12, 1)), st.integers(-60, 60))
def test_periods_equal_the_calendar(day: date, count: int) -> None:
    year, week, weekday = day.isocalendar()
    assert label("week", day) == f"{year}W{week:02}"
    assert start_of("week", day) == day - timedelta(days=weekday - 1)
    assert label("month", day) == day.strftime("%Y%m")
    assert following("day", day, count) == day + timedelta(days=count)
    assert following("week", start_of("week", day), count) == start_of("week", day) + timedelta(weeks=count)
    months = {date(year, month, 1) for year in range(2010, 2110) for month in range(1, 13)}
    first = start_of("month", day)
    assert following("month", first, count) == sorted(months)[sorted(months).index(first) + count]


def test_cohorts_refuse_a_unit_that_is_not_stored(redis_server: Store) -> None:
    with pytest.raises(ValueError, match="unit='year': expected one of 'hour', 'day', 'week', 'month'"):
        cohorts(Events("signup"), Events("active"), unit="year")  # type: ignore[arg-type]


@pytest.mark.contract
def test_cohorts_equal_plain_python(store: Store) -> None:
    source = random.Random(1)
    signup, active = Events("signup"), Events("active")
    weeks = [date(2026, 9, 28) + timedelta(weeks=number) for number in range(6)]
    joined = {user: source.choice(weeks) for user in range(60)}
    seen = {week: {user for user in joined if joined[user] <= week and source.random() < 0.6} for week in weeks}
    for user, week in joined.items():
        signup.mark(user, at=week + timedelta(days=source.randrange(7)))
    for week, users in seen.items():
        for user in users:
            active.mark(user, at=week + timedelta(days=source.randrange(7)))

    expected = [
        Cohort(
            week,
            sum(start == week for start in joined.values()),
            tuple(sum(joined[user] == week for user in seen[later]) for later in weeks[number:]),
        )
        for number, week in enumerate(weeks)
    ]

    assert cohorts(signup, active, periods=6, end=date(2026, 11, 8)) == expected
    assert run_async(lambda: acohorts(signup, active, periods=6, end=date(2026, 11, 8))) == expected
    assert expected[0].shares[0] == expected[0].later[0] / expected[0].size
    assert Cohort(DAY, 0, (0,)).shares == (0.0,)


def test_cohorts_of_100_000_users_over_12_weeks_equal_plain_python(redis_server: Store) -> None:
    source, end = random.Random(2), date(2026, 11, 22)
    weeks = [following("week", start_of("week", end), number - 11) for number in range(12)]
    stored = {
        event: [source.getrandbits(100_000) & source.getrandbits(100_000) for _ in weeks]
        for event in ("signup", "active")
    }
    for event, bitmaps in stored.items():
        for week, bitmap in zip(weeks, bitmaps, strict=True):
            key = f"{redis_server.prefix}:analytics:{{default}}:ev:{event}:week:{label('week', week)}"
            redis_server.raw.set(key, bitmap.to_bytes(12_500, "big"))

    found = cohorts(Events("signup"), Events("active"), periods=12, end=end)

    assert found == [
        Cohort(
            week,
            stored["signup"][at].bit_count(),
            tuple((stored["signup"][at] & later).bit_count() for later in stored["active"][at:]),
        )
        for at, week in enumerate(weeks)
    ]


@pytest.mark.contract
def test_funnel_narrows_step_by_step(store: Store) -> None:
    view, cart, paid = Events("view"), Events("cart"), Events("paid")
    for event, users in ((view, range(10)), (cart, range(3, 20)), (paid, (4, 5, 99))):
        for user in users:
            event.mark(user, at=DAY)
    steps = (view.month(at=DAY), cart.month(at=DAY), paid.month(at=DAY))

    assert funnel(*steps) == run_async(lambda: afunnel(*steps)) == [10, 7, 2]
    with pytest.raises(ValueError, match="without steps"):
        funnel()


def test_names_may_have_colons(redis_server: Store) -> None:
    played, other, unit = Events("song:played"), Events("song"), Events("song:day:played")
    played.mark(1, at=DAY)
    other.mark(2, at=DAY)
    unit.mark(3, at=DAY)

    assert [event.day(at=DAY).count() for event in (played, other, unit)] == [1, 1, 1]
    assert (played.month(at=DAY) & other.month(at=DAY)).count() == 0
    assert played.did(1, at=DAY)
    assert not other.did(1, at=DAY)
    assert played.forget(1) == 3
    assert unit.delete()
    assert run(client(), missing_units_flow("default", ["song:played", "song"])) == {
        "song:played": set(),
        "song": set(),
    }


def test_units_that_an_event_with_colons_keeps_are_known(redis_server: Store) -> None:
    Events("week:song:played", units=["day"]).mark(1, at=DAY)

    found = run(client(), missing_units_flow("default", ["week:song:played"]))
    assert found == {"week:song:played": {"week", "month"}}


def test_year_has_the_users_of_its_months(redis_server: Store) -> None:
    paid = Events("paid")
    for user, day in ((1, date(2026, 1, 1)), (2, date(2026, 12, 31)), (2, date(2026, 6, 1)), (3, date(2025, 12, 31))):
        paid.mark(user, at=day)

    assert paid.year(at=date(2026, 2, 28)).count() == 2
    assert paid.year(at=datetime(2025, 5, 5, tzinfo=UTC)).count() == 1
    assert (paid.year(at=DAY) & ~paid.month(at=date(2026, 1, 9))).count() == 1
    assert "month" in repr(paid.year())


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda: Events(""), "event is empty: expected 1 to 200 bytes of text."),
        (lambda: Events(":a"), "event ':a': expected words around each colon, such as 'song:played'."),
        (lambda: Events("a:"), "event 'a:': expected words around each colon, such as 'song:played'."),
        (lambda: Events("a::b"), "event 'a::b': expected words around each colon, such as 'song:played'."),
        (
            lambda: Events("a:day:20261123"),
            "event 'a:day:20261123': it ends like the key of a period, such as 'day:20261123'.",
        ),
        (
            lambda: Events("a", units=("week",)).year(),
            "<Events 'a'> keeps week, not 'month': see the argument units.",
        ),
        (
            lambda: Events("a", units=("year",)),
            "a unit in units='year': expected one of 'hour', 'day', 'week', 'month'.",
        ),
        (lambda: Events("a", units="day"), "units='day': expected a list of units."),
        (
            lambda: Events("a").hour(),
            "<Events 'a'> keeps day, week, month, not 'hour': see the argument units.",
        ),
        (lambda: Events("a", mapped=True).mark(None), "user_id=None: expected a string, an integer or a UUID."),
        (
            lambda: Events("a").between(DAY, DAY - timedelta(days=1), unit="day"),
            "end=2026-11-17 is before start=2026-11-18.",
        ),
        (
            lambda: Events("a").between(DAY, DAY + timedelta(days=500), unit="day"),
            "2026-11-18 to 2028-04-01 has more than 400 periods of one day.",
        ),
        (lambda: cohorts(Events("a"), Events("b"), periods=54), "periods=54: expected an integer from 1 to 53."),
    ],
)
def test_invalid_arguments_raise_with_the_reason(redis_server: Store, call: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(problem)}$"):
        call()

    assert redis_server.keys() == []

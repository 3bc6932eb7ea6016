"""Unique visitors against PFCOUNT and against the truth."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from redis.exceptions import ConnectionError

from django_redis_components.analytics import Estimate, UniqueVisitors
from django_redis_components.analytics import visitors as visitors_module
from django_redis_components.analytics.periods import Unit
from tests.support import Proxy, Store, run_async

DAY = date(2026, 11, 20)
NEXT = date(2026, 11, 21)


def day_key(store: Store, day: date, name: str = "shop") -> str:
    return f"{store.prefix}:analytics:{{{name}}}:uv:{day:%Y%m%d}"


def test_visitor_is_counted_once_a_day(store: Store) -> None:
    visitors = UniqueVisitors("shop")
    visitors.add("anna", "bert", at=DAY)
    visitors.add("anna", at=DAY)

    assert visitors.count(DAY) == 2 == store.raw.pfcount(day_key(store, DAY))


def test_visitor_of_two_days_is_counted_once_in_the_range(store: Store) -> None:
    visitors = UniqueVisitors("shop")
    visitors.add("anna", "bert", at=DAY)
    visitors.add("anna", "carl", at=NEXT)

    assert visitors.count(DAY, NEXT) == 3
    assert visitors.series(DAY, NEXT) == {DAY: 2, NEXT: 2}
    assert store.raw.pfcount(day_key(store, DAY), day_key(store, NEXT)) == 3


def test_ttl_setting_counts_from_each_write(store: Store, configure: Callable[..., None]) -> None:
    configure(TTL=timedelta(seconds=60))
    UniqueVisitors("shop").add("anna", at=DAY)
    assert 30_000 < store.raw.pttl(day_key(store, DAY)) <= 60_000

    configure(TTL=120)
    UniqueVisitors("shop").add("anna", at=DAY)

    assert 90_000 < store.raw.pttl(day_key(store, DAY)) <= 120_000


def test_default_ttl_is_400_days(store: Store) -> None:
    UniqueVisitors("shop").add("anna", at=DAY)

    assert 400 * 86_400 - 10 < store.raw.ttl(day_key(store, DAY)) <= 400 * 86_400


def test_estimate_is_within_its_error(store: Store) -> None:
    visitors = UniqueVisitors("shop")
    visitors.add(*range(20_000), at=DAY)

    found = visitors.count(DAY)

    assert isinstance(found, Estimate)
    assert (found.error, found.is_unique) == (0.0081, True)
    assert abs(found - 20_000) < 4 * found.error * 20_000
    assert found == store.raw.pfcount(day_key(store, DAY))


def test_add_accepts_thousands_of_ids(store: Store) -> None:
    UniqueVisitors("shop").add(*range(2_500), at=DAY)

    raw = store.raw.pfadd(f"{store.prefix}:{{raw}}", *map(str, range(2_500)))
    assert raw == 1
    assert UniqueVisitors("shop").count(DAY) == store.raw.pfcount(f"{store.prefix}:{{raw}}")


def test_add_without_ids_sends_nothing(store: Store) -> None:
    UniqueVisitors("shop").add(at=DAY)

    assert store.keys() == []


def test_add_accepts_every_type_of_id(store: Store) -> None:
    visitors = UniqueVisitors("shop")

    visitors.add(7, "7", b"7", at=DAY)
    assert visitors.count(DAY) == 1
    visitors.add(UUID(int=1), str(UUID(int=1)), "北野 愛", "\ud800", at=DAY)

    assert visitors.count(DAY) == 4


@pytest.mark.parametrize("visitor", [None, True, 1.5])
def test_invalid_visitor_id_raises(visitor: object) -> None:
    with pytest.raises(TypeError) as raised:
        UniqueVisitors("shop").add("anna", visitor)  # type: ignore[arg-type]

    assert str(raised.value) == f"id={visitor!r}: expected a string, bytes, an integer or a UUID."


def test_visit_at_a_time_counts_on_its_local_day(store: Store) -> None:
    visitors = UniqueVisitors("shop")
    visitors.add("anna", at=datetime(2026, 10, 24, 22, tzinfo=UTC))
    visitors.add("bert", at=datetime(2026, 10, 25, 22, 59, tzinfo=UTC))
    visitors.add("carl", at=datetime(2026, 10, 25, 23, tzinfo=UTC))

    assert visitors.series(date(2026, 10, 24), date(2026, 10, 26)) == {
        date(2026, 10, 24): 0,
        date(2026, 10, 25): 2,
        date(2026, 10, 26): 1,
    }


@pytest.mark.contract
def test_merged_counts_visitors_of_several_names_once(store: Store) -> None:
    UniqueVisitors("a").add("anna", "bert", at=DAY)
    UniqueVisitors("b").add("bert", "carl", at=NEXT)
    UniqueVisitors("c").add("carl", "dora", at=NEXT)

    assert UniqueVisitors("a").merged(["b", "c"], DAY, NEXT) == 4
    assert UniqueVisitors("a").merged(["a", "b", "b"], DAY, NEXT) == 3
    assert UniqueVisitors("a").merged([], DAY, NEXT) == 2
    assert UniqueVisitors("nobody").merged(["neither"], DAY) == 0
    stored = store.keys()
    assert not [key for key in stored if b"scratch" in key or b"part" in key]


def test_merged_equals_pfcount_for_large_sets(store: Store) -> None:
    UniqueVisitors("a").add(*range(5_000), at=DAY)
    UniqueVisitors("b").add(*range(3_000, 8_000), at=DAY)
    store.raw.pfadd(f"{store.prefix}:{{raw}}", *map(str, range(8_000)))

    merged = UniqueVisitors("a").merged(["b"], DAY)

    assert merged == store.raw.pfcount(f"{store.prefix}:{{raw}}")
    assert (merged.error, merged.is_unique) == (0.0081, True)


def test_range_of_ids_that_change_daily_is_a_sum_of_days(store: Store) -> None:
    visitors = UniqueVisitors("shop", identity_period="day")
    visitors.add("anna of day 1", "bert of day 1", at=DAY)
    visitors.add("anna of day 2", at=NEXT)

    found = visitors.count(DAY, NEXT)

    assert (found, found.is_unique) == (3, False)
    assert visitors.count(DAY).is_unique is True
    assert all(day.is_unique for day in visitors.series(DAY, NEXT).values())


@pytest.mark.contract
def test_merged_range_is_a_sum_if_ids_of_one_name_change(store: Store) -> None:
    UniqueVisitors("b").add("anna of day 1", "carl", at=DAY)
    visitors = UniqueVisitors("a", identity_period="day")
    visitors.add("anna of day 1", at=DAY)
    visitors.add("anna of day 2", at=NEXT)

    merged = visitors.merged(["b"], DAY, NEXT)

    assert (merged, merged.is_unique) == (3, False)
    assert visitors.merged(["b"], DAY).is_unique is True


@pytest.mark.parametrize(
    ("period", "end", "exact"),
    [
        ("day", DAY, True),
        ("week", date(2026, 11, 22), True),
        ("week", date(2026, 11, 23), False),
        ("month", date(2026, 11, 30), True),
        ("month", date(2026, 12, 1), False),
    ],
)
def test_range_is_exact_within_one_period_of_the_identity(
    redis_server: Store, period: Unit, end: date, exact: bool
) -> None:
    assert UniqueVisitors("shop", identity_period=period).count(DAY, end).is_unique is exact
    assert UniqueVisitors("shop", identity_period=period).merged(["b"], DAY, end).is_unique is exact


@pytest.mark.parametrize(("policy", "exact"), [("hash", False), ("cookie", True), ("user", True)])
def test_site_of_the_middleware_uses_the_lifetime_of_its_policy(
    redis_server: Store, configure: Callable[..., None], policy: str, exact: bool
) -> None:
    configure(SITE="shop", VISITOR_IDENTITY=policy)

    assert UniqueVisitors("shop").count(DAY, NEXT).is_unique is exact
    assert UniqueVisitors("shop").count(DAY).is_unique is True
    assert UniqueVisitors("elsewhere").count(DAY, NEXT).is_unique is True
    assert UniqueVisitors("shop", identity_period="week").count(DAY, NEXT).is_unique is True


def test_add_is_repeated_after_a_lost_reply(proxy: Proxy, redis_server: Store) -> None:
    UniqueVisitors("shop").add("anna", at=DAY)
    proxy.drop_next_reply(after=b":uv:", times=2)

    UniqueVisitors("shop", using="proxied").add("bert", at=DAY)

    assert proxy.dropped == 2
    assert UniqueVisitors("shop").count(DAY) == 2


def test_merged_is_repeated_after_a_lost_reply(proxy: Proxy, redis_server: Store) -> None:
    UniqueVisitors("a").add("anna", at=DAY)
    UniqueVisitors("a").merged(["b"], DAY)
    proxy.drop_next_reply(after=b":uv:", times=3)

    assert UniqueVisitors("a", using="proxied").merged(["b"], DAY) == 1
    assert proxy.dropped == 3


def test_async_twins_behave_like_the_sync_methods(store: Store) -> None:
    async def visit() -> tuple[object, ...]:
        visitors = UniqueVisitors("a")
        await visitors.aadd("anna", "bert", at=DAY)
        await UniqueVisitors("b").aadd("bert", "carl", at=DAY)
        return (
            await visitors.acount(DAY, NEXT),
            await visitors.aseries(DAY, NEXT),
            await visitors.amerged(["b"], DAY),
            await visitors.arecent(1),
            await visitors.aactive(),
        )

    assert run_async(visit) == (2, {DAY: 2, NEXT: 0}, 3, 0, 0)


def test_invalid_range_raises() -> None:
    visitors = UniqueVisitors("shop")

    for ask in (visitors.count, visitors.series, lambda *days: visitors.merged(["b"], *days)):
        with pytest.raises(ValueError, match="are 401 days: expected at most 400"):
            ask(DAY, DAY + timedelta(days=400))


def test_range_of_a_year_is_one_query(store: Store) -> None:
    visitors = UniqueVisitors("shop")
    for month in range(1, 13):
        visitors.add("anna", f"m{month}", at=date(2026, month, 1))

    assert visitors.count(date(2026, 1, 1), date(2026, 12, 31)) == 13


def test_invalid_names_of_merged_raise() -> None:
    with pytest.raises(TypeError, match=r"^sites='abc': expected an iterable of names\.$"):
        UniqueVisitors("a").merged("abc", DAY)
    with pytest.raises(ValueError, match=r"^51 sites: expected at most 50\.$"):
        UniqueVisitors("a").merged([f"n{number}" for number in range(51)], DAY)


@pytest.mark.parametrize("period", ["hour", "year", 1, ""])
def test_invalid_identity_period_raises(period: Any) -> None:
    with pytest.raises(
        (TypeError, ValueError), match=rf"^identity_period={period!r}: expected one of 'day', 'week', 'month'\.$"
    ):
        UniqueVisitors("a", identity_period=period)


@pytest.mark.contract
def test_visitors_of_hours_weeks_and_months(store: Store) -> None:
    visitors = UniqueVisitors("shop")
    first = datetime(2026, 12, 31, 22, 30, tzinfo=timezone.get_default_timezone())  # the week of both is 2026W53
    for hours, name in enumerate(["anna", "anna", "bert", "carl"]):
        visitors.add(name, at=first + timedelta(hours=hours))

    hours_seen = visitors.series(first, first + timedelta(hours=3), unit="hour")
    assert [int(count) for count in hours_seen.values()] == [1, 1, 1, 1]
    assert next(iter(hours_seen)) == first.replace(minute=0, tzinfo=None)
    assert visitors.series(first, first + timedelta(hours=3), unit="week") == {date(2026, 12, 28): 3}
    assert visitors.series(first, first + timedelta(hours=3), unit="month") == {
        date(2026, 12, 1): 1,
        date(2027, 1, 1): 2,
    }
    hour = f"{store.prefix}:analytics:{{shop}}:uv:2026123122"
    assert 7 * 86_400_000 < store.raw.pttl(hour) <= 8 * 86_400_000


def test_range_reads_months_and_weeks_instead_of_their_days(redis_server: Store) -> None:
    UniqueVisitors("shop").add("anna", at=date(2026, 3, 10))
    redis_server.raw.delete(day_key(redis_server, date(2026, 3, 10)))

    assert UniqueVisitors("shop").count(date(2026, 1, 20), date(2026, 5, 3)) == 1
    assert UniqueVisitors("shop").count(date(2026, 3, 8), date(2026, 3, 20)) == 1
    assert UniqueVisitors("shop").count(date(2026, 3, 10)) == 0


@pytest.mark.contract
def test_visitors_of_a_page_are_counted_separately(store: Store) -> None:
    UniqueVisitors("shop", page="/a/").add("anna", "bert", at=DAY)
    UniqueVisitors("shop", page="/b/").add("anna", at=NEXT)

    assert UniqueVisitors("shop", page="/a/").count(DAY, NEXT) == 2
    assert UniqueVisitors("shop", page="/b/").series(DAY, NEXT) == {DAY: 0, NEXT: 1}
    assert UniqueVisitors("shop").count(DAY, NEXT) == 0


@pytest.mark.contract
def test_recent_and_live_visitors(store: Store) -> None:
    visitors = UniqueVisitors("shop")
    visitors.add("anna", "bert")
    visitors.add("carl", at=timezone.now() - timedelta(hours=2))
    visitors.add("dora", at=timezone.now() - timedelta(hours=30))

    assert visitors.active() == 2
    assert visitors.recent(24) == 3
    assert visitors.recent(48) == 4


def test_recent_visitors_are_the_same_in_every_time_zone(redis_server: Store) -> None:
    visitors = UniqueVisitors("shop")
    with timezone.override(ZoneInfo("Pacific/Auckland")):
        visitors.add("anna")
    with timezone.override(ZoneInfo("America/Los_Angeles")):
        visitors.add("bert")

        assert visitors.recent(1) == 2
    assert visitors.recent(1) == 2


@pytest.mark.parametrize(
    ("now", "first"),
    [
        (datetime(2026, 10, 25, 12, 30, tzinfo=UTC), datetime(2026, 10, 24, 15)),  # noqa: DTZ001 - a day of 25 hours
        (datetime(2026, 3, 29, 12, 30, tzinfo=UTC), datetime(2026, 3, 28, 14)),  # noqa: DTZ001 - a day of 23 hours
    ],
)
def test_recent_visitors_are_those_of_24_hours_when_the_clock_changes(
    redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch, now: datetime, first: datetime
) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    visitors = UniqueVisitors("shop")
    visitors.add("before", at=first - timedelta(hours=1))
    visitors.add("anna", at=first)
    monkeypatch.setattr(visitors_module, "time", SimpleNamespace(time=now.timestamp))

    assert visitors.recent(24) == 1


def test_recent_visitors_over_midnight_are_a_sum_if_ids_change_daily(redis_server: Store) -> None:
    visitors = UniqueVisitors("shop", identity_period="day")

    assert visitors.recent(48).is_unique is False
    assert visitors.active().is_unique is True


@pytest.mark.parametrize("hours", [0, 169, True, "1"])
def test_invalid_hours_of_recent_raise(hours: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^hours={hours!r}: expected an integer from 1 to 168\.$"):
        UniqueVisitors("shop").recent(hours)


def test_add_raises_without_redis() -> None:
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1"):
        UniqueVisitors("a").add("anna")

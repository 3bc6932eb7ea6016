"""Page views, compared with the data in Redis."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from django.utils import timezone
from redis.exceptions import ConnectionError

from django_redis_components.analytics import OTHER, PageViews
from django_redis_components.analytics.view_counters import page_name
from tests.support import Proxy, Store, run_async, run_together

DAY = date(2026, 11, 20)
NEXT = date(2026, 11, 21)
TTL_MS = 400 * 86_400_000


def day_key(store: Store, day: date, site: str = "default") -> str:
    return f"{store.prefix}:analytics:{{{site}}}:pv:{day:%Y%m%d}"


def test_hit_returns_the_views_of_the_day(store: Store) -> None:
    views = PageViews()

    assert [
        views.hit("/a/", at=DAY),
        views.hit("/a/", at=DAY),
        views.hit("/b/", at=DAY),
        views.hit("/a/", at=NEXT),
    ] == [1, 2, 1, 1]
    assert store.raw.zscore(day_key(store, DAY), "/a/") == 2
    assert store.raw.zscore(day_key(store, DAY), "") == 3
    assert store.raw.zscore(day_key(store, NEXT), "/a/") == 1


def test_ttl_of_a_day_is_400_days_from_each_hit(store: Store, configure: Callable[..., None]) -> None:
    configure(TTL=60)
    PageViews().hit("/a/", at=DAY)
    assert 30_000 < store.raw.pttl(day_key(store, DAY)) <= 60_000

    configure(TTL=400 * 86_400)
    PageViews().hit("/a/", at=DAY)

    assert TTL_MS - 10_000 < store.raw.pttl(day_key(store, DAY)) <= TTL_MS


def test_counts_and_series_match_the_stored_data(store: Store) -> None:
    views = PageViews("shop")
    for number in range(5):
        for _ in range(number):
            views.hit("/a/", at=DAY + timedelta(days=number))
        views.hit("/b/", at=DAY)

    days = [DAY + timedelta(days=number) for number in range(5)]
    raw = [int(store.raw.zscore(day_key(store, day, "shop"), "/a/") or 0) for day in days]

    assert views.series("/a/", days[0], days[-1]) == dict(zip(days, raw, strict=True))
    assert list(views.series("/a/", days[0], days[-1])) == days
    assert raw == [0, 1, 2, 3, 4]
    assert views.count("/a/", days[1], days[3]) == 6
    assert views.count("/a/", days[2]) == 2
    assert views.count("/b/", DAY) == 5


def test_none_counts_all_pages(store: Store) -> None:
    views = PageViews()
    for page in ("/a/", "/a/", "/b/"):
        views.hit(page, at=DAY)
    views.hit("/c/", at=NEXT)

    assert views.count(None, DAY, NEXT) == 4
    assert views.series(None, DAY, NEXT) == {DAY: 3, NEXT: 1}


def test_top_is_ordered_and_excludes_the_sum(store: Store) -> None:
    views = PageViews()
    for page, times in (("/b/", 2), ("/a/", 3), ("/c/", 1)):
        for _ in range(times):
            views.hit(page, at=DAY)

    assert views.top(at=DAY, limit=2) == [("/a/", 3), ("/b/", 2)]
    assert views.top(at=DAY) == [("/a/", 3), ("/b/", 2), ("/c/", 1)]
    assert views.top(at=NEXT) == []


def test_top_with_a_single_page_returns_it(store: Store) -> None:
    PageViews().hit("/only/", at=DAY)

    assert PageViews().top(at=DAY, limit=1) == [("/only/", 1)]


def test_top_defaults_to_today(redis_server: Store) -> None:
    PageViews().hit("/now/")

    assert PageViews().top() == [("/now/", 1)]


def test_sites_are_counted_separately(store: Store) -> None:
    PageViews("one").hit("/a/", at=DAY)

    assert PageViews("one").count("/a/", DAY) == 1
    assert PageViews("two").count("/a/", DAY) == 0


@pytest.mark.contract
def test_pages_beyond_the_maximum_are_counted_under_other(store: Store, configure: Callable[..., None]) -> None:
    configure(MAX_PAGES_PER_DAY=3)
    views = PageViews()

    results = [views.hit(page, at=DAY) for page in ("/1/", "/2/", "/3/", "/4/", "/5/", "/1/")]

    assert results == [1, 1, 1, 0, 0, 2]
    assert dict(views.top(at=DAY)) == {"/1/": 2, OTHER: 2, "/2/": 1, "/3/": 1}
    assert views.count(OTHER, DAY) == 2
    assert views.count("/4/", DAY) == 0
    assert views.count(None, DAY) == 6
    assert store.raw.zcard(day_key(store, DAY)) == 3 + 2  # other and the sum


def test_maximum_of_pages_is_exact_under_concurrency(redis_server: Store, configure: Callable[..., None]) -> None:
    configure(MAX_PAGES_PER_DAY=10)

    def visit(number: int) -> None:
        for page in range(10):
            PageViews().hit(f"/{number}/{page}/", at=DAY)

    run_together(8, visit)

    assert redis_server.raw.zcard(day_key(redis_server, DAY)) == 10 + 2
    assert PageViews().count(None, DAY) == 80


def test_hit_at_a_time_counts_on_its_local_day(store: Store) -> None:
    PageViews().hit("/a/", at=datetime(2026, 3, 28, 23, 0, tzinfo=UTC))
    PageViews().hit("/a/", at=datetime(2026, 3, 29, 21, 59, tzinfo=UTC))
    PageViews().hit("/a/", at=datetime(2026, 3, 29, 22, 0, tzinfo=UTC))

    assert PageViews().series("/a/", date(2026, 3, 28), date(2026, 3, 30)) == {
        date(2026, 3, 28): 0,
        date(2026, 3, 29): 2,
        date(2026, 3, 30): 1,
    }


def test_lost_reply_raises_and_the_view_is_counted_once(proxy: Proxy, redis_server: Store) -> None:
    PageViews().hit("/warm/", at=DAY)  # the server has the script now
    proxy.drop_next_reply(after=b":pv:")

    with pytest.raises(ConnectionError):
        PageViews(using="proxied").hit("/a/", at=DAY)

    assert proxy.dropped == 1
    assert PageViews().count("/a/", DAY) == 1


def test_query_is_repeated_after_a_lost_reply(proxy: Proxy, redis_server: Store) -> None:
    PageViews().hit("/a/", at=DAY)
    proxy.drop_next_reply(after=b":pv:", times=2)

    assert PageViews(using="proxied").count("/a/", DAY) == 1
    assert PageViews(using="proxied").top(at=DAY) == [("/a/", 1)]
    assert proxy.dropped == 2


def test_async_twins_behave_like_the_sync_methods(store: Store) -> None:
    async def visit() -> tuple[object, ...]:
        views = PageViews()
        return (
            await views.ahit("/a/", at=DAY),
            await views.acount("/a/", DAY),
            await views.aseries("/a/", DAY, NEXT),
            await views.atop(at=DAY, limit=5),
            await views.abreakdown("device", at=DAY),
        )

    assert run_async(visit) == (1, 1, {DAY: 1, NEXT: 0}, [("/a/", 1)], [])


@pytest.mark.contract
def test_views_of_hours_weeks_and_months(store: Store) -> None:
    views = PageViews()
    first = datetime(2026, 12, 31, 22, 30, tzinfo=timezone.get_default_timezone())
    for hours in range(4):
        views.hit("/a/", at=first + timedelta(hours=hours))
    views.hit("/b/", at=date(2027, 1, 1))

    last = first + timedelta(hours=3)
    assert list(views.series("/a/", first, last, unit="hour").values()) == [1, 1, 1, 1]
    assert views.series(None, first, last, unit="week") == {date(2026, 12, 28): 5}
    assert views.series(None, first, last, unit="month") == {date(2026, 12, 1): 2, date(2027, 1, 1): 3}
    assert views.top(at=first, unit="hour") == [("/a/", 1)]
    assert views.top(at=first, unit="week") == [("/a/", 4), ("/b/", 1)]
    assert views.top(at=last, limit=1, unit="month") == [("/a/", 2)]
    hour = f"{store.prefix}:analytics:{{default}}:pv:2026123122"
    assert 7 * 86_400_000 < store.raw.pttl(hour) <= 8 * 86_400_000


def test_maximum_of_pages_holds_for_each_period(redis_server: Store, configure: Callable[..., None]) -> None:
    configure(MAX_PAGES_PER_DAY=2)
    views = PageViews()
    for page, day in (("/1/", DAY), ("/2/", DAY), ("/3/", NEXT)):
        views.hit(page, at=day)

    assert dict(views.top(at=NEXT)) == {"/3/": 1}
    assert dict(views.top(at=NEXT, unit="month")) == {"/1/": 1, "/2/": 1, OTHER: 1}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: PageViews().top(at=DAY, unit="year"), "unit='year': expected one of 'hour', 'day', 'week', 'month'."),
        (lambda: PageViews().series(None, DAY, unit=7), "unit=7: expected one of 'hour', 'day', 'week', 'month'."),
        (
            lambda: PageViews().breakdown("browser"),
            "dimension='browser': expected one of 'referrer', 'utm_source', 'device', 'country'.",
        ),
        (
            lambda: PageViews().breakdown("device", unit="hour"),
            "unit='hour': expected one of 'day', 'week', 'month'.",
        ),
    ],
)
def test_unknown_unit_or_dimension_raises(call: Callable[[], object], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(text)}$"):
        call()


def test_hour_needs_a_time() -> None:
    with pytest.raises(TypeError, match=r"expected a datetime or None, for an hour"):
        PageViews().top(at=DAY, unit="hour")


def test_long_page_name_is_truncated_and_unique(store: Store) -> None:
    views = PageViews()
    long, other = "/" + "北" * 100 + "/one", "/" + "北" * 100 + "/two"

    assert [views.hit(long, at=DAY), views.hit(long, at=DAY), views.hit(other, at=DAY)] == [1, 2, 1]
    assert views.count(long, DAY) == 2
    assert all(len(name.encode()) <= 200 for name, _ in views.top(at=DAY))
    assert page_name(long).startswith("/" + "北" * 53 + "…")


def test_short_page_name_is_kept() -> None:
    assert page_name("/" + "a" * 199) == "/" + "a" * 199
    assert page_name("\ud800") == "?"


@pytest.mark.parametrize(
    ("page", "error", "text"),
    [
        ("", ValueError, "page='': expected a path or another name."),
        (7, TypeError, "page=7: expected a string."),
    ],
)
def test_invalid_page_name_raises(page: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        PageViews().hit(page, at=DAY)

    assert str(raised.value) == text


@pytest.mark.parametrize("n", [0, 1_001, True, "5"])
def test_invalid_limit_of_top_raises(n: int) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^limit={n!r}: expected an integer from 1 to 1000\.$"):
        PageViews().top(at=DAY, limit=n)


def test_invalid_range_raises() -> None:
    with pytest.raises(ValueError, match="are 401 days: expected at most 400"):
        PageViews().count("/a/", DAY, DAY + timedelta(days=400))


def test_name_with_a_brace_raises() -> None:
    with pytest.raises(ValueError, match=r"^site 'a\{b': braces are not accepted"):
        PageViews("a{b")


def test_hit_raises_without_redis() -> None:
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1"):
        PageViews().hit("/a/", at=DAY)


def test_repr_shows_the_name() -> None:
    assert repr(PageViews("shop")) == "<PageViews 'shop'>"

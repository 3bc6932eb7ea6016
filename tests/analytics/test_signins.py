"""Sign-ins against the bits in Redis."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from django.utils import timezone
from redis.exceptions import ConnectionError

from django_redis_components.analytics import SignIns
from tests.analytics.signing import DAY, EPOCH, base, days_from, sign_in_on
from tests.support import Proxy, Store, run_async, run_together

pytestmark = pytest.mark.integration


def test_first_sign_in_of_a_day_returns_true(store: Store) -> None:
    sign_ins = SignIns("site")

    results = [
        sign_ins.sign_in(7, at=DAY),
        sign_ins.sign_in(7, at=DAY),
        sign_ins.sign_in(8, at=DAY),
        sign_ins.sign_in(7, at=DAY + timedelta(days=1)),
    ]

    assert results == [True, False, True, True]


def test_year_of_a_user_takes_46_bytes(redis_server: Store) -> None:
    sign_ins = sign_in_on(days_from(EPOCH, 366))

    assert redis_server.raw.strlen(f"{base(redis_server)}:u:7") == 46
    assert (sign_ins.year(7, 2020), sign_ins.longest_streak(7)) == ([True] * 366, 366)


def test_sign_in_sets_both_bitmaps(store: Store) -> None:
    SignIns("site").sign_in(7, at=DAY)

    assert store.raw.getbit(f"{base(store)}:u:7", (DAY - EPOCH).days) == 1
    assert store.raw.bitcount(f"{base(store)}:u:7") == 1
    assert store.raw.getbit(f"{base(store)}:d:20261120", 7) == 1
    assert store.raw.bitcount(f"{base(store)}:d:20261120") == 1


def test_bitmaps_have_no_ttl_and_the_token_of_the_last_call_has_a_minute(store: Store) -> None:
    SignIns("site").sign_in(7, at=DAY)

    assert store.keys() == sorted(f"{base(store)}:{part}".encode() for part in ("u:7", "d:20261120", "c:7:20261120"))
    assert store.raw.ttl(f"{base(store)}:u:7") == -1
    assert store.raw.ttl(f"{base(store)}:d:20261120") == -1
    assert 50_000 < store.raw.pttl(f"{base(store)}:c:7:20261120") <= 60_000


def test_exactly_one_concurrent_sign_in_is_the_first(store: Store) -> None:
    results = run_together(8, lambda _: SignIns("site").sign_in(7, at=DAY))

    assert sorted(results) == [False] * 7 + [True]


def test_sign_in_repeated_after_a_lost_reply_is_still_the_first(proxy: Proxy, redis_server: Store) -> None:
    SignIns("site").sign_in(8, at=DAY)
    proxy.drop_next_reply(after=b"si:u:7", times=2)

    assert SignIns("site", using="proxied").sign_in(7, at=DAY) is True
    assert proxy.dropped == 2
    assert SignIns("site").sign_in(7, at=DAY) is False
    assert SignIns("site").total(at=DAY) == 2


def test_later_sign_in_repeated_after_a_lost_reply_is_not_the_first(proxy: Proxy, redis_server: Store) -> None:
    SignIns("site").sign_in(7, at=DAY)
    proxy.drop_next_reply(after=b"si:u:7")

    assert SignIns("site", using="proxied").sign_in(7, at=DAY) is False
    assert proxy.dropped == 1


def test_randomly_lost_replies_give_each_user_one_first_sign_in(proxy: Proxy, redis_server: Store) -> None:
    SignIns("site").sign_in(0, at=DAY)
    proxy.drop_random(0.1, seed=1)

    results = [SignIns("site", using="proxied").sign_in(user, at=DAY) for user in range(1, 61) for _ in range(2)]

    assert results == [True, False] * 60
    assert proxy.dropped > 0


def test_signed_in_reads_a_day(store: Store) -> None:
    sign_ins = sign_in_on([DAY])

    assert sign_ins.has_signed_in(7, at=DAY) is True
    assert sign_ins.has_signed_in(7, at=DAY + timedelta(days=1)) is False
    assert sign_ins.has_signed_in(8, at=DAY) is False


def test_day_defaults_to_today(store: Store) -> None:
    sign_ins = SignIns("site")

    assert sign_ins.sign_in(7) is True
    assert sign_ins.has_signed_in(7) is True
    assert sign_ins.total() == 1
    assert sign_ins.streak(7) == 1
    assert sign_ins.last(7) == timezone.localdate()


def test_sign_in_at_a_time_counts_on_its_local_day(store: Store) -> None:
    sign_ins = SignIns("site")

    assert sign_ins.sign_in(7, at=datetime(2026, 10, 24, 22, 0, tzinfo=UTC)) is True
    assert sign_ins.sign_in(7, at=datetime(2026, 10, 25, 22, 59, tzinfo=UTC)) is False
    assert sign_ins.sign_in(7, at=datetime(2026, 10, 25, 23, 0, tzinfo=UTC)) is True
    assert sign_ins.count(7) == 2


@pytest.mark.parametrize(("year", "month", "days"), [(2026, 2, 28), (2028, 2, 29), (2026, 11, 30), (2026, 12, 31)])
def test_month_lists_its_days(store: Store, year: int, month: int, days: int) -> None:
    first = date(year, month, 1)
    signed = [first - timedelta(days=1), first, first + timedelta(days=14), first + timedelta(days=days - 1)]
    sign_ins = sign_in_on([*signed, first + timedelta(days=days)])

    found = sign_ins.month(7, year, month)

    assert len(found) == days
    assert [number for number, bit in enumerate(found) if bit] == [0, 14, days - 1]


def test_month_without_sign_ins_lists_its_days(store: Store) -> None:
    sign_ins = sign_in_on([DAY])

    assert sign_ins.month(7, 2026, 12) == [False] * 31
    assert sign_ins.month(8, 2026, 11) == [False] * 30


def test_count_has_bounds_in_days_not_bytes(store: Store) -> None:
    first = EPOCH + timedelta(days=803)  # in the middle of a byte
    sign_ins = sign_in_on(days_from(first, 20))

    assert sign_ins.count(7, first + timedelta(days=3), first + timedelta(days=4)) == 2
    assert sign_ins.count(7, first - timedelta(days=5), first) == 1
    assert sign_ins.count(7, first + timedelta(days=19), first + timedelta(days=25)) == 1
    assert sign_ins.count(7, first) == 20
    assert sign_ins.count(7, end=first + timedelta(days=9)) == 10
    assert sign_ins.count(7) == 20
    assert store.raw.bitcount(f"{base(store)}:u:7", 803 + 3, 803 + 4, mode="BIT") == 2


def test_count_out_of_range_is_zero(redis_server: Store) -> None:
    sign_ins = sign_in_on([DAY])

    assert sign_ins.count(7, date(1999, 1, 1), date(2001, 1, 1)) == 0
    assert sign_ins.count(7, date(1999, 1, 1), date(2200, 1, 1)) == 1


def test_first_and_last_return_days(store: Store) -> None:
    sign_ins = sign_in_on([DAY, DAY - timedelta(days=400), DAY - timedelta(days=3)])

    assert (sign_ins.first(7), sign_ins.last(7)) == (DAY - timedelta(days=400), DAY)
    assert (sign_ins.first(8), sign_ins.last(8)) == (None, None)


def test_streak_crosses_new_year(store: Store) -> None:
    sign_ins = sign_in_on(days_from(date(2026, 12, 27), 10))

    assert sign_ins.streak(7, at=date(2027, 1, 5)) == 10
    assert sign_ins.longest_streak(7) == 10
    assert sign_ins.streak(7, at=date(2026, 12, 31)) == 5


def test_streak_crosses_a_clock_change(store: Store) -> None:
    sign_ins = sign_in_on([datetime(2026, 3, day, 22, 30, tzinfo=UTC) for day in (27, 28)])  # 23:30, then 00:30 of 29
    sign_in_on([datetime(2026, 3, 29, 21, 30, tzinfo=UTC)])

    assert sign_ins.count(7) == 3
    assert sign_ins.streak(7, at=date(2026, 3, 29)) == 3


def test_streak_continues_before_the_sign_in_of_the_day(store: Store) -> None:
    sign_ins = sign_in_on(days_from(DAY, 4))

    assert sign_ins.streak(7, at=DAY + timedelta(days=4)) == 4
    assert sign_ins.streak(7, at=DAY + timedelta(days=5)) == 0
    assert sign_ins.streak(8, at=DAY) == 0
    assert sign_ins.streak(7, at=EPOCH) == 0


def test_longest_streak_may_be_in_the_past(store: Store) -> None:
    sign_ins = sign_in_on(days_from(DAY, 3) + days_from(DAY - timedelta(days=300), 12))

    assert sign_ins.longest_streak(7) == 12
    assert sign_ins.longest_streak(8) == 0


def test_streak_of_more_than_63_days_is_counted(store: Store) -> None:
    sign_ins = sign_in_on(days_from(DAY - timedelta(days=99), 100))

    assert sign_ins.streak(7, at=DAY) == sign_ins.longest_streak(7) == 100


def test_totals_match_the_stored_data(store: Store) -> None:
    for number in range(5):
        for user in range(number):
            sign_in_on([DAY + timedelta(days=number)], user)

    sign_ins = SignIns("site")
    days = days_from(DAY, 5)

    assert sign_ins.series(DAY, days[-1]) == dict(zip(days, range(5), strict=True))
    assert [sign_ins.total(at=day) for day in days] == [0, 1, 2, 3, 4]
    assert [store.raw.bitcount(f"{base(store)}:d:{day:%Y%m%d}") for day in days] == [0, 1, 2, 3, 4]


def test_queries_match_a_model_after_a_random_workload(store: Store) -> None:
    chance = random.Random(7)
    model: dict[int, set[date]] = {user: set() for user in range(4)}
    sign_ins = SignIns("site")
    for _ in range(120):
        user, day = chance.randrange(4), DAY - timedelta(days=chance.randrange(40))
        assert sign_ins.sign_in(user, at=day) is (day not in model[user])
        model[user].add(day)

    for user, days in model.items():
        start, end = DAY - timedelta(days=30), DAY - timedelta(days=5)
        assert sign_ins.count(user, start, end) == sum(start <= day <= end for day in days)
        assert (sign_ins.first(user), sign_ins.last(user)) == (min(days), max(days))
        assert sign_ins.month(user, 2026, 11) == [date(2026, 11, number) in days for number in range(1, 31)]
    for day in days_from(DAY - timedelta(days=40), 41):
        assert sign_ins.total(at=day) == sum(day in days for days in model.values())


def test_names_are_counted_separately(store: Store) -> None:
    sign_in_on([DAY], name="one")

    assert SignIns("one").total(at=DAY) == 1
    assert SignIns("two").total(at=DAY) == 0


@pytest.mark.contract
def test_async_twins_behave_like_the_sync_methods(store: Store) -> None:
    async def visit() -> tuple[object, ...]:
        sign_ins = SignIns("site")
        first = [await sign_ins.asign_in(7, at=day) for day in (DAY, DAY, DAY + timedelta(days=1))]
        return (
            first,
            await sign_ins.ahas_signed_in(7, at=DAY),
            (await sign_ins.amonth(7, 2026, 11))[18:22],
            await sign_ins.acount(7, DAY, DAY),
            await sign_ins.afirst(7),
            await sign_ins.alast(7),
            await sign_ins.astreak(7, at=DAY),
            await sign_ins.alongest_streak(7),
            await sign_ins.atotal(at=DAY),
            await sign_ins.aseries(DAY),
            await sign_ins.aprune(DAY + timedelta(days=1)),
            await sign_ins.aforget(7),
        )

    assert run_async(visit) == (
        [True, False, True],
        True,
        [False, True, True, False],
        1,
        DAY,
        DAY + timedelta(days=1),
        1,
        2,
        1,
        {DAY: 1},
        1,
        2,
    )


def test_largest_user_id_is_accepted_and_the_next_raises(store: Store, configure: Callable[..., None]) -> None:
    configure(MAX_USER_ID=1_000)
    sign_ins = SignIns("site")

    assert sign_ins.sign_in(1_000, at=DAY) is True
    assert sign_ins.sign_in(0, at=DAY) is True
    assert store.raw.strlen(f"{base(store)}:d:20261120") == 126
    with pytest.raises(ValueError, match="expected an integer from 0 to 1000") as raised:
        sign_ins.sign_in(1_001, at=DAY)
    assert str(raised.value) == (
        "user_id=1001: expected an integer from 0 to 1000. The id is an offset in each day's bitmap, which takes"
        ' offset / 8 bytes; REDIS_COMPONENTS["ANALYTICS"]["MAX_USER_ID"] is the limit. Other ids need mapped=True.'
    )


@pytest.mark.parametrize("user_id", [2**32 - 1, 10_000_001, -1])
def test_too_large_user_id_raises_without_a_request(user_id: int) -> None:
    with pytest.raises(ValueError, match=rf"^user_id={user_id}: expected an integer from 0 to 10000000\."):
        SignIns("site").sign_in(user_id, at=DAY)


@pytest.mark.parametrize("user_id", ["7", None, True, 7.0])
def test_user_id_that_is_not_an_integer_raises(user_id: object) -> None:
    with pytest.raises(TypeError, match=rf"^user_id={user_id!r}: expected an integer from 0 to 10000000\. The id "):
        SignIns("site").sign_in(user_id, at=DAY)  # type: ignore[arg-type]


@pytest.mark.parametrize("day", [date(2019, 12, 31), date(2100, 1, 1)])
def test_day_out_of_range_raises_without_a_request(day: date) -> None:
    with pytest.raises(ValueError, match=rf"^at={day}: expected a day from 2020-01-01 to 2099-12-31\.$"):
        SignIns("site").sign_in(7, at=day)


def test_invalid_range_of_totals_raises() -> None:
    with pytest.raises(ValueError, match="are 401 days: expected at most 400"):
        SignIns("site").series(DAY, DAY + timedelta(days=400))


def test_sign_in_raises_without_redis() -> None:
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1"):
        SignIns("site").sign_in(7, at=DAY)

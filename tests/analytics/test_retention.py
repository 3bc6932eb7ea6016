"""Retention: how many users of a day returned on each of the next days."""

from __future__ import annotations

import random
from datetime import date, timedelta
from typing import Any

import pytest

from django_redis_components.analytics import (
    Cohort,
    SignIns,
    aretention_triangle,
    aroll_up_retention,
    retention_triangle,
    roll_up_retention,
)
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.retention import triangle_flow
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.dashboard.bounded_client import BoundedClient, Cost, UnboundedRead
from tests.support import Proxy, Store, run_async, run_together

DAY = date(2026, 12, 28)


@pytest.mark.contract
def test_retention_equals_plain_python(store: Store) -> None:
    source, sign_ins = random.Random(4), SignIns("site")
    users = {number: set(source.sample(range(50), 12)) for number in range(8)}
    for number, ids in users.items():
        for user in ids:
            sign_ins.sign_in(user, at=DAY + timedelta(days=number))

    expected = [len(users[0] & users[number]) for number in range(8)] + [0, 0]
    assert sign_ins.retention(at=DAY, days=9) == run_async(lambda: sign_ins.aretention(at=DAY, days=9)) == expected
    assert SignIns("empty").retention(at=DAY, days=2) == [0, 0, 0]
    assert not [key for key in store.keys() if b"scratch" in key]  # noqa: SIM118 - a Store is no dict


@pytest.mark.parametrize("days", [0, 401, True, 1.5])
def test_number_of_days_is_bounded(redis_server: Store, days: object) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^days={days}: expected an integer from 1 to 400\.$"):
        SignIns("site").retention(at=DAY, days=days)  # type: ignore[arg-type]


TODAY = site_date()
YESTERDAY = TODAY - timedelta(days=1)


def fill(sign_ins: SignIns, days: int, seed: int = 1) -> dict[date, set[int]]:
    source = random.Random(seed)
    users = {TODAY - timedelta(days=ago): set(source.sample(range(40), 12)) for ago in range(days)}
    for day, ids in users.items():
        for user in ids:
            sign_ins.sign_in(user, at=day)
    return users


def model(users: dict[date, set[int]], days: int, end: date = TODAY) -> list[Cohort]:
    starts = [end - timedelta(days=ago) for ago in range(days - 1, -1, -1)]
    sets = [users.get(start, set()) for start in starts]
    return [
        Cohort(start, len(sets[at]), tuple(len(sets[at] & later) for later in sets[at:]))
        for at, start in enumerate(starts)
    ]


@pytest.mark.contract
def test_triangle_equals_plain_python_before_and_after_a_roll_up(store: Store) -> None:
    sign_ins = SignIns("site")
    users = fill(sign_ins, 9)

    assert retention_triangle(sign_ins, days=10) == model(users, 10)
    assert roll_up_retention(sign_ins, days=9) == 45
    assert run_async(lambda: aroll_up_retention(sign_ins, days=9)) == 0
    assert retention_triangle(sign_ins, days=10) == model(users, 10)
    assert run_async(lambda: aretention_triangle(sign_ins, days=4)) == model(users, 4)
    assert retention_triangle(sign_ins, days=3, end=YESTERDAY) == model(users, 3, YESTERDAY)
    rows = [key for key in store.keys() if b":si:r:" in key]  # noqa: SIM118 - a Store is no dict
    assert len(rows) == 10
    assert all(0 < store.raw.pttl(key) <= 400 * 86_400_000 for key in rows)
    assert not [key for key in store.keys() if b"scratch" in key]  # noqa: SIM118


def test_reading_stores_nothing_and_takes_two_round_trips(redis_server: Store) -> None:
    sign_ins = SignIns("site")
    fill(sign_ins, 5)
    roll_up_retention(sign_ins, days=3)
    before, cost = sorted(redis_server.keys()), Cost()

    client = BoundedClient(connections.client(), cost)
    with pytest.raises(UnboundedRead):  # the second request evaluates
        run(client, triangle_flow(sign_ins, 5, TODAY))

    assert (cost.commands, cost.round_trips) == (1, 1)
    retention_triangle(sign_ins, days=5)
    assert sorted(redis_server.keys()) == before
    assert run(client, triangle_flow(sign_ins, 3, YESTERDAY)) == retention_triangle(sign_ins, days=3, end=YESTERDAY)
    assert (cost.commands, cost.round_trips) == (2, 2)


def test_stored_numbers_are_read(redis_server: Store) -> None:
    sign_ins = SignIns("site")
    users = fill(sign_ins, 4)
    roll_up_retention(sign_ins, days=3)
    sign_ins.prune(TODAY)

    assert retention_triangle(sign_ins, days=3, end=YESTERDAY) == model(users, 3, YESTERDAY)


def test_row_is_continued_by_a_later_roll_up(redis_server: Store) -> None:
    sign_ins = SignIns("site")
    users = fill(sign_ins, 6)

    assert roll_up_retention(sign_ins, days=3, end=TODAY - timedelta(days=3)) == 6
    assert roll_up_retention(sign_ins, days=5) == 9
    assert roll_up_retention(sign_ins, days=5, end=TODAY) == 0, "today is not over"
    assert retention_triangle(sign_ins, days=6) == model(users, 6)


@pytest.mark.contract
def test_changes_of_days_that_are_over_change_stored_numbers(store: Store) -> None:
    sign_ins = SignIns("site")
    users = fill(sign_ins, 8)
    roll_up_retention(sign_ins, days=7)
    old, older = TODAY - timedelta(days=3), TODAY - timedelta(days=5)
    missing = min(set(range(40)) - users[old])
    present, forgotten = sorted(users[older])[:2]

    sign_ins.backfill(missing, at=old, by="anna")
    users[old].add(missing)
    assert retention_triangle(sign_ins, days=8) == model(users, 8)
    roll_up_retention(sign_ins, days=7)
    sign_ins.remove(present, at=older, by="anna")
    users[older].remove(present)
    assert retention_triangle(sign_ins, days=8) == model(users, 8)
    roll_up_retention(sign_ins, days=7)
    sign_ins.forget(forgotten)
    for ids in users.values():
        ids.discard(forgotten)
    assert retention_triangle(sign_ins, days=8) == model(users, 8)
    roll_up_retention(sign_ins, days=7)
    assert retention_triangle(sign_ins, days=8) == model(users, 8)


def test_sign_in_of_today_keeps_stored_numbers(redis_server: Store) -> None:
    sign_ins = SignIns("site")
    fill(sign_ins, 4)
    roll_up_retention(sign_ins, days=3)

    sign_ins.sign_in(99, at=TODAY)

    assert roll_up_retention(sign_ins, days=3) == 0


def test_roll_ups_and_back_dated_sign_ins_at_once_leave_no_old_number(redis_server: Store) -> None:
    sign_ins = SignIns("site")
    users = fill(sign_ins, 6)
    source = random.Random(8)
    changes = [(source.randrange(100, 140), TODAY - timedelta(days=source.randrange(1, 6))) for _ in range(150)]

    def act(number: int) -> None:
        for user, day in changes:
            if number:
                SignIns("site").sign_in(user, at=day)
            else:
                roll_up_retention(SignIns("site"), days=5)

    run_together(2, act)

    for user, day in changes:
        users[day].add(user)
    assert retention_triangle(sign_ins, days=6) == model(users, 6)


def test_roll_up_is_repeated_after_a_lost_reply(proxy: Proxy, redis_server: Store) -> None:
    users = fill(SignIns("site"), 4)
    roll_up_retention(SignIns("site"), days=1)
    proxy.drop_next_reply(after=b"{site}")

    roll_up_retention(SignIns("site", using="proxied"), days=3)

    assert proxy.dropped == 1
    assert retention_triangle(SignIns("site"), days=4) == model(users, 4)


@pytest.mark.parametrize("call", [retention_triangle, roll_up_retention])
@pytest.mark.parametrize("days", [0, 61, True, 1.5])
def test_days_of_a_triangle_are_bounded(redis_server: Store, call: Any, days: object) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^days={days}: expected an integer from 1 to 60\.$"):
        call(SignIns("site"), days=days)


@pytest.mark.parametrize(("end", "day"), [(date(2020, 1, 4), " with days=10: first day=2019-12-26"), (date.min, "")])
def test_triangle_before_the_first_day_raises(redis_server: Store, end: date, day: str) -> None:
    with pytest.raises(ValueError, match=rf"^end={end}{day}: expected a day from 2020-01-01 to 2099-12-31\.$"):
        retention_triangle(SignIns("site"), days=10, end=end)

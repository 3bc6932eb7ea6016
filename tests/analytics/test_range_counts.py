"""Counts of ranges in one command: they equal the sums of the days, and are read from periods that cover the range."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, timedelta

import pytest

from django_redis_components.analytics import Events, PageViews, SignIns, funnel
from django_redis_components.analytics.range_counts import (
    MAX_FUNNEL_BYTES,
    SAMPLE,
    funnel_flow,
    name_series_flow,
    sign_in_counts_flow,
    view_sums_flow,
)
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from tests.support import Store

START = date(2026, 9, 12)


@pytest.mark.contract
def test_view_sums_are_those_of_the_days(store: Store) -> None:
    views, rnd, by_day = PageViews(), random.Random(5), dict[date, Counter[str]]()
    for number in range(40):
        day = START + timedelta(days=number)
        by_day[day] = Counter(f"/{rnd.randrange(15)}/" for _ in range(5))
        for page in by_day[day].elements():
            views.hit(page, at=day)
    days, before = (date(2026, 9, 25), date(2026, 10, 19)), (date(2026, 9, 12), date(2026, 9, 24))

    found = run(connections.client(), view_sums_flow(views, days, before, limit=4, names=["/unknown/"]))

    now, earlier = (
        sum((counts for day, counts in by_day.items() if first <= day <= last), Counter[str]())
        for first, last in (days, before)
    )
    assert (found.total, found.before) == (now.total(), earlier.total()) == (125, 65)
    expected = sorted(now, key=lambda page: (-now[page], page))[:4]
    assert found.names == {"/unknown/": (0, 0), **{page: (now[page], earlier[page]) for page in expected}}
    assert [*found.names] == ["/unknown/", *expected]


@pytest.mark.contract
def test_view_sums_of_nothing_are_zero(store: Store) -> None:
    found = run(connections.client(), view_sums_flow(PageViews(), (START, START), None, dimension="country", limit=5))

    assert (found.total, found.before, found.names) == (0, 0, {})


def test_views_of_a_page_below_the_sample_of_a_day_count(store: Store) -> None:
    views, key = PageViews(), f"{store.prefix}:analytics:{{default}}:pv:{START:%Y%m%d}"
    store.raw.zadd(key, {"": 10_000, "/a/": 1, **{f"/{number}/": 50 for number in range(SAMPLE + 20)}})
    views.hit("/a/", at=START + timedelta(days=1))

    found = run(connections.client(), view_sums_flow(views, (START, START + timedelta(days=1)), limit=200))

    assert found.names["/a/"] == (2, 0)


def test_many_names_are_counted_in_chunks(store: Store) -> None:
    names = [f"/{number}/" for number in range(2_500)]
    for name in names[::500]:
        PageViews().hit(name, at=START)

    found = run(connections.client(), view_sums_flow(PageViews(), (START, START), names=names))

    assert {name for name, (views, _before) in found.names.items() if views} == set(names[::500])
    assert len(found.names) == 2_500


def test_series_of_a_page_has_each_period(store: Store) -> None:
    PageViews().hit("/a/", at=date(2026, 11, 3))
    PageViews().hit("/a/", at=date(2026, 11, 20))

    found = run(
        connections.client(),
        name_series_flow(PageViews(), "/a/", [date(2026, 10, 1), date(2026, 11, 1)], "month"),
    )

    assert found == [0, 2]


@pytest.mark.contract
def test_sign_in_counts_are_those_of_series(store: Store) -> None:
    sign_ins, last = SignIns("shop"), START + timedelta(days=9)
    for user in range(6):
        sign_ins.sign_in(user, at=START + timedelta(days=user))
        sign_ins.sign_in(user, at=last)

    found = run(connections.client(), sign_in_counts_flow(sign_ins, (START, last)))

    assert found == sign_ins.series(START, last)
    assert sum(found.values()) == 12


@pytest.mark.contract
def test_funnel_of_a_range_is_that_of_the_expressions(store: Store) -> None:
    rnd, days = random.Random(9), (date(2026, 9, 12), date(2026, 10, 18))
    events = [Events(name) for name in ("view", "cart", "buy")]
    for number, event in enumerate(events):
        for user in [*rnd.sample(range(9_000), 60 - 15 * number), *range(30 - 10 * number), 8_999]:
            event.mark(user, at=START + timedelta(days=rnd.randrange(50)))

    found = run(connections.client(), funnel_flow("default", ["view", "cart", "buy"], days))

    assert found == funnel(*(event.between(*days) for event in events))
    assert found is not None
    assert found[0] > found[1] > found[2] > 0


def test_funnel_of_events_without_users_is_zero(store: Store) -> None:
    Events("view").mark(7, at=START)

    assert run(connections.client(), funnel_flow("default", ["view", "none"], (START, START))) == [1, 0]
    assert run(connections.client(), funnel_flow("default", ["none", "view"], (START, START))) == [0, 0]


def test_funnel_of_too_many_users_is_not_counted(store: Store) -> None:
    Events("view").mark(8 * MAX_FUNNEL_BYTES, at=START)

    assert run(connections.client(), funnel_flow("default", ["view", "none"], (START, START))) is None
    assert run(connections.client(), funnel_flow("default", ["none", "other"], (START, START))) == [0, 0]

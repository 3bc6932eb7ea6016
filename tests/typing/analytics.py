"""Analytics."""

from __future__ import annotations

from datetime import date
from typing import assert_type

from django_redis_components.analytics import BitCounters, Estimate, Events, PageViews, Ranking, UniqueVisitors, UserSet


async def right() -> None:
    paid, today = Events("paid", units=["day", "month"]), date(2026, 1, 1)
    assert_type(paid.mark(7), bool)
    assert_type(paid.day() & ~paid.period(unit="month"), UserSet)
    assert_type(await UniqueVisitors().acount(today), Estimate)
    assert_type(PageViews().top(unit="week"), list[tuple[str, int]])
    Ranking("points", units=["all", "week"]).add("ada", 3)


def wrong() -> None:
    Events("paid", units=["decade"])  # type: ignore[list-item]
    Events("paid").period(unit="decade")  # type: ignore[arg-type]
    Events("paid").mark(None)  # type: ignore[arg-type]
    Events("paid").mark(7, date(2026, 1, 1))  # type: ignore[call-arg]
    PageViews().breakdown("browser")  # type: ignore[arg-type]
    Ranking("points", units=["hour"])  # type: ignore[list-item]
    BitCounters("stock", overflow="clip")  # type: ignore[arg-type]

"""Counts of ranges of days for pages: one command for each, however long the range is."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import date

from django_redis_components.analytics import periods
from django_redis_components.analytics.dates import span
from django_redis_components.analytics.pageviews import PageViews
from django_redis_components.analytics.periods import Unit
from django_redis_components.analytics.scripts import COUNT_FUNNEL, COUNT_USERS, MOST_VIEWED
from django_redis_components.analytics.signins import SignIns
from django_redis_components.analytics.view_counters import Dimension, page_key, value_key
from django_redis_components.core import keys
from django_redis_components.core.keys import day_stamp
from django_redis_components.core.protocol import Batch, Flow, Read

#: First and last day.
DayRange = tuple[date, date]
#: Names that are looked at in each of the months, weeks and days that cover a range. A name that is among the most
#: viewed of a range, but among these in none of them, is missing.
SAMPLE = 50
#: Bytes of the bitmaps of a funnel, which take about 10 ms of the server: 4 events, 30 days and 10,000 users.
MAX_FUNNEL_BYTES = 48 * 1_024


@dataclasses.dataclass(frozen=True, slots=True)
class ViewSums:
    """Views of a range, and of an earlier one.

    Attributes:
        total, before: the views of all names; `before` is 0 without an earlier range.
        names: name -> its views and its earlier ones, in descending order of the views.
    """

    total: int
    before: int
    names: dict[str, tuple[int, int]]


def view_sums_flow(
    views: PageViews,
    days: DayRange,
    before: DayRange | None = None,
    *,
    dimension: Dimension | None = None,
    limit: int = 0,
    names: Sequence[str] = (),
) -> Flow[ViewSums]:
    """Return the flow that adds up the views of a range.

    Args:
        dimension: whose values are added up; None: pages.
        limit: how many of the most viewed are returned.
        names: those that are returned first, in any case.
    """
    current, earlier = (_covering(views, each, dimension) for each in (days, before))
    reply = yield MOST_VIEWED(
        periods=[*current, *earlier], current=len(current), limit=limit, sample=SAMPLE, names=names
    )
    rows = zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    (_, total, total_before), *found = [(name.decode(), count, count_before) for name, count, count_before in rows]
    return ViewSums(total, total_before, {name: (count, count_before) for name, count, count_before in found})


def name_series_flow(
    views: PageViews, name: str, starts: Sequence[date], unit: Unit, dimension: Dimension | None = None
) -> Flow[list[int]]:
    """Return the flow of the views of a page, or of a value of a dimension, in each of several periods."""
    replies: list[bytes | None] = yield Batch([Read("ZSCORE", _key(views, unit, at, dimension), name) for at in starts])
    return [int(float(reply or 0)) for reply in replies]


def sign_in_counts_flow(sign_ins: SignIns, days: DayRange) -> Flow[dict[date, int]]:
    """Return the flow of `SignIns.series` in one command."""
    found = span(*days)
    counts: list[int] = yield COUNT_USERS(
        days=[keys.key("analytics", sign_ins.name, "si", "d", day_stamp(day)) for day in found]
    )
    return dict(zip(found, counts, strict=True))


def funnel_flow(site: str, events: Sequence[str], days: DayRange) -> Flow[list[int] | None]:
    """Return the flow that counts the users of the first event in a range, of the first two, and so on.

    The events must keep days, weeks and months. `funnel` counts sets of any size, and stores them in between.

    Returns:
        The users; None if the bitmaps have more than `MAX_FUNNEL_BYTES`.
    """
    covering = periods.cover(span(*days))
    bitmaps = [
        keys.key("analytics", site, f"ev:{event}:{unit}:{periods.label(unit, at)}")
        for event in events
        for unit, at in covering
    ]
    reply = yield COUNT_FUNNEL(bitmaps=bitmaps, max_bytes=MAX_FUNNEL_BYTES, sizes=[len(covering)] * len(events))
    return None if reply == -1 else reply


def _covering(views: PageViews, days: DayRange | None, dimension: Dimension | None) -> list[str]:
    return [_key(views, unit, at, dimension) for unit, at in (periods.cover(span(*days)) if days else [])]


def _key(views: PageViews, unit: Unit, at: date, dimension: Dimension | None) -> str:
    site = views.site
    return page_key(site, unit, at) if dimension is None else value_key(site, dimension, unit, at)

"""Page views: the number of views of each page by hour, day, week and month, and where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import get_args

from django.utils import timezone

from django_redis_components.analytics import periods
from django_redis_components.analytics.buffer import BUFFER, View
from django_redis_components.analytics.counter import SiteCounter
from django_redis_components.analytics.dates import span
from django_redis_components.analytics.periods import Unit
from django_redis_components.analytics.scripts import HIT
from django_redis_components.analytics.view_counters import (
    PAGE_UNITS,
    SUM,
    VALUE_UNITS,
    Dimension,
    page_key,
    page_limits,
    page_name,
    value_key,
)
from django_redis_components.core.arguments import check_choice, check_int
from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Batch, Flow, Read

#: Maximum pages that `top` returns.
MAX_TOP = 1_000


class PageViews(SiteCounter):
    """Views of the pages of a site, by hour, day, week and month.

    Hours are kept for 8 days, all others for ``ANALYTICS["TTL"]`` after their last view.

    Args:
        site: the name of the site; its keys share a Cluster slot.
        using: connection alias.
    """

    catalog_kind = "PageViews"

    def hit(self, page: str, *, at: date | None = None) -> int:
        """Count one view of a page.

        It is sent once: after a lost reply the exception is raised, because a repetition could count twice.

        Args:
            page: its name, for example a path. A name over MAX_PAGE_BYTES is truncated and ends with its digest.
            at: a day or a time; now if None. A day without a time is not counted in an hour.

        Returns:
            The views of the page on that day, or 0 if the day has ``MAX_PAGES_PER_DAY`` other pages and the view was
            counted under ``__other__``.

        Raises:
            redis.exceptions.RedisError: the view may or may not have been counted.
        """
        return self._run(self._hit(page, at))

    async def ahit(self, page: str, *, at: date | None = None) -> int:
        """See `hit`."""
        return await self._arun(self._hit(page, at))

    def hit_later(self, page: str) -> None:
        """Count one view of a page in the memory of this process, without a round trip.

        A thread adds the views of the process to Redis within a second, and again until Redis confirms it: no view is
        counted twice. They are also added when the process exits; a process that is killed loses those that were not.

        Args:
            page: its name; see `hit`.
        """
        BUFFER.record(self.using, self.site, View(page_name(page)))

    def count(self, page: str | None, start: date, end: date | None = None) -> int:
        """Return the views of a page from `start` to `end`, both included.

        Args:
            page: its name; None for the sum of all pages.
            start: first day.
            end: last day; the same as `start` if None.

        Raises:
            ValueError: the range is empty or has more than 400 days.
        """
        return self._run(self._count(page, start, end))

    async def acount(self, page: str | None, start: date, end: date | None = None) -> int:
        """See `count`."""
        return await self._arun(self._count(page, start, end))

    def series(self, page: str | None, start: date, end: date | None = None, *, unit: Unit = "day") -> dict[date, int]:
        """Return the views of each period from that of `start` to that of `end`, in order; see `count`.

        Args:
            unit: "hour", "day", "week" or "month". Hours need times (``datetime``).

        Returns:
            The views by the start of the period: its first day, or its hour. Periods without views are 0.
        """
        return self._run(self._series(page, start, end, unit))

    async def aseries(
        self, page: str | None, start: date, end: date | None = None, *, unit: Unit = "day"
    ) -> dict[date, int]:
        """See `series`."""
        return await self._arun(self._series(page, start, end, unit))

    def top(self, *, limit: int = 10, at: date | None = None, unit: Unit = "day") -> list[tuple[str, int]]:
        """Return the pages of a period with the most views, in descending order, as (page, views).

        Args:
            limit: maximum number of pages, up to 1,000.
            at: a day of the period; today if None. An hour needs a time.
            unit: length of the period: "hour", "day", "week" or "month".
        """
        return self._run(self._top(limit, at, unit))

    async def atop(self, *, limit: int = 10, at: date | None = None, unit: Unit = "day") -> list[tuple[str, int]]:
        """See `top`."""
        return await self._arun(self._top(limit, at, unit))

    def breakdown(
        self, dimension: Dimension, *, limit: int = 10, at: date | None = None, unit: Unit = "day"
    ) -> list[tuple[str, int]]:
        """Return the values of a dimension with the most views, in descending order, as (value, views).

        Only `AnalyticsMiddleware` counts them.

        Args:
            dimension: "referrer", "utm_source", "device" or "country".
            limit: maximum number of values, up to 1,000.
            at: a day of the period; today if None.
            unit: length of the period: "day", "week" or "month".
        """
        return self._run(self._breakdown(dimension, limit, at, unit))

    async def abreakdown(
        self, dimension: Dimension, *, limit: int = 10, at: date | None = None, unit: Unit = "day"
    ) -> list[tuple[str, int]]:
        """See `breakdown`."""
        return await self._arun(self._breakdown(dimension, limit, at, unit))

    def _hit(self, page: str, at: date | None) -> Flow[int]:
        moment = timezone.now() if at is None else at  # one time for all periods
        units = [unit for unit in PAGE_UNITS if unit != "hour" or isinstance(moment, datetime)]
        limits = [limit for unit in units for limit in page_limits(unit)]
        keys = [page_key(self.site, unit, moment) for unit in units]
        views: int = yield HIT(periods=keys, page=page_name(page), limits=limits)
        return views

    def _count(self, page: str | None, start: date, end: date | None) -> Flow[int]:
        series = yield from self._series(page, start, end, "day")
        return sum(series.values())

    def _series(self, page: str | None, start: date, end: date | None, unit: Unit) -> Flow[dict[date, int]]:
        periods.check_unit(unit)
        name = SUM if page is None else page_name(page)
        found = periods.starts(unit, start, end) if unit != "day" else span(start, end)
        reads = [Read("ZSCORE", page_key(self.site, unit, at), name) for at in found]
        replies: Sequence[bytes | None] = yield Batch(reads)
        return {at: _views(reply) for at, reply in zip(found, replies, strict=True)}

    def _top(self, limit: int, at: date | None, unit: Unit) -> Flow[list[tuple[str, int]]]:
        periods.check_unit(unit)
        return (yield from self._most(page_key(self.site, unit, at), limit))

    def _breakdown(self, dimension: Dimension, limit: int, at: date | None, unit: Unit) -> Flow[list[tuple[str, int]]]:
        check_choice(dimension, "dimension", get_args(Dimension))
        periods.check_unit(unit, VALUE_UNITS)
        return (yield from self._most(value_key(self.site, dimension, unit, at), limit))

    def _most(self, key: str, limit: int) -> Flow[list[tuple[str, int]]]:
        check_int(limit, "limit", 1, MAX_TOP)
        reply: list[bytes] = yield Read("ZREVRANGE", key, 0, limit, "WITHSCORES")  # one more, for the sum
        rows = [(name.decode(), _views(score)) for name, score in pairs_of(reply)]
        return [row for row in rows if row[0] != SUM][:limit]


def top_flow(views: PageViews, at: date, limit: int, unit: Unit = "day") -> Flow[list[tuple[str, int]]]:
    """Return the flow of `PageViews.top`, to run it with others."""
    return views._top(limit, at, unit)


def all_pages_flow(views: PageViews, day: date) -> Flow[list[tuple[str, int]]]:
    """Return the views of all pages of a day, in descending order; an export has no `MAX_TOP`."""
    found, cursor = dict[bytes, bytes](), 0
    while True:
        cursor, rows = yield Read("ZSCAN", page_key(views.site, "day", day), cursor, "COUNT", MAX_TOP)
        found.update(pairs_of(rows))
        if not int(cursor):
            break
    pages = [(name.decode(), _views(score)) for name, score in found.items() if name != SUM.encode()]
    return sorted(pages, key=lambda row: (-row[1], row[0]))


def breakdown_flow(
    views: PageViews, dimension: Dimension, at: date, limit: int, unit: Unit
) -> Flow[list[tuple[str, int]]]:
    """Return the flow of `PageViews.breakdown`, to run it with others."""
    return views._breakdown(dimension, limit, at, unit)


def view_count_flow(views: PageViews, page: str | None, start: date, end: date | None = None) -> Flow[int]:
    """Return the flow of `PageViews.count`, to run it with others."""
    return views._count(page, start, end)


def _views(score: bytes | None) -> int:
    return int(float(score)) if score is not None else 0

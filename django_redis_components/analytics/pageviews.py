"""Page views: the number of views of each page per day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from django_redis_components.analytics.counter import Counter, ttl_ms
from django_redis_components.analytics.dates import local_date, span, stamp
from django_redis_components.analytics.scripts import HIT
from django_redis_components.core import conf
from django_redis_components.core.keys import digest
from django_redis_components.core.protocol import Batch, Call, Flow, Read

#: The page that views are counted under once a day has ``MAX_PAGES_PER_DAY`` pages. Also in ``hit.lua``.
OTHER = "__other__"
#: Maximum length of a page name in UTF-8 bytes; a longer one is truncated and ends with its digest.
MAX_PAGE_BYTES = 200
#: Bytes that are kept of a truncated name.
TRUNCATED_BYTES = 160
#: Maximum pages that `top` returns.
MAX_TOP = 1_000
#: The member that counts all pages. A page name is never empty.
_SUM = ""


class PageViews(Counter):
    """Views of the pages of a site, by day.

    A view is sent once: after a lost reply the exception is raised, because a repetition could count twice.

    Args:
        name: the name of the site; its days share a Cluster slot.
        using: connection alias.
    """

    def __init__(self, name: str = "default", *, using: str = "default") -> None:
        super().__init__(name, using=using)

    def hit(self, page: str, at: date | None = None) -> int:
        """Count one view of a page.

        Args:
            page: its name, for example a path. A name over MAX_PAGE_BYTES is truncated and ends with its digest.
            at: a day or a time; now if None.

        Returns:
            The views of the page on that day, or 0 if the day has ``MAX_PAGES_PER_DAY`` other pages and the view was
            counted under ``__other__``.

        Raises:
            redis.exceptions.RedisError: the view may or may not have been counted.
        """
        return self._run(self._hit(page, at))

    async def ahit(self, page: str, at: date | None = None) -> int:
        """See `hit`."""
        return await self._arun(self._hit(page, at))

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

    def series(self, page: str | None, start: date, end: date | None = None) -> dict[date, int]:
        """Return the views of each day from `start` to `end`, in order; days without views are 0. See `count`."""
        return self._run(self._series(page, start, end))

    async def aseries(self, page: str | None, start: date, end: date | None = None) -> dict[date, int]:
        """See `series`."""
        return await self._arun(self._series(page, start, end))

    def top(self, day: date | None = None, limit: int = 10) -> list[tuple[str, int]]:
        """Return the pages of a day with the most views, in descending order, as (page, views).

        Args:
            day: today if None.
            limit: maximum number of pages, up to 1,000.
        """
        return self._run(self._top(day, limit))

    async def atop(self, day: date | None = None, limit: int = 10) -> list[tuple[str, int]]:
        """See `top`."""
        return await self._arun(self._top(day, limit))

    def _hit_call(self, page: str, at: date | None = None) -> Call:
        limit = conf.settings().analytics.max_pages_per_day
        return HIT(day=self._day(local_date(at)), page=page_name(page), ttl_ms=ttl_ms(), max_pages=limit)

    def _hit(self, page: str, at: date | None) -> Flow[int]:
        views: int = yield self._hit_call(page, at)
        return views

    def _count(self, page: str | None, start: date, end: date | None) -> Flow[int]:
        series = yield from self._series(page, start, end)
        return sum(series.values())

    def _series(self, page: str | None, start: date, end: date | None) -> Flow[dict[date, int]]:
        name = _SUM if page is None else page_name(page)
        days = span(start, end)
        replies: Sequence[bytes | None] = yield Batch([Read("ZSCORE", self._day(day), name) for day in days])
        return {day: _views(reply) for day, reply in zip(days, replies, strict=True)}

    def _top(self, day: date | None, limit: int) -> Flow[list[tuple[str, int]]]:
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_TOP:
            raise ValueError(f"limit={limit!r}: expected an integer from 1 to {MAX_TOP}.")
        key = self._day(local_date(day, "day"))
        reply: list[bytes] = yield Read("ZREVRANGE", key, 0, limit, "WITHSCORES")  # one more, for the sum
        rows = [(name.decode(), _views(score)) for name, score in zip(reply[::2], reply[1::2], strict=True)]
        return [row for row in rows if row[0] != _SUM][:limit]

    def _day(self, day: date) -> str:
        return self._key("pv", stamp(day))


def hit_call(views: PageViews, page: str, at: date | None = None) -> Call:
    """Return the call that `PageViews.hit` sends, to batch it with others."""
    return views._hit_call(page, at)


def top_flow(views: PageViews, day: date, limit: int) -> Flow[list[tuple[str, int]]]:
    """Return the flow of `PageViews.top`, to run it with others."""
    return views._top(day, limit)


def count_flow(views: PageViews, page: str | None, start: date) -> Flow[int]:
    """Return the flow of `PageViews.count` for one day, to run it with others."""
    return views._count(page, start, None)


def page_name(page: str) -> str:
    """Return the name that a page is counted under; a long one is truncated and ends with its digest.

    Raises:
        TypeError: not a string.
        ValueError: empty.
    """
    if not isinstance(page, str):
        raise TypeError(f"page={page!r}: expected a string, got {type(page).__name__}.")
    if not page:
        raise ValueError("page is empty: expected a path or another name.")
    data = page.encode("utf-8", "replace")
    if len(data) > MAX_PAGE_BYTES:
        return f"{data[:TRUNCATED_BYTES].decode('utf-8', 'ignore')}…{digest(page)}"
    return data.decode()


def _views(score: bytes | None) -> int:
    return int(float(score)) if score is not None else 0

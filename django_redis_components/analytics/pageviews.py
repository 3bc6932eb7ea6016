"""Page views: how often each page of a site was seen on a day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from django_redis_components.analytics.base import Named, ttl_ms
from django_redis_components.analytics.dates import local_date, span, stamp
from django_redis_components.analytics.scripts import HIT
from django_redis_components.core import conf
from django_redis_components.core.keys import digest
from django_redis_components.core.protocol import Batch, Call, Flow, Read

#: Where the views of a day's further pages are counted when it has its fill of names. Stands in the scripts, too.
OTHER = "__other__"
#: Longest page name in UTF-8 bytes; a longer one is cut and ends in its digest. Each costs memory once a day.
MAX_PAGE_BYTES = 200
#: Bytes of a page name that is cut.
CUT_BYTES = 160
#: Most pages that `top` returns.
MAX_TOP = 1_000
#: Member of a day's zset that is the sum of all pages. No page has the empty name.
_SUM = ""


class PageViews(Named):
    """Views of the pages of a site, by day.

    A view is counted once and sent once: if the reply is lost it is not sent again, because that
    might count it twice. The error then reaches the caller.

    Args:
        site: name of the site; also the Cluster slot of all its days.
        using: alias of the connection.
    """

    def __init__(self, site: str = "default", *, using: str = "default") -> None:
        super().__init__(site, using=using)

    def hit(self, page: str, at: date | None = None) -> int:
        """Count one view of a page.

        Args:
            page: its name: a path, the name of a route. At most MAX_PAGE_BYTES; a longer one is cut and
                marked with its digest.
            at: the day, or a moment in it; now if None.

        Returns:
            The views of the page on that day, or 0 if the day has its fill of different pages
            (``MAX_PAGES_PER_DAY``) and the view was counted under ``__other__``.

        Raises:
            redis.exceptions.RedisError: the view may or may not have been counted.
        """
        return self._run(self._hit(page, at))

    async def ahit(self, page: str, at: date | None = None) -> int:
        """See `hit`."""
        return await self._arun(self._hit(page, at))

    def count(self, page: str | None, start: date, end: date | None = None) -> int:
        """The views of a page from `start` to `end`, both included.

        Args:
            page: its name; None for all pages together.
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
        """The views of each day from `start` to `end`, in order; days without views are 0. See `count`."""
        return self._run(self._series(page, start, end))

    async def aseries(self, page: str | None, start: date, end: date | None = None) -> dict[date, int]:
        """See `series`."""
        return await self._arun(self._series(page, start, end))

    def top(self, day: date | None = None, n: int = 10) -> list[tuple[str, int]]:
        """The pages of a day with the most views and how many, most first; `n` of them, at most 1,000."""
        return self._run(self._top(day, n))

    async def atop(self, day: date | None = None, n: int = 10) -> list[tuple[str, int]]:
        """See `top`."""
        return await self._arun(self._top(day, n))

    def hit_call(self, page: str, at: date | None = None) -> Call:
        """The request that `hit` sends, for a batch with others."""
        limit = conf.settings().analytics.max_pages_per_day
        return HIT(day=self._day(local_date(at)), page=page_name(page), ttl_ms=ttl_ms(), max_pages=limit)

    def _hit(self, page: str, at: date | None) -> Flow[int]:
        views: int = yield self.hit_call(page, at)
        return views

    def _count(self, page: str | None, start: date, end: date | None) -> Flow[int]:
        series = yield from self._series(page, start, end)
        return sum(series.values())

    def _series(self, page: str | None, start: date, end: date | None) -> Flow[dict[date, int]]:
        name = _SUM if page is None else page_name(page)
        days = span(start, end)
        replies: Sequence[bytes | None] = yield Batch([Read("ZSCORE", self._day(day), name) for day in days])
        return {day: _views(reply) for day, reply in zip(days, replies, strict=True)}

    def _top(self, day: date | None, n: int) -> Flow[list[tuple[str, int]]]:
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MAX_TOP:
            raise ValueError(f"n={n!r}: expected a whole number from 1 to {MAX_TOP}.")
        key = self._day(local_date(day, "day"))
        reply: list[bytes] = yield Read("ZREVRANGE", key, 0, n, "WITHSCORES")  # one more than n, for the sum
        rows = [(name.decode(), _views(score)) for name, score in zip(reply[::2], reply[1::2], strict=True)]
        return [row for row in rows if row[0] != _SUM][:n]

    def _day(self, day: date) -> str:
        return self._key("pv", stamp(day))


def page_name(page: str) -> str:
    """The name under which a page is counted: its own, or cut and marked with its digest when it is too long.

    Raises:
        TypeError: not a string.
        ValueError: empty.
    """
    if not isinstance(page, str):
        raise TypeError(f"page={page!r}: expected a string, got {type(page).__name__}.")
    if not page:
        raise ValueError("page is empty: expected a path or another name of the page.")
    data = page.encode("utf-8", "replace")
    if len(data) > MAX_PAGE_BYTES:
        return f"{data[:CUT_BYTES].decode('utf-8', 'ignore')}…{digest(page)}"
    return data.decode()


def _views(score: bytes | None) -> int:
    return int(float(score)) if score is not None else 0

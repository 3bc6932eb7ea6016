"""Unique visitors by hour, day, week and month and over ranges, in at most 12 KB for each of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from uuid import UUID

from django.utils import timezone

from django_redis_components.analytics import periods
from django_redis_components.analytics.counter import SHORT_TTL_MS, SiteCounter, ttl_ms
from django_redis_components.analytics.dates import local_date, span
from django_redis_components.analytics.estimate import Estimate
from django_redis_components.analytics.periods import Unit
from django_redis_components.analytics.scripts import MERGE, UNION, VISIT, VISIT_PAGES
from django_redis_components.analytics.view_counters import OTHER, page_name
from django_redis_components.core import keys
from django_redis_components.core.arguments import check_choice, check_int, check_iterable, id_text, short_repr
from django_redis_components.core.chunks import chunks
from django_redis_components.core.keys import day_stamp
from django_redis_components.core.protocol import Batch, Call, Flow, Read
from django_redis_components.core.settings import conf

#: What identifies a visitor. An int and its decimal text are the same visitor.
VisitorId = str | bytes | int | UUID

#: Maximum ids of one script call; Lua's stack allows 8,000.
CHUNK = 1_000
#: Maximum sites of one `merged`, which transfers up to 12 KB for each.
MAX_SITES = 50
#: Maximum minutes of `active`, and TTL of a minute in milliseconds.
MAX_MINUTES, MINUTE_TTL_MS = 10, 10 * 60_000
#: Maximum hours of `recent`.
MAX_HOURS = 7 * 24
#: TTL of the list of pages of a day whose visitors are counted, in milliseconds.
PAGES_TTL_MS = 2 * 86_400 * 1_000
#: Units with a counter of visitors each, beside hours.
UNITS: tuple[Unit, ...] = ("day", "week", "month")
#: The period for which each policy of the middleware keeps a visitor's id; None: any range.
IDENTITY_PERIODS: dict[str, Unit | None] = {
    "user": None,
    "cookie": None,
    "hash": "day",
    "hash:day": "day",
    "hash:week": "week",
    "hash:month": "month",
}


class UniqueVisitors(SiteCounter):
    """Visitors, each counted once in a period, in HyperLogLogs. Ids are not stored.

    Hours are kept for 8 days; days, weeks and months for ``ANALYTICS["TTL"]`` after their last visitor. Adding is
    idempotent and repeated after a lost reply.

    Args:
        site: the name of a site or campaign; its keys share a Cluster slot.
        page: the visitors of this page of the site only. The middleware counts them for the first
            ``VISITOR_PAGES_PER_DAY`` pages of a day, and those of all further pages as the page `OTHER`. Pages have no
            hours.
        identity_period: "day", "week" or "month" if a visitor gets another id in each of them: the visitors of a longer
            range are then the sum of those periods (see `Estimate.is_unique`). None: ids never change; for the site
            of the middleware, its policy.
        using: connection alias.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    catalog_kind = "UniqueVisitors"

    def __init__(
        self,
        site: str = "default",
        *,
        page: str | None = None,
        identity_period: Unit | None = None,
        using: str = "default",
    ) -> None:
        super().__init__(site, using=using)
        if identity_period is not None:
            check_choice(identity_period, "identity_period", UNITS)
        self.page = None if page is None else page_name(page)
        self._identity_period = identity_period

    def add(self, *ids: VisitorId, at: date | None = None) -> None:
        """Count visitors.

        Args:
            ids: one id per visitor.
            at: a day or a time; now if None. A day without a time is not counted in an hour.

        Raises:
            TypeError: an id is not a str, bytes, int or UUID.
        """
        self._run(self._add(ids, at))

    async def aadd(self, *ids: VisitorId, at: date | None = None) -> None:
        """See `add`."""
        await self._arun(self._add(ids, at))

    def count(self, start: date, end: date | None = None) -> Estimate:
        """Return the number of unique visitors from `start` to `end`, both included.

        Args:
            start: first day.
            end: last day; the same as `start` if None.

        Raises:
            ValueError: the range is empty or has more than 400 days.
        """
        return self._run(self._count(start, end))

    async def acount(self, start: date, end: date | None = None) -> Estimate:
        """See `count`."""
        return await self._arun(self._count(start, end))

    def series(self, start: date, end: date | None = None, *, unit: Unit = "day") -> dict[date, Estimate]:
        """Return the visitors of each period from that of `start` to that of `end`, in order.

        Their sum is not the `count` of the range, because a visitor may return.

        Args:
            unit: "hour", "day", "week" or "month". Hours need times (``datetime``).

        Returns:
            The visitors by the start of the period: its first day, or its hour.
        """
        return self._run(self._series(start, end, unit))

    async def aseries(self, start: date, end: date | None = None, *, unit: Unit = "day") -> dict[date, Estimate]:
        """See `series`."""
        return await self._arun(self._series(start, end, unit))

    def recent(self, hours: int = 24) -> Estimate:
        """Return the number of unique visitors of the last hours, including the current one that has not ended.

        Hours are those of TIME_ZONE, in which the middleware and `add` without `at` count, not of the active time zone.

        Args:
            hours: from 1 to 168.
        """
        return self._run(self._recent(hours))

    async def arecent(self, hours: int = 24) -> Estimate:
        """See `recent`."""
        return await self._arun(self._recent(hours))

    def active(self, minutes: int = 5) -> Estimate:
        """Return the number of unique visitors of the last minutes. Only those added without `at` count.

        Args:
            minutes: from 1 to 10.
        """
        return self._run(self._active(minutes))

    async def aactive(self, minutes: int = 5) -> Estimate:
        """See `active`."""
        return await self._arun(self._active(minutes))

    def merged(self, sites: Iterable[str], start: date, end: date | None = None) -> Estimate:
        """Return the number of unique visitors of this and other sites, each counted once.

        Two round trips; the sites may be in different Cluster slots.

        Args:
            sites: the names of the others, at most 50.
            start: first day.
            end: last day; the same as `start` if None.

        Raises:
            ValueError: too many sites, or the range is empty or has more than 400 days.
        """
        return self._run(self._merged(sites, start, end))

    async def amerged(self, sites: Iterable[str], start: date, end: date | None = None) -> Estimate:
        """See `merged`."""
        return await self._arun(self._merged(sites, start, end))

    def _add(self, ids: tuple[VisitorId, ...], at: date | None) -> Flow[None]:
        encoded = [_encode_id(each) for each in ids]
        if encoded:
            now = timezone.now()
            minute = int(now.timestamp()) // 60 if at is None else None
            yield Batch(self._add_calls(encoded, now if at is None else at, minute))

    def _add_calls(self, ids: list[bytes], at: date, minute: int | None) -> list[Call]:
        ttls = {self._period(unit, at): ttl_ms() for unit in UNITS}
        if self.page is None and minute is not None:
            # An hour of now is one of TIME_ZONE, so that `recent` is the same in every active time zone.
            ttls[self._period("hour", periods.local_time(minute * 60))] = SHORT_TTL_MS
        elif self.page is None and isinstance(at, datetime):
            ttls[self._period("hour", at)] = SHORT_TTL_MS
        if self.page is None and minute is not None:
            ttls[self._minute(minute)] = MINUTE_TTL_MS
        return [VISIT(periods=list(ttls), parts=[*ttls.values(), *chunk]) for chunk in chunks(ids, CHUNK)]

    def _count(self, start: date, end: date | None) -> Flow[Estimate]:
        days = span(start, end)
        return (yield from self._union(self._covering(days), days))

    def _series(self, start: date, end: date | None, unit: Unit) -> Flow[dict[date, Estimate]]:
        periods.check_unit(unit)
        found = periods.starts(unit, start, end) if unit != "day" else span(start, end)
        return (yield from self._counts(found, unit))

    def _counts(self, found: Sequence[date], unit: Unit) -> Flow[dict[date, Estimate]]:
        counts: list[int] = yield Batch([Read("PFCOUNT", self._period(unit, at)) for at in found])
        ranges = [periods.days_of(unit, at) for at in found]
        return {
            at: Estimate(count, is_unique=self._has_constant_ids(days))
            for at, count, days in zip(found, counts, ranges, strict=True)
        }

    def _recent(self, hours: int) -> Flow[Estimate]:
        check_int(hours, "hours", 1, MAX_HOURS)
        now = time.time()
        # Seconds are subtracted, not local hours: a day may have 23 or 25 of them.
        moments = [periods.local_time(now - 3_600 * back) for back in range(hours)]
        labels = dict.fromkeys(self._period("hour", moment) for moment in moments)
        return (yield from self._union(list(labels), sorted({local_date(moment) for moment in moments})))

    def _active(self, minutes: int) -> Flow[Estimate]:
        check_int(minutes, "minutes", 1, MAX_MINUTES)
        now = int(time.time()) // 60
        return (yield from self._union([self._minute(now - back) for back in range(minutes)], [local_date()]))

    def _union(self, names: list[str], days: list[date]) -> Flow[Estimate]:
        return Estimate((yield Read("PFCOUNT", *names)), is_unique=self._has_constant_ids(days))

    def _merged(self, sites: Iterable[str], start: date, end: date | None) -> Flow[Estimate]:
        parts = [self, *self._others(sites)]
        days = span(start, end)
        sketches = yield Batch([part._merge_call(days) for part in parts])
        total = yield UNION(scratch=self._key("uv", "scratch"), part=self._key("uv", "part"), sketches=sketches)
        return Estimate(total, is_unique=all(part._has_constant_ids(days) for part in parts))

    def _merge_call(self, days: list[date]) -> Call:
        return MERGE(scratch=self._key("uv", "scratch"), days=self._covering(days))

    def _others(self, sites: Iterable[str]) -> list[UniqueVisitors]:
        names = dict.fromkeys(keys.validate_name(each, "site") for each in check_iterable(sites, "sites", "names"))
        others = [UniqueVisitors(name, using=self.using) for name in names if name != self.site]
        if len(others) > MAX_SITES:
            raise ValueError(f"{len(others)} sites: expected at most {MAX_SITES}.")
        return others

    def _has_constant_ids(self, days: list[date]) -> bool:
        """Return whether a visitor keeps the same id on all these days."""
        period = self._identity_period
        analytics = conf.settings().analytics
        if period is None and self.site == analytics.site:
            period = IDENTITY_PERIODS[analytics.visitor_identity]
        return period is None or periods.start_of(period, days[0]) == periods.start_of(period, days[-1])

    def _covering(self, days: list[date]) -> list[str]:
        return [self._period(unit, day) for unit, day in periods.cover(days)]

    def _period(self, unit: Unit, at: date) -> str:
        label = periods.label(unit, at)
        return self._key("uv", label) if self.page is None else self._key("uvp", keys.digest(self.page), label)

    def _minute(self, minute: int) -> str:
        return self._key("uv", "minute", str(minute))


def add_calls(visitors: UniqueVisitors, ids: list[bytes], at: datetime, minute: int | None) -> list[Call]:
    """Return the calls that add visitors at a local time, to batch them with others.

    Args:
        minute: the minute since the epoch, if it is recent.
    """
    return visitors._add_calls(ids, at, minute)


def page_calls(site: str, pages: Mapping[str, Sequence[bytes]], day: date) -> list[Call]:
    """Return the calls that add visitors to pages of a site on a day; to `OTHER` after the maximum of pages."""
    labels = [periods.label(unit, day) for unit in UNITS]
    parts: list[str | int | bytes] = []
    for page, ids in pages.items():
        for chunk in chunks(ids, CHUNK):
            parts += [keys.digest(page), len(chunk), *chunk]
    call = VISIT_PAGES(
        pages=keys.key("analytics", site, "uvp", day_stamp(day)),
        base=keys.key("analytics", site),
        max_pages=conf.settings().analytics.visitor_pages_per_day,
        pages_ms=PAGES_TTL_MS,
        ttl_ms=ttl_ms(),
        other=keys.digest(OTHER),
        labels=len(labels),
        parts=[*labels, *parts],
    )
    return [call] if parts else []


def visitor_count_flow(visitors: UniqueVisitors, start: date, end: date | None = None) -> Flow[Estimate]:
    """Return the flow of `UniqueVisitors.count`, to run it with others."""
    return visitors._count(start, end)


def visitor_periods_flow(visitors: UniqueVisitors, starts: Sequence[date], unit: Unit) -> Flow[dict[date, Estimate]]:
    """Return the flow of the visitors of each of several periods, to run it with others."""
    return visitors._counts(starts, unit)


def recent_flow(visitors: UniqueVisitors, hours: int) -> Flow[Estimate]:
    """Return the flow of `UniqueVisitors.recent`, to run it with others."""
    return visitors._recent(hours)


def active_flow(visitors: UniqueVisitors, minutes: int) -> Flow[Estimate]:
    """Return the flow of `UniqueVisitors.active`, to run it with others."""
    return visitors._active(minutes)


def _encode_id(visitor: VisitorId) -> bytes:
    if isinstance(visitor, bytes):
        return visitor
    if isinstance(visitor, str | int | UUID) and not isinstance(visitor, bool):
        return id_text(visitor, "id").encode("utf-8", "surrogatepass")
    raise TypeError(f"id={short_repr(visitor)}: expected a string, bytes, an integer or a UUID.")

"""Unique visitors by day and over ranges, in at most 12 KB a day."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from uuid import UUID

from django_redis_components.analytics.counter import Counter, ttl_ms
from django_redis_components.analytics.dates import local_date, span, stamp
from django_redis_components.analytics.estimate import Estimate
from django_redis_components.analytics.scripts import MERGE, UNION, VISIT
from django_redis_components.core import conf
from django_redis_components.core.protocol import Batch, Call, Flow, Read

#: What identifies a visitor. An int and its decimal text are the same visitor.
VisitorId = str | bytes | int | UUID

#: Maximum ids of one script call; Lua's stack allows 8,000.
CHUNK = 1_000
#: Maximum names of one `merged`, which transfers up to 12 KB for each.
MAX_NAMES = 50
#: Days for which each policy of the middleware keeps a visitor's id; None: any range.
IDENTITY_DAYS = {"user": None, "cookie": None, "hash": 1}


class UniqueVisitors(Counter):
    """Visitors, each counted once a day, in a HyperLogLog per day. Ids are not stored.

    Adding is idempotent and repeated after a lost reply.

    Args:
        name: the name of a site, page or campaign; its days share a Cluster slot.
        identity_days: days for which a visitor keeps the same id. Over a longer range the number is the sum of daily
            visitors (see `Estimate.exact_range`). None: any range; for the site of the middleware, its policy.
        using: connection alias.
    """

    def __init__(self, name: str, *, identity_days: int | None = None, using: str = "default") -> None:
        super().__init__(name, using=using)
        if identity_days is not None and (type(identity_days) is not int or identity_days < 1):
            raise ValueError(f"identity_days={identity_days!r}: expected an integer above 0, or None.")
        self._identity_days = identity_days

    def add(self, *ids: VisitorId, at: date | None = None) -> None:
        """Count visitors on a day.

        Args:
            ids: one id per visitor.
            at: a day or a time; now if None.

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

    def series(self, start: date, end: date | None = None) -> dict[date, Estimate]:
        """Return the visitors of each day from `start` to `end`, in order. Their sum is not that of the range."""
        return self._run(self._series(start, end))

    async def aseries(self, start: date, end: date | None = None) -> dict[date, Estimate]:
        """See `series`."""
        return await self._arun(self._series(start, end))

    def merged(self, names: Iterable[str], start: date, end: date | None = None) -> Estimate:
        """Return the number of unique visitors of this and other names, each counted once.

        Two round trips; the names may be in different Cluster slots.

        Args:
            names: the other names, at most 50.
            start: first day.
            end: last day; the same as `start` if None.

        Raises:
            ValueError: too many names, or the range is empty or has more than 400 days.
        """
        return self._run(self._merged(names, start, end))

    async def amerged(self, names: Iterable[str], start: date, end: date | None = None) -> Estimate:
        """See `merged`."""
        return await self._arun(self._merged(names, start, end))

    def _add_call(self, ids: list[bytes], at: date | None) -> Call:
        return VISIT(day=self._day(local_date(at)), ttl_ms=ttl_ms(), ids=ids)

    def _add(self, ids: tuple[VisitorId, ...], at: date | None) -> Flow[None]:
        encoded = [_encode_id(each) for each in ids]
        chunks = [encoded[first : first + CHUNK] for first in range(0, len(encoded), CHUNK)]
        if chunks:
            yield Batch([self._add_call(chunk, at) for chunk in chunks])

    def _count(self, start: date, end: date | None) -> Flow[Estimate]:
        days = span(start, end)
        if self._has_constant_ids(len(days)):
            return Estimate((yield Read("PFCOUNT", *map(self._day, days))))
        counts = yield from self._series(start, end)
        return Estimate(sum(counts.values()), exact_range=False)

    def _series(self, start: date, end: date | None) -> Flow[dict[date, Estimate]]:
        days = span(start, end)
        counts: list[int] = yield Batch([Read("PFCOUNT", self._day(day)) for day in days])
        return {day: Estimate(count) for day, count in zip(days, counts, strict=True)}

    def _merged(self, names: Iterable[str], start: date, end: date | None) -> Flow[Estimate]:
        parts = [self, *self._others(names)]
        days = span(start, end)
        whole = all(part._has_constant_ids(len(days)) for part in parts)
        total = 0
        for group in [days] if whole else [[day] for day in days]:
            sketches = yield Batch([part._merge_call(group) for part in parts])
            total += yield UNION(scratch=self._key("uv", "scratch"), part=self._key("uv", "part"), sketches=sketches)
        return Estimate(total, exact_range=whole)

    def _merge_call(self, days: list[date]) -> Call:
        return MERGE(scratch=self._key("uv", "scratch"), days=[self._day(day) for day in days])

    def _others(self, names: Iterable[str]) -> list[UniqueVisitors]:
        if isinstance(names, str):
            raise TypeError(f"names={names!r}: expected a list of names, got one string.")
        others = [UniqueVisitors(name, using=self.using) for name in dict.fromkeys(names) if name != self.name]
        if len(others) > MAX_NAMES:
            raise ValueError(f"{len(others)} names: expected at most {MAX_NAMES}.")
        return others

    def _has_constant_ids(self, days: int) -> bool:
        """Return whether a visitor keeps the same id for this number of days."""
        lifetime = self._identity_days
        analytics = conf.settings().analytics
        if lifetime is None and self.name == analytics.site:
            lifetime = IDENTITY_DAYS[analytics.visitor_identity]
        return lifetime is None or days <= lifetime

    def _day(self, day: date) -> str:
        return self._key("uv", stamp(day))


def add_call(visitors: UniqueVisitors, ids: list[bytes], at: date | None = None) -> Call:
    """Return the call that `UniqueVisitors.add` sends for up to 1,000 ids, to batch it with others."""
    return visitors._add_call(ids, at)


def count_flow(visitors: UniqueVisitors, start: date, end: date | None = None) -> Flow[Estimate]:
    """Return the flow of `UniqueVisitors.count`, to run it with others."""
    return visitors._count(start, end)


def series_flow(visitors: UniqueVisitors, start: date, end: date | None = None) -> Flow[dict[date, Estimate]]:
    """Return the flow of `UniqueVisitors.series`, to run it with others."""
    return visitors._series(start, end)


def _encode_id(visitor: VisitorId) -> bytes:
    if isinstance(visitor, bytes):
        return visitor
    if isinstance(visitor, str | int | UUID) and not isinstance(visitor, bool):
        return str(visitor).encode("utf-8", "surrogatepass")
    raise TypeError(f"visitor id {visitor!r}: expected a str, bytes, int or UUID, got {type(visitor).__name__}.")

"""Rankings: members by their scores, for all time and for periods."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from datetime import date
from typing import Any, Literal, get_args
from uuid import UUID

from django.utils import timezone

from django_redis_components.analytics import periods
from django_redis_components.analytics.counter import ttl_ms
from django_redis_components.analytics.periods import check_units
from django_redis_components.analytics.scripts import ADD_SCORE, SET_SCORE
from django_redis_components.analytics.stored_periods import stored_periods
from django_redis_components.core import keys
from django_redis_components.core.arguments import check_flag, check_int, check_number, id_text, short_repr
from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.protocol import Batch, Command, Flow, Read

#: A period for which scores are kept; "all" for all time.
RankingUnit = Literal["all", "day", "week", "month"]
UNITS: tuple[RankingUnit, ...] = get_args(RankingUnit)
#: Members of one answer.
MAX_MEMBERS = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class RankedMember:
    """A member of a ranking.

    Attributes:
        rank: 1 for the best; members with equal scores have the same rank, and the next one is skipped: 1, 2, 2, 4.
    """

    member: str
    score: float
    rank: int


#: Name and score of a member.
_Scored = tuple[str, float]


class Ranking(DeletableComponent):
    """A leaderboard.

    Args:
        name: name of the ranking.
        units: the periods for which scores are kept: "all", "day", "week" (from Monday), "month"; the first is the
            default of the methods. Those of a day and so on have the TTL of `ANALYTICS["TTL"]`.
        ascending: whether the smallest score is the best, as for times.
        using: connection alias.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "analytics"
    name_label = "ranking name"
    catalog_kind = "Ranking"

    def __init__(
        self, name: str, *, units: Sequence[RankingUnit] = ("all",), ascending: bool = False, using: str = "default"
    ) -> None:
        super().__init__(name, using=using)
        check_units(units, UNITS)
        self.units = tuple(units)
        self.ascending = check_flag(ascending, "ascending")

    def add(self, member: str | int | UUID, score: float, *, best: bool = False, at: date | None = None) -> None:
        """Set the score of a member in the period of each unit. Idempotent.

        Args:
            best: whether to keep a score that is better.
            at: a time, or a day, of the periods; now if None.
        """
        self._run(self._score(member, score, "best" if check_flag(best, "best") else "set", at))

    async def aadd(self, member: str | int | UUID, score: float, *, best: bool = False, at: date | None = None) -> None:
        """See `add`."""
        await self._arun(self._score(member, score, "best" if check_flag(best, "best") else "set", at))

    def incr(self, member: str | int | UUID, by: float = 1, *, at: date | None = None) -> float:
        """Add to the score of a member in the period of each unit, and return that of the first one.

        It is sent once: after a lost reply it raises ConnectionError, and may have been added.
        """
        return float(self._run(self._score(member, by, "incr", at)))

    async def aincr(self, member: str | int | UUID, by: float = 1, *, at: date | None = None) -> float:
        """See `incr`."""
        return float(await self._arun(self._score(member, by, "incr", at)))

    def remove(self, member: str | int | UUID, *, at: date | None = None) -> None:
        """Remove a member from the periods of a time. An unknown member is ignored."""
        self._run(self._remove(member, at))

    async def aremove(self, member: str | int | UUID, *, at: date | None = None) -> None:
        """See `remove`."""
        await self._arun(self._remove(member, at))

    def forget(self, member: str | int | UUID) -> int:
        """Remove a member from all periods that are stored; return the number of those that had it."""
        return self._run(self._forget(member))

    async def aforget(self, member: str | int | UUID) -> int:
        """See `forget`."""
        return await self._arun(self._forget(member))

    def rank(
        self, member: str | int | UUID, *, unit: RankingUnit | None = None, at: date | None = None
    ) -> RankedMember | None:
        """Return the score and the rank of a member; None if it has none.

        Args:
            unit: the first one if None.
            at: a time of the period; now if None.
        """
        return self._run(self._rank(member, unit, at))

    async def arank(
        self, member: str | int | UUID, *, unit: RankingUnit | None = None, at: date | None = None
    ) -> RankedMember | None:
        """See `rank`."""
        return await self._arun(self._rank(member, unit, at))

    def percentile(
        self, member: str | int | UUID, *, unit: RankingUnit | None = None, at: date | None = None
    ) -> float | None:
        """Return the percentage of the other members whose score is worse; None if the member has none."""
        return self._run(self._percentile(member, unit, at))

    async def apercentile(
        self, member: str | int | UUID, *, unit: RankingUnit | None = None, at: date | None = None
    ) -> float | None:
        """See `percentile`."""
        return await self._arun(self._percentile(member, unit, at))

    def top(
        self, *, limit: int = 10, offset: int = 0, unit: RankingUnit | None = None, at: date | None = None
    ) -> list[RankedMember]:
        """Return the best members, the best first; those with equal scores by name.

        Args:
            limit: 1 to 1,000.
            offset: better members that are left out, for further pages.
        """
        return self._run(self._top(limit, offset, unit, at))

    async def atop(
        self, *, limit: int = 10, offset: int = 0, unit: RankingUnit | None = None, at: date | None = None
    ) -> list[RankedMember]:
        """See `top`."""
        return await self._arun(self._top(limit, offset, unit, at))

    def around(
        self, member: str | int | UUID, *, limit: int = 3, unit: RankingUnit | None = None, at: date | None = None
    ) -> list[RankedMember]:
        """Return a member with up to `limit` better and `limit` worse ones; [] if it has no score."""
        return self._run(self._around(member, limit, unit, at))

    async def aaround(
        self, member: str | int | UUID, *, limit: int = 3, unit: RankingUnit | None = None, at: date | None = None
    ) -> list[RankedMember]:
        """See `around`."""
        return await self._arun(self._around(member, limit, unit, at))

    def count(self, *, unit: RankingUnit | None = None, at: date | None = None) -> int:
        """Return the number of members."""
        return self._run(self._count(unit, at))

    async def acount(self, *, unit: RankingUnit | None = None, at: date | None = None) -> int:
        """See `limit`."""
        return await self._arun(self._count(unit, at))

    def _score(self, member: str | int | UUID, score: float, mode: str, at: date | None) -> Flow[float]:
        number = check_number(score, "score")
        moment = timezone.now() if at is None else at  # one time for all periods
        script = ADD_SCORE if mode == "incr" else SET_SCORE
        reply: bytes = yield script(
            base=self._key("rk"),
            member=_name(member),
            score=repr(number),
            mode="worst" if mode == "best" and self.ascending else mode,
            ttl_ms=ttl_ms(),
            periods=[self._period(unit, moment) for unit in self.units],
        )
        return float(reply)

    def _remove(self, member: str | int | UUID, at: date | None) -> Flow[None]:
        moment = timezone.now() if at is None else at
        zsets = [self._zset(unit, moment) for unit in self.units]
        yield Batch([Command("ZREM", zset, _name(member), retry=True) for zset in zsets])

    def _forget(self, member: str | int | UUID) -> Flow[int]:
        zsets, name = (yield from self._stored()), _name(member)
        removed: list[int] = yield Batch([Command("ZREM", zset, name, retry=True) for zset in zsets])
        return sum(removed)

    def _delete(self) -> Flow[bool]:
        zsets = yield from self._stored()
        deleted: list[int] = yield Batch([Command("UNLINK", zset, retry=True) for zset in zsets])
        yield Command("UNLINK", self._key("rk"), retry=True)  # last: an error before it leaves it for the next call
        return sum(deleted) > 0

    def _stored(self) -> Flow[list[str]]:
        """Return the keys of the periods that may be stored, also of units that this object does not keep."""
        periods = yield from stored_periods(self._key("rk"))
        return [self._key("rk", period) for period in ("all", *periods)]

    def _rank(self, member: str | int | UUID, unit: RankingUnit | None, at: date | None) -> Flow[RankedMember | None]:
        zset, name = self._zset(unit, at), _name(member)
        score = yield Read("ZSCORE", zset, name)
        if score is None:
            return None
        better: int = yield Read("ZCOUNT", zset, *self._better(float(score)))
        return RankedMember(name, float(score), better + 1)

    def _percentile(self, member: str | int | UUID, unit: RankingUnit | None, at: date | None) -> Flow[float | None]:
        zset = self._zset(unit, at)
        score = yield Read("ZSCORE", zset, _name(member))
        if score is None:
            return None
        better_or_equal = self._better(float(score), or_equal=True)
        not_worse, members = yield Batch([Read("ZCOUNT", zset, *better_or_equal), Read("ZCARD", zset)])
        return 100.0 * int(members - not_worse) / max(int(members) - 1, 1)

    def _top(self, limit: int, offset: int, unit: RankingUnit | None, at: date | None) -> Flow[list[RankedMember]]:
        check_int(limit, "limit", 1, MAX_MEMBERS)
        check_int(offset, "offset", 0, 2**32)
        return (yield from self._range(self._zset(unit, at), offset, offset + limit - 1))

    def _around(
        self, member: str | int | UUID, limit: int, unit: RankingUnit | None, at: date | None
    ) -> Flow[list[RankedMember]]:
        check_int(limit, "limit", 0, MAX_MEMBERS)
        zset = self._zset(unit, at)
        name = _name(member)
        place, score = yield Batch(
            [Read("ZRANK" if self.ascending else "ZREVRANK", zset, name), Read("ZSCORE", zset, name)]
        )
        if place is None or score is None:
            return []
        if not self.ascending:
            [(start, end)] = yield from self._places(zset, float(score))
            place = start + end - place
        return (yield from self._range(zset, max(0, place - limit), place + limit))

    def _range(self, zset: str, first: int, last: int) -> Flow[list[RankedMember]]:
        """Return members by their place; the rank of the first one is counted, those of the others follow."""
        scored = yield from self._read(zset, first, last)
        if not scored:
            return []
        scores = (scored[0][1], scored[-1][1])
        places = yield from self._places(zset, *scores)
        if not self.ascending:
            scored = yield from self._by_name(zset, scored, (first, last), dict(zip(scores, places, strict=True)))
        rank = places[0][0] + 1
        ranked: list[RankedMember] = []
        for number, (name, score) in enumerate(scored):
            if number and score != scored[number - 1][1]:
                rank = first + number + 1
            ranked.append(RankedMember(name, score, rank))
        return ranked

    def _by_name(
        self, zset: str, scored: list[_Scored], page: tuple[int, int], places: dict[float, tuple[int, int]]
    ) -> Flow[list[_Scored]]:
        """Return a page with equal scores in the order of their names; the server has them the other way round.

        Args:
            places: the first and last place of all members with the best and with the worst score of the page.
        """
        (first, last), others = page, {}
        for score, (start, end) in places.items():
            if start < first or end > last:  # not all of them are on this page, and others of them belong there
                others[score] = yield from self._read(
                    zset, start + end - min(end, last), start + end - max(start, first)
                )
        kept = [row for row in scored if row[1] not in others]
        return sorted([*kept, *itertools.chain(*others.values())], key=lambda row: (-row[1], row[0]))

    def _read(self, zset: str, first: int, last: int) -> Flow[list[_Scored]]:
        reply = yield Read("ZRANGE", zset, first, last, *(() if self.ascending else ("REV",)), "WITHSCORES")
        return [(name.decode(errors="replace"), float(score)) for name, score in pairs_of(reply)]

    def _places(self, zset: str, *scores: float) -> Flow[list[tuple[int, int]]]:
        """Return the first and the last place of the members with each score."""
        requests = [
            Read("ZCOUNT", zset, *self._better(score, or_equal=or_equal))
            for score in scores
            for or_equal in (False, True)
        ]
        counts = yield Batch(requests)
        return [(better, not_worse - 1) for better, not_worse in pairs_of(counts)]

    def _count(self, unit: RankingUnit | None, at: date | None) -> Flow[int]:
        members: int = yield Read("ZCARD", self._zset(unit, at))
        return members

    def _better(self, score: float, *, or_equal: bool = False) -> tuple[str, str]:
        edge = repr(score) if or_equal else f"({score!r}"
        return ("-inf", edge) if self.ascending else (edge, "+inf")

    def _zset(self, unit: RankingUnit | None, at: date | None) -> str:
        chosen = self.units[0] if unit is None else unit
        if chosen not in self.units:
            raise ValueError(f"{self!r} keeps {', '.join(self.units)}, not {short_repr(unit)}: see the argument units.")
        return self._key("rk", self._period(chosen, at))

    def _period(self, unit: RankingUnit, at: date | None) -> str:
        return unit if unit == "all" else f"{unit}:{periods.label(unit, at)}"

    def _catalog_options(self) -> dict[str, Any]:
        return {"units": list(self.units), "ascending": self.ascending}


def top_flow(ranking: Ranking, limit: int) -> Flow[list[RankedMember]]:
    """Return the flow of `Ranking.top` for the first unit, to run it with others."""
    return ranking._top(limit, 0, None, None)


def _name(member: object) -> str:
    return keys.validate_name(id_text(member, "member"), "member")

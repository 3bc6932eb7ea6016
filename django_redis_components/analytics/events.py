"""Events: which users did something in an hour, day, week or month, one bit each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from functools import reduce
from typing import get_args

from django.utils import timezone

from django_redis_components.analytics import periods
from django_redis_components.analytics.counter import ttl_ms
from django_redis_components.analytics.dates import local_date
from django_redis_components.analytics.expressions import UserSet
from django_redis_components.analytics.periods import Unit, check_units
from django_redis_components.analytics.scripts import MARK, STORED_UNITS, UNMARK
from django_redis_components.analytics.stored_periods import stored_periods
from django_redis_components.analytics.user_ids import UserId, check_number, user_text
from django_redis_components.core import keys
from django_redis_components.core.arguments import check_flag, short_repr
from django_redis_components.core.chunks import chunks
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.settings import conf

#: Units of periods, the shortest first.
UNITS: tuple[Unit, ...] = get_args(Unit)
#: Names of events that the dashboard lists.
MAX_NAMES = 50
#: The end of the key of a bitmap.
_PERIOD_END = re.compile(rf":(?:{'|'.join(UNITS)}):[0-9W]+$")
#: Bitmaps that one call of `forget` looks at, and names of one read.
CHUNK = 1_000


class Events(DeletableComponent):
    """Users who did something: signed up, paid, opened a page.

    Each period has a bitmap with one bit for each user, with the TTL of `ANALYTICS["TTL"]` from its last write. Sets of
    users are combined by ``&``, ``|`` and ``~``::

        active, paid = Events("active"), Events("paid")
        (active.week() & ~paid.month()).count()

    Args:
        event: the name of the event; words may be separated by colons: ``"song:played"``.
        site: events that are combined must be of one site; its keys share a Cluster slot.
        units: periods that are kept; "hour" is not by default.
        mapped: whether ids are strings, UUIDs or large integers. Each gets a number, which takes some 80 bytes. All
            events of a site must agree.
        using: connection alias.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "analytics"
    name_label = "event"

    def __init__(
        self,
        event: str,
        *,
        site: str = "default",
        units: Sequence[Unit] = ("day", "week", "month"),
        mapped: bool = False,
        using: str = "default",
    ) -> None:
        super().__init__(event, using=using)
        _check_colons(event)
        self.site = keys.validate_name(site, "site")
        self.units = check_units(units, UNITS)
        self.mapped = check_flag(mapped, "mapped")

    @property
    def event(self) -> str:
        """The name of the event."""
        return self.name

    def mark(self, user_id: UserId, *, at: date | None = None) -> bool:
        """Mark that a user did it. Idempotent.

        Args:
            user_id: an integer from 0 to `MAX_USER_ID`, or any id if they are mapped.
            at: a time, or a day; now if None. A day without a time is not marked in an hour.

        Returns:
            True if it is the first time in the shortest of the marked periods. After a lost reply it is False.

        Raises:
            TypeError, ValueError: an argument is not accepted.
        """
        return self._run(self._mark(user_id, at))

    async def amark(self, user_id: UserId, *, at: date | None = None) -> bool:
        """See `mark`."""
        return await self._arun(self._mark(user_id, at))

    def hour(self, *, at: date | None = None) -> UserSet:
        """Return the users of an hour."""
        return self._period("hour", at)

    def day(self, *, at: date | None = None) -> UserSet:
        """Return the users of a day; today if None."""
        return self._period("day", at)

    def week(self, *, at: date | None = None) -> UserSet:
        """Return the users of the ISO week of a day, from Monday."""
        return self._period("week", at)

    def month(self, *, at: date | None = None) -> UserSet:
        """Return the users of the month of a day."""
        return self._period("month", at)

    def year(self, *, at: date | None = None) -> UserSet:
        """Return the users of the year of a day: those of any of its months, which must be kept."""
        first = local_date(at).replace(month=1, day=1)
        return self.between(first, first.replace(month=12), unit="month")

    def period(self, *, unit: Unit, at: date | None = None) -> UserSet:
        """Return the users of the period of a time.

        Raises:
            ValueError: the unit is not kept.
        """
        return self._period(unit, at)

    def between(self, start: date, end: date, *, unit: Unit = "day") -> UserSet:
        """Return the users of any period from that of `start` to that of `end`, both included; at most 400."""
        periods.check_unit(unit)
        return reduce(UserSet.__or__, [self._period(unit, each) for each in periods.starts(unit, start, end)])

    def did(self, user_id: UserId, *, unit: Unit = "day", at: date | None = None) -> bool:
        """Return whether a user did it in the period of a time."""
        return self._run(self._did(user_id, unit, at))

    async def adid(self, user_id: UserId, *, unit: Unit = "day", at: date | None = None) -> bool:
        """See `did`."""
        return await self._arun(self._did(user_id, unit, at))

    def forget(self, user_id: UserId) -> int:
        """Remove a user from all periods that are stored; return the number of those that had the user."""
        return sum(self._run(self._forget(user_id, chunk)) for chunk in chunks(self._run(self._stored()), CHUNK))

    async def aforget(self, user_id: UserId) -> int:
        """See `forget`."""
        stored = await self._arun(self._stored())
        return sum([await self._arun(self._forget(user_id, chunk)) for chunk in chunks(stored, CHUNK)])

    def _period(self, unit: Unit, at: date | None) -> UserSet:
        if unit not in self.units:
            raise ValueError(f"{self!r} keeps {', '.join(self.units)}, not {short_repr(unit)}: see the argument units.")
        return UserSet(self._key(), self.using, (self._bitmap(unit, at),))

    def _mark(self, user_id: UserId, at: date | None) -> Flow[bool]:
        moment = timezone.now() if at is None else at  # one time for all periods
        is_day = not isinstance(moment, datetime) and self.units != ("hour",)
        units = [unit for unit in self.units if unit != "hour" or not is_day]
        reply: int = yield MARK(
            base=self._key(),
            event=self.event,
            id=self._id(user_id),
            is_mapped=int(self.mapped),
            max_number=conf.settings().analytics.max_user_id,
            ttl_ms=ttl_ms(),
            bitmaps=[self._bitmap(unit, moment) for unit in units],
        )
        return check_number(reply, self) == 1

    def _did(self, user_id: UserId, unit: Unit, at: date | None) -> Flow[bool]:
        self._period(unit, at)  # raises for a unit that is not kept
        number = self._id(user_id)
        if self.mapped:
            number = yield Read("HGET", self._key("ids"), number)
            if number is None:
                return False
        bit: int = yield Read("GETBIT", self._key(self._bitmap(unit, at)), number)
        return bit == 1

    def _forget(self, user_id: UserId, bitmaps: Sequence[str]) -> Flow[int]:
        found: int = yield UNMARK(base=self._key(), id=self._id(user_id), is_mapped=int(self.mapped), bitmaps=bitmaps)
        return found

    def _stored(self) -> Flow[list[str]]:
        """Return the names of the stored bitmaps, also of units that this object does not keep."""
        return (yield from stored_periods(self._index()))

    def _delete(self) -> Flow[bool]:
        names = yield from self._stored()
        bitmaps = [Command("UNLINK", *map(self._key, chunk), retry=True) for chunk in chunks(names, CHUNK)]
        deleted: list[int] = (yield Batch(bitmaps)) if bitmaps else []
        # The index comes last: an error before it leaves it for the next call.
        yield Command("ZREM", self._key("ev"), self.event, retry=True)
        yield Command("UNLINK", self._index(), retry=True)
        return sum(deleted) > 0

    def _key(self, *parts: str) -> str:
        return keys.key(self.component, self.site, *parts)

    def _index(self) -> str:
        return self._key("ev", self.event)

    def _bitmap(self, unit: Unit, at: date | None) -> str:
        return f"ev:{self.event}:{unit}:{periods.label(unit, at)}"

    def _id(self, user_id: UserId) -> str:
        return user_text(user_id, mapped=self.mapped)


def names_read(site: str) -> Command:
    """Return the read of the first `MAX_NAMES` names of a site's events."""
    return Read("ZRANGE", keys.key("analytics", site, "ev"), 0, MAX_NAMES - 1)


def missing_units_flow(site: str, events: Sequence[str]) -> Flow[dict[str, set[Unit]]]:
    """Return the flow that finds which of days, weeks and months each event does not keep, in one command."""
    if not events:
        return {}
    found: list[int] = yield STORED_UNITS(indexes=[keys.key("analytics", site, "ev", event) for event in events])
    units: tuple[Unit, ...] = ("day", "week", "month")
    return {
        event: {unit for unit, is_stored in zip(units, found[3 * index : 3 * index + 3], strict=True) if is_stored == 0}
        for index, event in enumerate(events)
    }


def all_names(site: str) -> Flow[list[str]]:
    """Return the names of all events of a site, in order."""
    key, names = keys.key("analytics", site, "ev"), list[str]()
    while True:
        start = f"({names[-1]}" if names else "-"
        found: list[bytes] = yield Read("ZRANGEBYLEX", key, start, "+", "LIMIT", 0, CHUNK)
        names += [name.decode() for name in found]
        if len(found) < CHUNK:
            return names


def _check_colons(event: str) -> None:
    """Raise ValueError for a name whose keys, or those of its tables of cohorts, could be another event's."""
    if not all(event.split(":")):
        raise ValueError(f"event {event!r}: expected words around each colon, such as 'song:played'.")
    if _PERIOD_END.search(event):
        raise ValueError(f"event {event!r}: it ends like the key of a period, such as 'day:20261123'.")

"""When a periodic task falls due: slots, each a moment in milliseconds since the epoch.

An interval is counted from the epoch, so that every process, today or after a restart, means the same
slots. A cron expression is read on the clock of a time zone; where that clock jumps, the rule is that of
Debian's cron:

* An expression whose minute or hour begins with ``*`` follows the clock as it is read: what the clock skips
  does not happen, what it shows twice happens twice.
* Any other names times of the day, and each happens once: a skipped one at the moment of the jump, a
  doubled one the first time.

`cronsim` parses and searches, in readings of a clock without a zone; what the zone makes of them is here.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta, tzinfo
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from django.utils import timezone

from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.schedules import cron_expression as expressions

#: The shortest interval, in milliseconds.
LEAST_MS = 1_000
#: Seconds in a day: no clock is changed twice in one.
_DAY_S = 86_400
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a reading of a clock, not a moment


class Slots(Protocol):
    """The slots of a schedule."""

    @property
    def text(self) -> str:
        """What they are, for people; different slots have different texts."""

    def following(self, after_ms: int) -> int | None:
        """The first slot after a moment, or None."""

    def latest(self, after_ms: int, until_ms: int) -> int | None:
        """The last slot after one moment and not after another, or None."""


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """Every so many milliseconds since the epoch."""

    every_ms: int

    @classmethod
    def of(cls, value: Seconds) -> Interval:
        """Raises InvalidTask for what is no duration of at least a second."""
        try:
            every_ms = to_ms(value, "every")
        except (TypeError, ValueError) as exc:
            raise InvalidTask(str(exc)) from None
        if every_ms < LEAST_MS:
            raise InvalidTask(f"every={value!r}: expected at least a second; durations are in seconds.")
        return cls(every_ms)

    @property
    def text(self) -> str:
        """``every 300 s``."""
        return f"every {f'{self.every_ms / 1_000:.3f}'.rstrip('0').rstrip('.')} s"

    def following(self, after_ms: int) -> int | None:
        """See `Slots`."""
        return (after_ms // self.every_ms + 1) * self.every_ms

    def latest(self, after_ms: int, until_ms: int) -> int | None:
        """See `Slots`."""
        slot_ms = until_ms // self.every_ms * self.every_ms
        return slot_ms if slot_ms > after_ms else None


@dataclasses.dataclass(frozen=True, slots=True)
class CronTimes:
    """The times of a cron expression on the clock of a zone; None is Django's TIME_ZONE."""

    expression: str
    zone: ZoneInfo | None = None

    @classmethod
    def of(cls, expression: Any, tz: Any) -> CronTimes:
        """Raises InvalidTask for an expression or a zone that is not accepted; the text says what is."""
        expressions.check_expression(expression)
        return cls(" ".join(expression.split()), None if tz is None else expressions.zone_of(tz))

    @property
    def text(self) -> str:
        """``cron 0 3 * * * (Europe/Berlin)``."""
        return f"cron {self.expression} ({self._zone()})"

    def following(self, after_ms: int) -> int | None:
        """See `Slots`."""
        clock = Clock(self._zone())
        fields = expressions.fields_of(self.expression)
        minute, hour, *_ = fields.split()
        search = _as_read if "*" in (minute[0], hour[0]) else _once_a_day
        slot_s = search(fields, clock, after_ms // 1_000)
        return None if slot_s is None else slot_s * 1_000

    def latest(self, after_ms: int, until_ms: int) -> int | None:
        """See `Slots`: a search between two moments, for there may be a month of slots."""
        slot_ms = self.following(after_ms)
        if slot_ms is None or slot_ms > until_ms:
            return None
        too_late_ms = until_ms
        while too_late_ms - slot_ms > 1_000:
            middle_ms = (slot_ms + too_late_ms) // 2
            found_ms = self.following(middle_ms)
            if found_ms is None or found_ms > until_ms:
                too_late_ms = middle_ms
            else:
                slot_ms = found_ms
        return slot_ms

    def _zone(self) -> tzinfo:
        return self.zone or timezone.get_default_timezone()


class Clock:
    """A zone's clock: moments in seconds since the epoch to readings, which are datetimes without a zone, and back."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def offset_s(self, at_s: int) -> int:
        """How far the clock is ahead of UTC at a moment."""
        offset = datetime.fromtimestamp(at_s, self._zone).utcoffset()
        return round(offset.total_seconds()) if offset else 0

    def change_s(self, from_s: int, to_s: int) -> int | None:
        """The first moment after one and not after another at which the offset is another; None if it stays."""
        offset_s = self.offset_s(from_s)
        while from_s < to_s:
            next_s = min(from_s + _DAY_S, to_s)
            if self.offset_s(next_s) != offset_s:
                return self._bisected(from_s, next_s, offset_s)
            from_s = next_s
        return None

    def first_s(self, reading: datetime) -> int:
        """The first moment at which the clock shows this; the moment of the jump if it skips it."""
        before_s, after_s = (round(reading.replace(tzinfo=self._zone, fold=fold).timestamp()) for fold in (0, 1))
        if after_s >= before_s:
            return before_s
        # Skipped. The offset before the jump leads to a moment after it, the one after the jump to one before it.
        return self._bisected(after_s, before_s, self.offset_s(after_s))

    def _bisected(self, before_s: int, after_s: int, offset_s: int) -> int:
        while after_s - before_s > 1:
            middle_s = (before_s + after_s) // 2
            if self.offset_s(middle_s) == offset_s:
                before_s = middle_s
            else:
                after_s = middle_s
        return after_s


def _as_read(fields: str, clock: Clock, after_s: int) -> int | None:
    """The next slot of an expression that follows the clock as it is read."""
    from_s, start_s, offset_s = after_s, after_s, clock.offset_s(after_s)
    while True:
        reading = next(expressions.search(fields, _reading(start_s, offset_s)), None)
        if reading is None:
            return None
        slot_s = _seconds(reading) - offset_s
        change_s = clock.change_s(from_s, slot_s)
        if change_s is None:
            return slot_s
        # The clock is changed before it gets there: search again from what it shows then.
        from_s, start_s, offset_s = change_s, change_s - 1, clock.offset_s(change_s)


def _once_a_day(fields: str, clock: Clock, after_s: int) -> int | None:
    """The next slot of an expression that names times of the day."""
    for reading in expressions.search(fields, _reading(after_s, clock.offset_s(after_s))):
        slot_s = clock.first_s(reading)
        if slot_s > after_s:  # else it is shown for the second time, or was skipped
            return slot_s
    return None


def _reading(at_s: int, offset_s: int) -> datetime:
    return _EPOCH + timedelta(seconds=at_s + offset_s)


def _seconds(reading: datetime) -> int:
    return round((reading - _EPOCH).total_seconds())

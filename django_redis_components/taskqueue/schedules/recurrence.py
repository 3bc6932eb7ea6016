"""The due times of periodic tasks, in milliseconds since the epoch.

Intervals are counted from the epoch, so that all processes compute the same due times. A cron expression applies to the
local time of a zone; at clock changes it follows the rule of Debian's cron:

* An expression whose minute or hour starts with ``*`` follows the local time: skipped times do not run, repeated times
  run twice.
* Any other expression names times of the day, and each runs once: a skipped one at the clock change, a repeated one
  the first time.

`cronsim` parses expressions and searches in naive local times; this module converts them by the zone.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from django.utils import timezone

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.options import check_moment, when
from django_redis_components.taskqueue.schedules import cron_expression

#: Minimum interval in milliseconds.
MIN_INTERVAL_MS = 1_000
#: Seconds in a day. No zone has two clock changes in one.
_DAY_S = 86_400
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a naive local time
_UTC_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Recurrence(Protocol):
    """The due times of a schedule."""

    @property
    def text(self) -> str:
        """A readable description; different due times have different descriptions."""

    def following(self, after_ms: int) -> int | None:
        """Return the first due time after a time, or None."""

    def latest(self, after_ms: int, until_ms: int) -> int | None:
        """Return the last due time after `after_ms` and not after `until_ms`, or None."""


@dataclasses.dataclass(frozen=True, slots=True)
class FixedInterval:
    """Recurrence at a fixed interval, counted from the epoch."""

    every_ms: int

    @classmethod
    def of(cls, value: Seconds) -> FixedInterval:
        """Raise InvalidTask unless it is a duration of at least a second."""
        try:
            every_ms = to_ms(value, "every")
        except (TypeError, ValueError) as exc:
            raise InvalidTask(str(exc)) from None
        if every_ms < MIN_INTERVAL_MS:
            raise InvalidTask(f"every={short_repr(value)}: expected at least a second; durations are in seconds.")
        return cls(every_ms)

    @property
    def text(self) -> str:
        """``every 300 s``."""
        return f"every {f'{self.every_ms / 1_000:.3f}'.rstrip('0').rstrip('.')} s"

    def following(self, after_ms: int) -> int | None:
        """See `Recurrence`."""
        return (after_ms // self.every_ms + 1) * self.every_ms

    def latest(self, after_ms: int, until_ms: int) -> int | None:
        """See `Recurrence`."""
        due_ms = until_ms // self.every_ms * self.every_ms
        return due_ms if due_ms > after_ms else None


@dataclasses.dataclass(frozen=True, slots=True)
class CronTimes:
    """The due times of a cron expression in the local time of a zone; None is Django's TIME_ZONE."""

    expression: str
    zone: ZoneInfo | None = None

    @classmethod
    def of(cls, expression: Any, tz: Any, *, is_stored: bool = False) -> CronTimes:
        """Return the times of an expression.

        Args:
            is_stored: whether an earlier release may have accepted it: it accepted larger steps.

        Raises:
            InvalidTask: the expression or the zone is invalid.
        """
        cron_expression.check_expression(expression)
        if not is_stored:
            cron_expression.check_steps(expression)
        return cls(" ".join(expression.split()), None if tz is None else cron_expression.zone_of(tz))

    @property
    def text(self) -> str:
        """``cron 0 3 * * * (Europe/Berlin)``."""
        return f"cron {self.expression} ({self._zone()})"

    def following(self, after_ms: int) -> int | None:
        """See `Recurrence`."""
        clock = Clock(self._zone())
        fields = cron_expression.fields_of(self.expression)
        minute, hour, *_ = fields.split()
        search = _following_local_time if "*" in (minute[0], hour[0]) else _at_times_of_day
        due_s = search(fields, clock, after_ms // 1_000)
        return None if due_s is None else due_s * 1_000

    def latest(self, after_ms: int, until_ms: int) -> int | None:
        """See `Recurrence`. A binary search: the range may contain a month of due times."""
        due_ms = self.following(after_ms)
        if due_ms is None or due_ms > until_ms:
            return None
        too_late_ms = until_ms
        while too_late_ms - due_ms > 1_000:
            middle_ms = (due_ms + too_late_ms) // 2
            found_ms = self.following(middle_ms)
            if found_ms is None or found_ms > until_ms:
                too_late_ms = middle_ms
            else:
                due_ms = found_ms
        return due_ms

    def _zone(self) -> tzinfo:
        return self.zone or timezone.get_default_timezone()


@dataclasses.dataclass(frozen=True, slots=True)
class OneTime:
    """One due time."""

    at_ms: int

    @property
    def text(self) -> str:
        """``at 2026-11-26T15:00:00.000+00:00``."""
        return f"at {encode_moment(self.at_ms)}"

    def following(self, after_ms: int) -> int | None:
        """See `Recurrence`."""
        return self.at_ms if self.at_ms > after_ms else None

    def latest(self, after_ms: int, until_ms: int) -> int | None:
        """See `Recurrence`."""
        return self.at_ms if after_ms < self.at_ms <= until_ms else None


def moment_ms(value: Any, what: str) -> int:
    """Return a datetime in milliseconds since the epoch, rounded up.

    Raises:
        TypeError, ValueError: it is not a datetime, is naive while USE_TZ is on, or too late.
    """
    if not isinstance(value, datetime):
        raise TypeError(f"{what}={short_repr(value)}: expected a datetime.")
    check_moment(value, what)
    return int(when(value, what))


def encode_moment(ms: int) -> str:
    """Return milliseconds since the epoch as text: ``2026-11-26T15:00:00.000+00:00``."""
    return (_UTC_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")


def parse_moment(text: Any, what: str) -> datetime:
    """Return the datetime of a text with a UTC offset.

    Raises:
        ValueError: it is not such a text.
    """
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"{what}={short_repr(text)}: expected a time such as '2026-11-26T15:00:00+00:00'.")
    return moment


class Clock:
    """Converts between seconds since the epoch and naive local times of a zone."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def offset_s(self, at_s: int) -> int:
        """Return the UTC offset at a time."""
        offset = datetime.fromtimestamp(at_s, self._zone).utcoffset()
        return round(offset.total_seconds()) if offset else 0

    def change_s(self, from_s: int, to_s: int) -> int | None:
        """Return the time of the first clock change after `from_s` and not after `to_s`, or None."""
        offset_s = self.offset_s(from_s)
        while from_s < to_s:
            next_s = min(from_s + _DAY_S, to_s)
            if self.offset_s(next_s) != offset_s:
                return self._bisect(from_s, next_s, offset_s)
            from_s = next_s
        return None

    def first_s(self, local_time: datetime) -> int:
        """Return the first time with this local time; if it is skipped, the time of the clock change."""
        before_s, after_s = (round(local_time.replace(tzinfo=self._zone, fold=fold).timestamp()) for fold in (0, 1))
        if after_s >= before_s:
            return before_s
        # Skipped: the offset before the change gives a time after it, the offset after the change one before it.
        return self._bisect(after_s, before_s, self.offset_s(after_s))

    def _bisect(self, before_s: int, after_s: int, offset_s: int) -> int:
        while after_s - before_s > 1:
            middle_s = (before_s + after_s) // 2
            if self.offset_s(middle_s) == offset_s:
                before_s = middle_s
            else:
                after_s = middle_s
        return after_s


def _following_local_time(fields: str, clock: Clock, after_s: int) -> int | None:
    """Return the next due time of an expression that follows the local time."""
    from_s, start_s, offset_s = after_s, after_s, clock.offset_s(after_s)
    while True:
        local_time = next(cron_expression.search(fields, _local_time(start_s, offset_s)), None)
        if local_time is None:
            return None
        due_s = _seconds(local_time) - offset_s
        change_s = clock.change_s(from_s, due_s)
        if change_s is None:
            return due_s
        # The clock changes before this due time: search again from the local time after the change.
        from_s, start_s, offset_s = change_s, change_s - 1, clock.offset_s(change_s)


def _at_times_of_day(fields: str, clock: Clock, after_s: int) -> int | None:
    """Return the next due time of an expression that names times of the day."""
    for local_time in cron_expression.search(fields, _local_time(after_s, clock.offset_s(after_s))):
        due_s = clock.first_s(local_time)
        if due_s > after_s:  # otherwise it is a repeated or skipped local time
            return due_s
    return None


def _local_time(at_s: int, offset_s: int) -> datetime:
    return _EPOCH + timedelta(seconds=at_s + offset_s)


def _seconds(local_time: datetime) -> int:
    return round((local_time - _EPOCH).total_seconds())

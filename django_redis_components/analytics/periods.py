"""Hours, days, ISO weeks and months of the local time, as they appear in keys. Without Redis."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Literal

from django.utils import timezone

from django_redis_components.analytics.dates import MAX_RANGE_DAYS, local_date, stamp

#: Length of a period.
Unit = Literal["hour", "day", "week", "month"]


def start_of(unit: Unit, at: date | None = None) -> date:
    """Return the first day, or the hour, of the period of a time.

    Args:
        at: a date, a datetime, or None for now; see `local_date`. An hour needs a datetime or None.

    Raises:
        TypeError: the type is not accepted.
    """
    if unit == "hour":
        return _hour(at)
    day = local_date(at)
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if unit == "month" else day


def label(unit: Unit, at: date | None = None) -> str:
    """Return the period of a time as it appears in keys: 2026112314, 20261123, 2026W48 or 202611."""
    start = start_of(unit, at)
    return _LABELS[unit](start)


def following(unit: Unit, start: date, count: int = 1) -> date:
    """Return the start of a later period; of an earlier one if `count` is negative."""
    if unit == "month":
        months = start.year * 12 + start.month - 1 + count
        return date(months // 12, months % 12 + 1, 1)
    return start + count * {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}[unit]


def starts(unit: Unit, start: date, end: date | None) -> list[date]:
    """Return the starts of the periods from that of `start` to that of `end`, both included.

    Raises:
        ValueError: `end` is before `start`, or there are more than 400.
    """
    first = start_of(unit, start)
    last = first if end is None else start_of(unit, end)
    if last < first:
        raise ValueError(f"end={end} is before start={start}.")
    found = [first]
    while found[-1] < last:
        if len(found) == MAX_RANGE_DAYS:
            raise ValueError(f"{start} to {end} has more than {MAX_RANGE_DAYS} periods of one {unit}.")
        found.append(following(unit, found[-1]))
    return found


def _hour(at: date | None) -> datetime:
    if at is None:
        at = timezone.now()
    if not isinstance(at, datetime):
        raise TypeError(f"at={at!r}: expected a datetime or None, for an hour.")
    local = timezone.localtime(at).replace(tzinfo=None) if timezone.is_aware(at) else at
    return local.replace(minute=0, second=0, microsecond=0)


def _week_label(start: date) -> str:
    year, week, _ = start.isocalendar()
    return f"{year}W{week:02}"


_LABELS: dict[str, Callable[[date], str]] = {
    "hour": lambda start: f"{start:%Y%m%d%H}",
    "day": stamp,
    "week": _week_label,
    "month": lambda start: f"{start:%Y%m}",
}

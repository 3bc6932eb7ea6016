"""Hours, days, ISO weeks and months of the local time, as they appear in keys. Without Redis."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Literal, TypeVar, cast, get_args

from django.utils import timezone

from django_redis_components.analytics.dates import local_date, local_moment
from django_redis_components.core.arguments import check_choice, check_sequence, short_repr
from django_redis_components.core.day_ranges import MAX_RANGE_DAYS
from django_redis_components.core.keys import day_stamp

#: Length of a period.
Unit = Literal["hour", "day", "week", "month"]
U = TypeVar("U", bound=str)


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
    """Return the start of a later period; of an earlier one if `count` is negative.

    Raises:
        ValueError: it is beyond the calendar.
    """
    try:
        if unit == "month":
            months = start.year * 12 + start.month - 1 + count
            return date(months // 12, months % 12 + 1, 1)
        return start + count * {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}[unit]
    except (ValueError, OverflowError):
        raise ValueError(f"{start}: expected a {unit} from which the calendar has {abs(count)} more.") from None


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


def check_unit(unit: object, accepted: Sequence[str] = get_args(Unit)) -> None:
    """Raise TypeError or ValueError if it is not one of the accepted units."""
    check_choice(unit, "unit", accepted)


def check_units(units: object, accepted: Sequence[U]) -> tuple[U, ...]:
    """Return units, each once and in the order of the accepted ones.

    Raises:
        TypeError: not a list of strings.
        ValueError: there is none, or one is not accepted.
    """
    given = [check_choice(unit, "a unit in units", accepted) for unit in check_sequence(units, "units", "units")]
    if not given:
        raise ValueError(f"units={short_repr(units)}: expected some of {', '.join(map(repr, accepted))}.")
    return tuple(unit for unit in accepted if unit in given)


def cover(days: Sequence[date]) -> list[tuple[Unit, date]]:
    """Return the fewest whole months, weeks and days that cover a range of days, without overlap, in order.

    Args:
        days: the days of the range, in order, without a gap.
    """
    periods: list[tuple[Unit, date]] = []
    index, last = 0, len(days) - 1
    while index <= last:
        day = days[index]
        month_length = _days_in_month(day)
        next_month = index + month_length - day.day + 1
        next_month_is_whole = next_month + 27 <= last
        if day.day == 1 and index + month_length - 1 <= last:
            unit, length = "month", month_length
        elif day.weekday() == 0 and index + 6 <= last and not (next_month_is_whole and index + 7 > next_month):
            unit, length = "week", 7
        else:
            unit, length = "day", 1
        periods.append((cast("Unit", unit), day))
        index += length
    return periods


def days_of(unit: Unit, start: date) -> list[date]:
    """Return the first and the last day of a period that starts there."""
    first = local_date(start)
    if unit == "month":
        return [first, first.replace(day=_days_in_month(first))]
    return [first, first + timedelta(days=min(6, (date.max - first).days)) if unit == "week" else first]


def local_time(moment: float) -> datetime:
    """Return the time of a moment in TIME_ZONE, naive: counters of the site ignore the active time zone.

    Args:
        moment: seconds since the epoch.
    """
    return datetime.fromtimestamp(moment, timezone.get_default_timezone()).replace(tzinfo=None)


def _days_in_month(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _hour(at: date | None) -> datetime:
    if at is None:
        at = timezone.now()
    if not isinstance(at, datetime):
        raise TypeError(f"at={short_repr(at)}: expected a datetime or None, for an hour.")
    return local_moment(at).replace(minute=0, second=0, microsecond=0)


def _week_label(start: date) -> str:
    year, week, _ = start.isocalendar()
    return f"{year}W{week:02}"


_LABELS: dict[str, Callable[[date], str]] = {
    "hour": lambda start: f"{start:%Y%m%d%H}",
    "day": day_stamp,
    "week": _week_label,
    "month": lambda start: f"{start:%Y%m}",
}

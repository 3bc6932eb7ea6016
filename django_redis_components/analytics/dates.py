"""Days: local dates, never seconds divided by 86,400.

A day is a date in the active time zone (``timezone.localdate()``): TIME_ZONE, unless the site activates another one for
the request. A day of 23 or 25 hours is one day.
"""

from __future__ import annotations

from datetime import date, datetime

from django.utils import timezone

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.day_ranges import days_of


def local_date(at: date | None = None, what: str = "at") -> date:
    """Return the local date of a time.

    Args:
        at: a date (then that day), an aware datetime (its date in the active time zone), a naive
            datetime (its own date), or None for now.
        what: the argument's name, for the error.

    Raises:
        TypeError: another type.
        ValueError: the time is beyond the calendar in the active time zone.
    """
    if at is None:
        at = timezone.now()
    if isinstance(at, datetime):
        return local_moment(at, what).date()
    if isinstance(at, date):
        return at
    raise TypeError(f"{what}={short_repr(at)}: expected a date, a datetime or None.")


def local_moment(at: datetime, what: str = "at") -> datetime:
    """Return a time in the active time zone, naive.

    Raises:
        ValueError: it is beyond the calendar there.
    """
    if timezone.is_naive(at):
        return at
    try:
        return timezone.localtime(at).replace(tzinfo=None)
    except OverflowError:
        zone = timezone.get_current_timezone_name()
        raise ValueError(f"{what}={short_repr(at)}: expected a time that the calendar has in {zone}.") from None


def site_date() -> date:
    """Return today's date in TIME_ZONE, regardless of the active time zone. The middleware counts on this day.

    Otherwise a site that activates the time zone of each user would count a visitor on two days.
    """
    now = timezone.now()
    return timezone.localdate(now, timezone.get_default_timezone()) if timezone.is_aware(now) else now.date()


def span(start: date, end: date | None) -> list[date]:
    """Return the days from `start` to `end`, both included.

    Args:
        start: first day.
        end: last day; None: same as `start`.

    Raises:
        ValueError: `end` is before `start`, or the range has more than MAX_RANGE_DAYS.
    """
    first = local_date(start, "start")
    return days_of(first, first if end is None else local_date(end, "end"))

"""The local days of the times in access logs. Without Redis."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from django.core.signals import setting_changed
from django.utils.timezone import get_default_timezone, is_naive

#: Most characters of a time in ISO 8601.
_MAX_TIME_CHARS = 40
#: A time above this number, of seconds in the year 5138, is in a thousandth, a millionth or a billionth of a second.
_MAX_SECONDS = 1e11
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}


def local_day(time: Any) -> date | None:
    """Return the local date of a time.

    Args:
        time: seconds, milliseconds, microseconds or nanoseconds since 1970; ISO 8601, also with slashes, as Caddy's
            "wall"; or that of the common format.
    """
    try:
        if isinstance(time, str) and "/" in time and not time[:4].isdecimal():
            return day_of_common(time)
        if isinstance(time, str) and ("-" in time or "/" in time):
            return _day_of_iso(time.replace("/", "-")) if len(time) <= _MAX_TIME_CHARS else None
        seconds = float(time)
    except (TypeError, ValueError, OverflowError):
        return None
    return _day_of_timestamp(int(_in_seconds(seconds) // 60)) if math.isfinite(seconds) else None


def day_of_common(time: str) -> date | None:
    """Return the local date of "10/Oct/2026:13:55:36 -0700", also with a fraction of the second."""
    return _day_of_minute(time[:17] + time[-5:])  # the same for a minute: no offset of a time zone has seconds


def _in_seconds(number: float) -> float:
    """Return the seconds of a time whose unit follows from its size: seconds of today have ten digits."""
    for divisor in (1e9, 1e6, 1e3):
        if abs(number) >= _MAX_SECONDS * divisor / 1e3:
            return number / divisor
    return number


@lru_cache(4_096)
def _day_of_minute(time: str) -> date | None:
    """Return the local date of "10/Oct/2026:13:55-0700"."""
    try:
        offset = timedelta(hours=int(time[-4:-2]), minutes=int(time[-2:])) * (-1 if time[-5] == "-" else 1)
        parts = (int(time[7:11]), _MONTHS[time[3:6]], int(time[:2]), int(time[12:14]), int(time[15:17]))
        return _local_date(datetime(*parts, tzinfo=timezone(offset)))
    except (ValueError, KeyError, IndexError, OverflowError):
        return None


@lru_cache(4_096)
def _day_of_timestamp(minute: int) -> date | None:
    try:
        return _local_date(datetime.fromtimestamp(minute * 60, UTC))
    except (ValueError, OverflowError, OSError):
        return None


@lru_cache(4_096)
def _day_of_iso(time: str) -> date | None:
    try:
        moment = datetime.fromisoformat(time)
        return moment.date() if is_naive(moment) else _local_date(moment)
    except (ValueError, OverflowError):
        return None


def _local_date(moment: datetime) -> date:
    return moment.astimezone(get_default_timezone()).date()


def _forget_days(*, setting: str, **_: Any) -> None:
    if setting in ("TIME_ZONE", "USE_TZ"):
        for function in (_day_of_minute, _day_of_timestamp, _day_of_iso):
            function.cache_clear()


setting_changed.connect(_forget_days, dispatch_uid="django_redis_components.aggregation.log_times")

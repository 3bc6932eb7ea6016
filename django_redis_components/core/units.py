"""Conversion of public durations, in seconds, to milliseconds; and of stored times to datetimes.

All datetimes of the package follow one rule, that of `django.utils.timezone.now`: aware in UTC with USE_TZ, naive in
TIME_ZONE without.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.utils import timezone

from django_redis_components.core.arguments import is_int, short_repr

#: A public duration: a number of seconds, or a timedelta.
Seconds = int | float | timedelta

#: The longest duration accepted: ten years, in milliseconds. A longer one is most likely in the wrong unit.
MAX_MS = 10 * 366 * 86_400 * 1_000
#: Units of a duration that is typed, in seconds.
UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(rf"(\d{{1,9}})\s?({'|'.join(UNITS_S)})", re.ASCII)


def to_seconds(value: Seconds, what: str, *, zero: bool = False) -> float:
    """Validate a public duration and return it in seconds.

    Args:
        value: seconds, or a timedelta.
        what: the argument's name, for the error.
        zero: whether 0 is accepted.

    Raises:
        TypeError: not a number or timedelta (a bool is not a number of seconds).
        ValueError: negative, zero where `zero` is False, not finite, or above ten years.
    """
    accepted = f"a number of seconds {'of at least 0' if zero else 'above 0'}, or a timedelta"
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif is_int(value) or issubclass(type(value), float):
        seconds = _as_float(value)
    else:
        raise TypeError(f"{what}={short_repr(value)}: expected {accepted}.")
    if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not zero):
        raise ValueError(f"{what}={short_repr(value)}: expected {accepted}.")
    if seconds * 1_000 > MAX_MS:
        raise ValueError(f"{what}={short_repr(value)}: expected at most ten years; durations are in seconds.")
    return seconds


def to_ms(value: Seconds, what: str, *, zero: bool = False) -> int:
    """Validate a public duration and return it in milliseconds, rounded up: never 0 for a duration above 0."""
    seconds = to_seconds(value, what, zero=zero)
    # 2.007 * 1_000 is 2007.0000000000002, which would be rounded up to 2008.
    whole_us = round(seconds * 1_000_000)
    return max(-(-whole_us // 1_000), 1 if seconds else 0)


def parse_duration(text: str) -> int:
    """Return the seconds of a duration that is typed, such as ``90s``, ``15m``, ``1h``, ``2d`` or ``1w``.

    Raises:
        ValueError: it is not a whole number with a unit, 0, or above ten years.
    """
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * UNITS_S[found[2]] if found else 0
    if not 0 < seconds * 1_000 <= MAX_MS:
        raise ValueError(f"{text[:40]!r}: expected a duration such as 90s, 15m, 1h or 2d, at most ten years.")
    return seconds


def from_ms(ms: int) -> float:
    """Return milliseconds as seconds."""
    return ms / 1_000


def moment_of(us: int) -> datetime:
    """Return the datetime of microseconds since the epoch: aware in UTC with USE_TZ, else naive in TIME_ZONE."""
    moment = datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)
    return moment if settings.USE_TZ else timezone.make_naive(moment, timezone.get_default_timezone())


def moment_of_ms(ms: float | str | bytes) -> datetime:
    """Return the datetime of milliseconds since the epoch, as a number or as Redis returns it; see `moment_of`."""
    return moment_of(int(ms) * 1_000)


def aware(moment: datetime) -> datetime:
    """Return a datetime as an aware one: a naive one is in TIME_ZONE."""
    if timezone.is_aware(moment):
        return moment
    return timezone.make_aware(moment, timezone.get_default_timezone()).astimezone(UTC)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an int beyond 1.8e308
        return math.inf

"""Ranges of days that one call may read."""

from __future__ import annotations

from datetime import date, timedelta

#: Maximum days of one query. Reading 400 HyperLogLogs blocks the server for about 7 ms.
MAX_RANGE_DAYS = 400


def days_of(first: date, last: date) -> list[date]:
    """Return the days from the first to the last, both included.

    Raises:
        ValueError: the last is before the first, or there are more than MAX_RANGE_DAYS.
    """
    length = (last - first).days + 1
    if length < 1:
        raise ValueError(f"end={last} is before start={first}.")
    if length > MAX_RANGE_DAYS:
        raise ValueError(f"{first} to {last} are {length} days: expected at most {MAX_RANGE_DAYS}.")
    return [first + timedelta(days=number) for number in range(length)]

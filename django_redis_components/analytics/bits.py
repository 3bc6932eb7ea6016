"""Bitmaps of days: offsets of days and functions on bits, without Redis.

Bit 0 of a bitmap, the highest bit of its first byte, is EPOCH. A year takes 46 bytes; streaks may cross New Year.
"""

from __future__ import annotations

import calendar
from datetime import date, timedelta

from django_redis_components.core.arguments import check_int

#: The day of bit 0. A change moves every recorded sign-in to another day.
EPOCH = date(2020, 1, 1)
#: The last day with a bit; it bounds a bitmap to 3,653 bytes.
LAST_DAY = date(2099, 12, 31)


def offset_of(day: date, what: str = "at") -> int:
    """Return the offset of a day.

    Args:
        what: the argument's name, for the error.

    Raises:
        ValueError: before EPOCH or after LAST_DAY.
    """
    if not EPOCH <= day <= LAST_DAY:
        raise ValueError(f"{what}={day}: expected a day from {EPOCH} to {LAST_DAY}.")
    return (day - EPOCH).days


def day_of(offset: int) -> date:
    """Return the day of an offset."""
    return EPOCH + timedelta(days=offset)


def window(start: date | None, end: date | None) -> tuple[int, int]:
    """Return the first and last offset of a range of days, clipped to the valid days; last < first if none is left.

    Raises:
        ValueError: `end` is before `start`.
    """
    if start and end and end < start:
        raise ValueError(f"end={end} is before start={start}.")
    first, last = start or EPOCH, end or LAST_DAY
    return (max(first, EPOCH) - EPOCH).days, (min(last, LAST_DAY) - EPOCH).days


def month_bits(year: int, month: int) -> tuple[int, int]:
    """Return the first offset of a month and its number of days.

    Raises:
        TypeError, ValueError: not a month, or before EPOCH or after LAST_DAY.
    """
    first = offset_of(date(_checked(year), check_int(month, "month", 1, 12), 1))
    return first, calendar.monthrange(year, month)[1]


def year_bits(year: int) -> tuple[int, int]:
    """Return the first offset of a year and its number of days.

    Raises:
        TypeError, ValueError: not a year, or before EPOCH or after LAST_DAY.
    """
    return offset_of(date(_checked(year), 1, 1)), 365 + calendar.isleap(year)


def _checked(year: int) -> int:
    return check_int(year, "year", EPOCH.year, LAST_DAY.year)


def text_of(bitmap: bytes | None) -> str:
    """Return the bitmap as text of "0" and "1", first day first."""
    return "".join(f"{byte:08b}" for byte in bitmap or b"")


def days_set(bits: str) -> list[int]:
    """Return the offsets of set bits."""
    return [offset for offset, bit in enumerate(bits) if bit == "1"]


def run_up_to(bits: str, offset: int) -> int:
    """Return the length of the run of set bits that ends at `offset`."""
    before = bits[: offset + 1].ljust(offset + 1, "0")
    return len(before) - len(before.rstrip("1"))


def longest_run(bits: str) -> int:
    """Return the length of the longest run of set bits."""
    return max(map(len, bits.split("0")))

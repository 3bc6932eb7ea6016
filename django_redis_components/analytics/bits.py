"""Days as bits: the day axis of a user's bitmap, and what is read off it. Nothing here knows Redis.

Bit 0 of the bitmap, the highest of its first byte, is EPOCH. One year takes 46 bytes, and a streak
crosses New Year like any other night.
"""

from __future__ import annotations

import calendar
from datetime import date, timedelta

#: The day of bit 0. Changing it would move every sign-in ever recorded.
EPOCH = date(2020, 1, 1)
#: The last day with a bit: a bitmap has at most 3,653 bytes, whatever date is asked for.
LAST_DAY = date(2099, 12, 31)


def offset_of(day: date) -> int:
    """The bit of a day.

    Raises:
        ValueError: before EPOCH or after LAST_DAY.
    """
    if not EPOCH <= day <= LAST_DAY:
        raise ValueError(f"day={day}: expected a day from {EPOCH} to {LAST_DAY}.")
    return (day - EPOCH).days


def day_of(offset: int) -> date:
    """The day of a bit."""
    return EPOCH + timedelta(days=offset)


def window(start: date | None, end: date | None) -> tuple[int, int]:
    """The first and the last bit of a range of days, cut to the axis; the last is the smaller one if none is left.

    Raises:
        ValueError: `end` is before `start`.
    """
    first, last = start or EPOCH, end or LAST_DAY
    if last < first:
        raise ValueError(f"end={last} is before start={first}.")
    return (max(first, EPOCH) - EPOCH).days, (min(last, LAST_DAY) - EPOCH).days


def month_bits(year: int, month: int) -> tuple[int, int]:
    """The first bit of a month and how many days it has.

    Raises:
        ValueError: no such month, or off the axis.
    """
    first = offset_of(date(year, month, 1))
    return first, calendar.monthrange(year, month)[1]


def text_of(bitmap: bytes | None) -> str:
    """The bitmap as a text of "0" and "1", first day first."""
    return "".join(f"{byte:08b}" for byte in bitmap or b"")


def days_set(bits: str) -> list[int]:
    """The offsets that are set."""
    return [offset for offset, bit in enumerate(bits) if bit == "1"]


def run_up_to(bits: str, offset: int) -> int:
    """The length of the run of set bits that ends at `offset`."""
    before = bits[: offset + 1].ljust(offset + 1, "0")
    return len(before) - len(before.rstrip("1"))


def longest_run(bits: str) -> int:
    """The length of the longest run of set bits."""
    return max(map(len, bits.split("0")))

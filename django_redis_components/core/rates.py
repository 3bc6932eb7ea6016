"""Rates in words: so many in a time.

parse_rate("5/m")    parse_rate("100/h")    parse_rate("3/2h")    parse_rate((5, timedelta(minutes=2)))
"""

from __future__ import annotations

import dataclasses
import re
from datetime import timedelta
from typing import Any

from django_redis_components.core.units import Seconds, to_seconds

#: What a rate may be: words, or a count and a time.
RateLike = str | tuple[int, Seconds]

#: Most that a rate may count.
MAX_COUNT = 1_000_000
#: Seconds in the units of a rate.
UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3_600, "hour": 3_600}
UNITS |= {"d": 86_400, "day": 86_400}

_WORDS = re.compile(r"([0-9]+)\s*/\s*([1-9][0-9]*|)\s*([a-z]+)")
_ACCEPTED = "expected a count and a unit, as '10/s', '10/m', '100/h', '3/2h' or '1000/d', or (count, seconds)"


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """So many in a time.

    Attributes:
        limit: how many.
        period_us: in how many microseconds.
    """

    limit: int
    period_us: int

    def __str__(self) -> str:
        """In the shortest words: "5/m", "3/2h", "10/1.5s"."""
        for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60)):
            count, rest = divmod(self.period_us, seconds * 1_000_000)
            if not rest:
                return f"{self.limit}/{count if count > 1 else ''}{unit}"
        whole = self.period_us == 1_000_000
        return f"{self.limit}/{'' if whole else f'{self.period_us / 1_000_000:.15g}'}s"


def parse_rate(value: Any, what: str = "rate") -> Rate:
    """What a rate says.

    Args:
        value: "10/s", "5/m", "100/h", "3/2h", "1000/d", or (count, seconds or timedelta).
        what: the argument's name, for the error.

    Raises:
        TypeError: neither words nor a pair, or its count is not a whole number.
        ValueError: not these words; nothing, or too much, is counted; a time that is not accepted.
    """
    if isinstance(value, str):
        found = _WORDS.fullmatch(value.strip())
        if found is None or found[3] not in UNITS:
            raise ValueError(f"{what}={value!r}: {_ACCEPTED}.")
        count, times = int(found[1]), found[2]
        seconds: Seconds = UNITS[found[3]] * (int(times) if times else 1)
    elif isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], int | float | timedelta):
        count, seconds = value
    else:
        raise TypeError(f"{what}={value!r}: {_ACCEPTED}.")
    _check_count(f"the count of {what}", count)
    period = to_seconds(seconds, f"{what}[1]")
    return Rate(count, max(1, round(period * 1_000_000)))


def _check_count(what: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what}={value!r}: expected a whole number from 1 to {MAX_COUNT}.")
    if not 1 <= value <= MAX_COUNT:
        raise ValueError(f"{what}={value!r}: expected a whole number from 1 to {MAX_COUNT}.")

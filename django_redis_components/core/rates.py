"""Rates: a number of requests per period.

parse_rate("5/m")    parse_rate("100/h")    parse_rate("3/2h")    parse_rate((5, timedelta(minutes=2)))
"""

from __future__ import annotations

import dataclasses
import re
from datetime import timedelta
from typing import Any

from django_redis_components.core.arguments import check_int, short_repr
from django_redis_components.core.units import Seconds, to_seconds

#: A rate: text, or a count and a period.
RateLike = str | tuple[int, Seconds]

#: The highest limit of a rate.
MAX_COUNT = 1_000_000
#: Seconds of each unit.
UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3_600, "hour": 3_600}
UNITS |= {"d": 86_400, "day": 86_400}

_PATTERN = re.compile(r"([0-9]+)\s*/\s*([1-9][0-9]*|)\s*([a-z]+)")
_ACCEPTED = "expected a count and a unit, as '10/s', '10/m', '100/h', '3/2h' or '1000/d', or (count, seconds)"


@dataclasses.dataclass(frozen=True, slots=True)
class ParsedRate:
    """A limit per period.

    Attributes:
        limit: the number of requests.
        period_us: the period in microseconds.
    """

    limit: int
    period_us: int

    def __str__(self) -> str:
        """Return the shortest text: "5/m", "3/2h", "10/1.5s"."""
        for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60)):
            count, rest = divmod(self.period_us, seconds * 1_000_000)
            if not rest:
                return f"{self.limit}/{count if count > 1 else ''}{unit}"
        whole = self.period_us == 1_000_000
        return f"{self.limit}/{'' if whole else f'{self.period_us / 1_000_000:.15g}'}s"


def parse_rate(value: Any) -> ParsedRate:
    """Parse a rate.

    Args:
        value: "10/s", "5/m", "100/h", "3/2h", "1000/d", or (count, seconds or timedelta).

    Raises:
        TypeError: neither a string nor a pair, or the count is not an integer.
        ValueError: the text is not understood, or the count or the period is out of range.
    """
    if isinstance(value, str):
        found = _PATTERN.fullmatch(value.strip())
        if found is None or found[3] not in UNITS:
            raise ValueError(f"rate={short_repr(value)}: {_ACCEPTED}.")
        count, times = int(found[1]), found[2]
        seconds: Seconds = UNITS[found[3]] * (int(times) if times else 1)
    elif isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], int | float | timedelta):
        count, seconds = value
    else:
        raise TypeError(f"rate={short_repr(value)}: {_ACCEPTED}.")
    count = check_int(count, "the count of rate", 1, MAX_COUNT)
    period = to_seconds(seconds, "rate[1]")
    return ParsedRate(count, max(1, round(period * 1_000_000)))

"""Durations that differ a little, so that what was written together does not end together."""

from __future__ import annotations

import random

from django_redis_components.core.keys import digest
from django_redis_components.core.units import Seconds, to_seconds


def jitter(seconds: Seconds, spread: float = 0.1, *, key: str | None = None) -> float:
    """A duration between ``seconds * (1 - spread)`` and ``seconds``, in seconds. Never longer than asked for.

    Args:
        seconds: the longest.
        spread: the share by which it may be shorter, from 0 to below 1.
        key: the same key always gets the same duration; None draws one.

    Raises:
        TypeError, ValueError: an argument is not of its kind.
    """
    return shortened(to_seconds(seconds, "seconds"), checked_spread(spread), key)


def shortened(seconds: float, spread: float, key: str | None = None) -> float:
    """`jitter` of what was checked already."""
    share = random.random() if key is None else int(digest(key)[:13], 16) / 16**13
    return seconds * (1 - spread * share)


def checked_spread(spread: object) -> float:
    """The spread, if it is one.

    Raises:
        TypeError: it is not a number.
        ValueError: it is below 0, or 1 and above.
    """
    if not isinstance(spread, int | float) or isinstance(spread, bool):
        raise TypeError(f"spread={spread!r}: expected a number from 0 to below 1.")
    if not 0 <= spread < 1:
        raise ValueError(f"spread={spread!r}: expected a number from 0 to below 1.")
    return float(spread)

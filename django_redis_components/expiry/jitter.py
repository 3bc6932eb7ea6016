"""Jittered durations, so that values written together do not expire together."""

from __future__ import annotations

import random

from django_redis_components.core.arguments import check_number
from django_redis_components.core.keys import digest
from django_redis_components.core.units import Seconds, to_seconds


def jitter(seconds: Seconds, spread: float = 0.1, *, key: str | None = None) -> float:
    """Return a random duration between ``seconds * (1 - spread)`` and ``seconds``, in seconds.

    Args:
        seconds: the maximum.
        spread: the share by which it may be shortened, from 0 to below 1.
        key: the same key always gets the same duration; None draws a random one.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    return shorten(to_seconds(seconds, "seconds"), check_spread(spread), key)


def shorten(seconds: float, spread: float, key: str | None = None) -> float:
    """Return the jittered duration; the arguments are checked already."""
    share = random.random() if key is None else int(digest(key)[:13], 16) / 16**13
    return seconds * (1 - spread * share)


def check_spread(spread: object) -> float:
    """Return the spread if it is valid.

    Raises:
        TypeError: it is not a number.
        ValueError: it is below 0, or at least 1.
    """
    return check_number(spread, "spread", 0, below=1)

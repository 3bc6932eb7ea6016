"""Child processes of the race test."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from django_redis_components.ratelimits import RateLimit, scripts
from django_redis_components.ratelimits.algorithms import ALGORITHMS

#: Times of allowed hits, in seconds: before the call and after it.
Hits = list[tuple[float, float]]


def hit(limit: int, period_s: float, times: int, broken: bool) -> list[Hits]:
    """Hit each algorithm's limit this many times, without denials if `broken`. Return when hits were allowed."""
    if broken:
        _disable_denials()
    limits = [RateLimit("race", (limit, period_s), algorithm=name, deny_cache=False) for name in ALGORITHMS]
    for each in limits:
        each.hit(f"warm-up of {os.getpid()}")
    return [list(_allowed(each, times)) for each in limits]


def _allowed(limit: RateLimit, times: int) -> Iterator[tuple[float, float]]:
    for _ in range(times):
        requested_at = time.time()
        decision = limit.hit("all")
        if decision.is_allowed and decision.is_checked:  # a process that the server keeps waiting counts for itself
            yield requested_at, time.time()


def _disable_denials() -> None:
    """Allow every second hit that would be denied."""
    for name in ALGORITHMS:
        script = getattr(scripts, name.upper())
        assert script.source.count("allowed = false") == 1
        vars(script)["source"] = script.source.replace("allowed = false", "allowed = now_us % 2 == 0")

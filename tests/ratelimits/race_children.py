"""Child processes of the race test."""

from __future__ import annotations

import json
import os
import time

from django_redis_components.ratelimits import RateLimit, scripts
from django_redis_components.ratelimits.algorithms import ALGORITHMS


def hit(limit: int, period_s: float, times: int, broken: bool = False) -> None:
    """Hit each algorithm's limit this many times; print when hits were allowed: seconds before and after the call."""
    if broken:
        _disable_denials()
    limits = [RateLimit("race", (limit, period_s), algorithm=name, deny_cache=False) for name in ALGORITHMS]
    for each in limits:
        each.hit(f"warm-up of {os.getpid()}")
    print("ready", flush=True)
    allowed: list[list[tuple[float, float]]] = []
    for each in limits:
        allowed.append([])
        for _ in range(times):
            requested_at = time.time()
            if each.hit("all"):
                allowed[-1].append((requested_at, time.time()))
    print(json.dumps(allowed), flush=True)


def _disable_denials() -> None:
    """Allow every second hit that would be denied."""
    for name in ALGORITHMS:
        script = getattr(scripts, name.upper())
        assert script.source.count("allowed = false") == 1
        vars(script)["source"] = script.source.replace("allowed = false", "allowed = now_us % 2 == 0")

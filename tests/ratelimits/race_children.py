"""Child processes of the race test."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from typing import Any

from django_redis_components.ratelimits import RateLimit, scripts
from django_redis_components.ratelimits.algorithms import ALGORITHMS

#: Times of allowed hits, in seconds: before the call and after it.
Hits = list[tuple[float, float]]

#: Reached by each process when its connection is open.
_all_ready: Any = None


def run_processes(processes: int, limit: int, period_s: float, hits: int, broken: bool) -> list[list[Hits]]:
    """Hit each algorithm's limit this many times in each process, all at once.

    Args:
        broken: whether denials are disabled.

    Returns:
        For each process and algorithm, when hits were allowed.
    """
    if broken:
        _disable_denials()
    fork = multiprocessing.get_context("fork")
    with fork.Pool(processes, _set_barrier, (fork.Barrier(processes),)) as pool:
        return pool.starmap(_hit, [(limit, period_s, hits)] * processes, chunksize=1)


def _set_barrier(barrier: Any) -> None:
    global _all_ready
    _all_ready = barrier


def _hit(limit: int, period_s: float, times: int) -> list[Hits]:
    limits = [RateLimit("race", (limit, period_s), algorithm=name, deny_cache=False) for name in ALGORITHMS]
    for each in limits:
        each.hit(f"warm-up of {os.getpid()}")
    _all_ready.wait(60)
    return [list(_allowed(each, times)) for each in limits]


def _allowed(limit: RateLimit, times: int) -> Iterator[tuple[float, float]]:
    for _ in range(times):
        requested_at = time.time()
        if limit.hit("all"):
            yield requested_at, time.time()


def _disable_denials() -> None:
    """Allow every second hit that would be denied."""
    for name in ALGORITHMS:
        script = getattr(scripts, name.upper())
        assert script.source.count("allowed = false") == 1
        vars(script)["source"] = script.source.replace("allowed = false", "allowed = now_us % 2 == 0")

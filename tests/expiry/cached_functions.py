"""Cached functions for child processes of the tests."""

from __future__ import annotations

import os
import signal
import threading
import time

import redis
from django.conf import settings

from django_redis_components.expiry import cached


def count(what: str) -> int:
    """Increment a counter that all processes share."""
    entries = settings.REDIS_COMPONENTS
    with redis.Redis.from_url(entries["CONNECTIONS"]["default"]["URL"]) as raw:
        return int(raw.incr(f"{entries['PREFIX']}:count:{what}"))


@cached("report:{year}", ttl=60, early=False, on_error="raise")
def report(year: int) -> dict[str, int]:
    """Slow enough that concurrent callers call during the computation."""
    count("computed")
    time.sleep(0.05)
    return {"year": year}


def call_concurrently(threads: int, year: int) -> list[int]:
    """Return the results of this many threads."""
    barrier = threading.Barrier(threads)
    results = []

    def call() -> None:
        barrier.wait()
        results.append(report(year)["year"])

    started = [threading.Thread(target=call) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return results


@cached("doomed", ttl=60, early=False, lease=0.5)
def doomed() -> str:
    """The first caller dies while it computes."""
    if count("doomed") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "computed by the next"

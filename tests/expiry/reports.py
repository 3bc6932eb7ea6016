"""Cached functions for the processes of the tests."""

from __future__ import annotations

import os
import signal
import threading
import time

import redis
from django.conf import settings

from django_redis_components.expiry import cached


def count(what: str) -> int:
    """One more of these, over all processes."""
    entries = settings.REDIS_COMPONENTS
    with redis.Redis.from_url(entries["CONNECTIONS"]["default"]["URL"]) as raw:
        return int(raw.incr(f"{entries['PREFIX']}:count:{what}"))


@cached("report:{year}", timeout=60, early=False)
def report(year: int) -> dict[str, int]:
    """Slow enough that all who ask at once ask while it is computed."""
    count("computed")
    time.sleep(0.05)
    return {"year": year}


def ask_together(threads: int, year: int) -> list[int]:
    """The answers of so many threads."""
    barrier = threading.Barrier(threads)
    answers = []

    def ask() -> None:
        barrier.wait()
        answers.append(report(year)["year"])

    started = [threading.Thread(target=ask) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return answers


@cached("doomed", timeout=60, early=False, lease=0.5)
def doomed() -> str:
    """Its first computer dies."""
    if count("doomed") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "computed by the next"

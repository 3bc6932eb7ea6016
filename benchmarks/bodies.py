"""The same tasks for every queue: a no-op, a marker, and one that records its lateness."""

from __future__ import annotations

import functools
import os
import time

import redis

#: The server as the queue under test sees it; with added round-trip time it is a proxy's.
URL = os.environ.get("BENCH_REDIS_URL", "redis://127.0.0.1:6379/0")
#: The server itself: where marks and times are noted.
NOTES_URL = os.environ.get("BENCH_NOTES_URL", URL)


def noop(number: int) -> int:
    """Return the number."""
    return number


async def anoop(number: int) -> int:
    """Return the number."""
    return number


def mark(name: str) -> None:
    """Note when this ran, in seconds since the epoch."""
    started_at = time.time()
    notes().set(f"bench:{name}", repr(started_at))


def late(since: float) -> None:
    """Note how many seconds after `since` (seconds since the epoch) this body started."""
    started_at = time.time()
    notes().rpush("bench:late", repr(started_at - since))


def nap(seconds: float) -> None:
    """Take some time."""
    time.sleep(seconds)


@functools.cache
def notes() -> redis.Redis:
    """Where notes are written; one client for a process, made with its first note."""
    return redis.Redis.from_url(NOTES_URL)

"""Semaphores beside self-limiters: what a free permit costs.

    python -m benchmarks.semaphores [--rounds 40] [--calls 300]

One thread or one task, in interleaved rounds: median microseconds for acquire and release, and the ratio to
self-limiters, which has an asyncio side only and takes part when it is installed. ``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from benchmarks.environment import server_url
from benchmarks.locks import Timed, pairs, set_up

#: What all rows are compared with, where it is installed.
PEER = "self-limiters, async"
#: Permits of each semaphore.
LIMIT = 5


def main() -> None:
    """Run the rounds and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="interleaved rounds (default: 40)")
    parser.add_argument("--calls", type=int, default=300, help="pairs of each row in a round (default: 300)")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """All rows in turn, round after round."""
    set_up(url)
    table = ours() | self_limiters(url)
    for timed in table.values():
        timed(10)
    times: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(options.rounds):
        for name, timed in table.items():
            times[name].append(timed(options.calls) / options.calls * 1e6)
    base = statistics.median(times[PEER]) if PEER in times else float("nan")
    print(f"acquire and release of a free permit, {options.rounds} rounds of {options.calls}")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:24} median {median:7.1f} us  {median / base:5.2f} x {PEER}   best {min(values):7.1f} us")


def ours() -> dict[str, Timed]:
    """Our rows."""
    from django_redis_components.semaphores import Semaphore

    permit, awaited = Semaphore("bench", LIMIT), Semaphore("bench-async", LIMIT)
    return {"ours": pairs(permit.acquire, permit.release), "ours, async": entered(lambda: awaited)}


def self_limiters(url: str) -> dict[str, Timed]:
    """self-limiters' row, if it is installed."""
    try:
        from self_limiters import Semaphore  # type: ignore[import-not-found]
    except ImportError:
        return {}
    theirs = Semaphore(name="bench", capacity=LIMIT, max_sleep=60, redis_url=url)
    return {PEER: entered(lambda: theirs)}


def entered(make: Callable[[], AbstractAsyncContextManager[Any]]) -> Timed:
    """Time `async with` around nothing."""
    loop = asyncio.new_event_loop()

    async def pairs_of(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            async with make():
                pass
        return time.perf_counter() - begin

    return lambda calls: loop.run_until_complete(pairs_of(calls))


if __name__ == "__main__":
    main()

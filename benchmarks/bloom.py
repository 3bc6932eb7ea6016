"""Bloom filters beside walrus and pottery, where they are installed, and the error rates beside the formula.

    python -m benchmarks.bloom [--rounds 20] [--items 1000] [--processes 8] [--errors]

One thread, in interleaved rounds: median microseconds for an item that is new, one that is looked up, and an item of a
batch. Then several processes at once, each adding one item after the other: items per second. ``--errors`` measures
the rates of false "yes" instead: at the capacity, twice and ten times of it, growing and not. ``REDIS_URL`` names
another server.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.environment import server_url
from benchmarks.locks import set_up

#: Size of each filter.
CAPACITY, ERROR_RATE = 1_000_000, 0.01
#: Size of the filter of walrus, which takes bytes.
BYTES = 1_198_136
#: Seconds for which several processes add items.
SECONDS = 3.0
#: Adds or looks up this many items.
Timed = Callable[[int], None]
#: Items that are added and looked up to measure an error rate.
ERROR_CAPACITY, LOOKUPS = 50_000, 200_000

_numbers = itertools.count()


def main() -> None:
    """Run the rounds and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="interleaved rounds (default: 20)")
    parser.add_argument("--items", type=int, default=1_000, help="items of each row in a round (default: 1000)")
    parser.add_argument("--processes", type=int, default=8, help="processes that add at the same time (default: 8)")
    parser.add_argument("--errors", action="store_true", help="measure error rates, some minutes")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """All rows in turn, round after round."""
    set_up(url)
    if options.errors:
        measure_errors(url)
        return
    ours()["ours, batch add, 3 layers"](CAPACITY // 2)
    table = ping() | ours() | walrus(url) | pottery(url)
    times: dict[str, list[float]] = {name: [] for name in table}
    for _ in range(options.rounds):
        for name, timed in table.items():
            count = options.items if "batch" in name else min(options.items, 300)
            started_at = time.perf_counter()
            timed(count)
            times[name].append((time.perf_counter() - started_at) / count * 1e6)
    print(f"{options.rounds} rounds, a filter of {CAPACITY:,} items at {ERROR_RATE:.0%}")
    for name, values in times.items():
        print(f"{name:26} median {statistics.median(values):8.2f} us an item   best {min(values):8.2f} us")
    for name in ("PING", "ours, add", "walrus, add"):
        if name not in table:
            continue
        print(f"{name:26} {options.processes} processes {add_in_processes(url, name, options.processes):8,.0f} items/s")


def add_in_processes(url: str, name: str, count: int) -> float:
    """Return the items per second of a row in several processes that start together."""
    context = multiprocessing.get_context("spawn")
    barrier, rates = context.Barrier(count), context.Queue()
    processes = [context.Process(target=_add_for_seconds, args=(url, name, barrier, rates)) for _ in range(count)]
    for process in processes:
        process.start()
    total: float = sum(rates.get() for _ in processes)
    for process in processes:
        process.join()
    return total


def _add_for_seconds(url: str, name: str, barrier: Any, rates: Any) -> None:
    global _numbers
    _numbers = itertools.count(os.getpid() * 10**9)  # items of no other process
    set_up(url)
    timed = (ping() | ours() | walrus(url))[name]
    timed(10)
    barrier.wait()
    count, started_at = 0, time.perf_counter()
    while time.perf_counter() - started_at < SECONDS:
        timed(50)
        count += 50
    rates.put(count / SECONDS)


def ping() -> dict[str, Timed]:
    """A round trip."""
    from django_redis_components.core.client import connections
    from django_redis_components.core.protocol import Read

    client = connections.client("default")

    def timed(count: int) -> None:
        for _ in range(count):
            client.execute(Read("PING", key="x"))

    return {"PING": timed}


def ours() -> dict[str, Timed]:
    """Our rows."""
    from django_redis_components.bloom import BloomFilter

    fixed = BloomFilter("fixed", CAPACITY, error_rate=ERROR_RATE, scaling=False)
    grown = BloomFilter("grown", CAPACITY // 7, error_rate=ERROR_RATE)

    def each(call: Callable[[str], object]) -> Timed:
        def timed(count: int) -> None:
            for _ in range(count):
                call(f"item {next(_numbers)}")

        return timed

    def batch(call: Callable[[list[str]], object]) -> Timed:
        return lambda count: [call([f"item {next(_numbers)}" for _ in range(count)]), None][1]

    return {
        "ours, add": each(fixed.add),
        "ours, contains": each(fixed.contains),
        "ours, add, 3 layers": each(grown.add),
        "ours, batch add, 3 layers": batch(grown.add_many),
        "ours, batch add": batch(fixed.add_many),
        "ours, batch contains": batch(fixed.contains_many),
    }


def walrus(url: str) -> dict[str, Timed]:
    """The rows of walrus, if it is installed."""
    try:
        from walrus import Database  # type: ignore[import-not-found]
    except ImportError:
        return {}
    theirs = Database.from_url(url).bloom_filter("walrus", size=BYTES)

    def add(count: int) -> None:
        for _ in range(count):
            theirs.add(f"item {next(_numbers)}")

    def contains(count: int) -> None:
        for _ in range(count):
            theirs.contains(f"item {next(_numbers)}")

    return {"walrus, add": add, "walrus, contains": contains}


def pottery(url: str) -> dict[str, Timed]:
    """The rows of pottery, if it is installed."""
    try:
        from pottery import BloomFilter  # type: ignore[import-not-found]
    except ImportError:
        return {}
    from redis import Redis

    theirs = BloomFilter(num_elements=CAPACITY, false_positives=ERROR_RATE, redis=Redis.from_url(url), key="pottery")

    def add(count: int) -> None:
        for _ in range(count):
            theirs.add(f"item {next(_numbers)}")

    def batch(count: int) -> None:
        theirs.update({f"item {next(_numbers)}" for _ in range(count)})

    def contains(count: int) -> None:
        list(theirs.contains_many(*(f"item {next(_numbers)}" for _ in range(count))))

    return {"pottery, add": add, "pottery, batch add": batch, "pottery, batch contains": contains}


def measure_errors(url: str) -> None:
    """Print the measured rates of false "yes" beside the expected ones, and the items of a million that are missing."""
    from django_redis_components.bloom import BloomFilter

    for error_rate, times, scaling in itertools.product((0.1, 0.01, 0.001), (1, 2, 10), (False, True)):
        bloom = BloomFilter(f"{error_rate}-{times}-{scaling}", ERROR_CAPACITY, error_rate=error_rate, scaling=scaling)
        bloom.add_many(range(ERROR_CAPACITY * times))
        missing = bloom.contains_many(range(ERROR_CAPACITY * times)).count(False)
        wrong = sum(bloom.contains_many(f"absent {n}" for n in range(LOOKUPS))) / LOOKUPS
        info = bloom.info()
        kind = "growing" if scaling else "fixed"
        print(
            f"{error_rate:6.1%} at {times:2}x, {kind:7}: measured {wrong:8.4%}, expected {info.expected_error:8.4%},"
            f" with the least memory {_error_of_least_memory(error_rate, times):8.4%},"
            f" {info.layers} layers, {info.bytes:,} bytes, {missing} missing"
        )
        bloom.delete()
    for error_rate, times in itertools.product((0.1, 0.01, 0.001), (1, 2)):
        measure_error_of_pottery(url, error_rate, times)
    bloom = BloomFilter("million", CAPACITY, error_rate=ERROR_RATE)
    bloom.add_many(range(CAPACITY))
    print(f"{CAPACITY:,} items: {bloom.contains_many(range(CAPACITY)).count(False)} missing")


def _error_of_least_memory(error_rate: float, times: int) -> float:
    """Return (1 - 0.5^t)^k: at t times the capacity, of a filter with the k that needs the least memory."""
    return (1 - 0.5**times) ** -math.log2(error_rate)


def measure_error_of_pottery(url: str, error_rate: float, times: int) -> None:
    """Print the measured rate of pottery, if it is installed."""
    try:
        from pottery import BloomFilter
    except ImportError:
        return
    from redis import Redis

    with contextlib.closing(Redis.from_url(url)) as raw:
        theirs = BloomFilter(num_elements=ERROR_CAPACITY, false_positives=error_rate, redis=raw, key="pottery errors")
        for start in range(0, ERROR_CAPACITY * times, 1_000):
            theirs.update(range(start, start + 1_000))
        absent = [f"absent {number}" for number in range(LOOKUPS // 10)]
        wrong = sum(sum(theirs.contains_many(*absent[at : at + 1_000])) for at in range(0, len(absent), 1_000))
        print(f"{error_rate:6.1%} at {times:2}x, pottery: measured {wrong / len(absent):8.4%}")
        raw.delete("pottery errors")


if __name__ == "__main__":
    main()

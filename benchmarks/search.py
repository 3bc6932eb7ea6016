"""Searches in generated documents whose words follow Zipf's law.

    python -m benchmarks.search [--documents 100000] [--queries 300]

One thread: milliseconds at p50 and p99 of a first page of 20 for queries of one, two and five words, and of a word that
is in every document; and the mean processor time of the server, which other work on the machine changes less. Each
query is new, so that no stored result is used. ``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterator

import redis

from benchmarks.environment import server_url
from benchmarks.locks import set_up

#: Different words, and words of a document.
VOCABULARY, WORDS = 50_000, 60
#: A word that is in every document.
COMMON = "everywhere"


def main() -> None:
    """Fill the index, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000, help="documents in the index (default: 100000)")
    parser.add_argument("--queries", type=int, default=300, help="queries of each row (default: 300)")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """Fill the index and run the queries of each row."""
    set_up(url)
    from django_redis_components.search import SearchIndex

    raw, index, rng = redis.Redis.from_url(url), SearchIndex("bench", language=None), random.Random(1)
    before, started_at = raw.info("memory")["used_memory"], time.perf_counter()
    for number, text in enumerate(_documents(rng, options.documents)):
        index.add(number, text, sort_values={"updated": number})
    seconds, used = time.perf_counter() - started_at, raw.info("memory")["used_memory"] - before
    print(
        f"{options.documents:,} documents of {WORDS} words: {used / options.documents:,.0f} bytes and "
        f"{seconds / options.documents * 1_000:.2f} ms each"
    )
    words = _words(rng)
    rows: dict[str, Callable[[], str]] = {
        "one word": lambda: next(words),
        "two words": lambda: f"{next(words)} {next(words)}",
        "five words": lambda: " ".join(itertools.islice(words, 5)),
        "a word of every document": lambda: COMMON,
        "that and another": lambda: f"{COMMON} {next(words)}",
    }
    for name, make in rows.items():
        for order in ("relevance", "-updated"):
            _row(raw, index, f"{name}, by {order}", [make() for _ in range(options.queries)], order)


def _row(raw: redis.Redis, index: object, name: str, queries: list[str], order: str) -> None:
    times, totals, partial, busy_s = [], [], 0, _busy_s(raw)
    for number, query in enumerate(queries):
        started_at = time.perf_counter()
        page = index.search(f"{query} -unknown{number}", order_by=order)  # type: ignore[attr-defined]
        times.append((time.perf_counter() - started_at) * 1_000)
        totals.append(page.paginator.count)
        partial += page.is_partial
    times.sort()
    print(
        f"{name:42} p50 {statistics.median(times):7.2f} ms   p99 {times[int(len(times) * 0.99)]:7.2f} ms   "
        f"server {(_busy_s(raw) - busy_s) * 1_000 / len(queries):6.2f} ms   "
        f"median of {statistics.median(totals):,.0f} found, {partial / len(queries):.0%} partial"
    )


def _busy_s(raw: redis.Redis) -> float:
    """Return the processor time of the server's main thread in seconds."""
    used = raw.info("cpu")
    return float(used["used_cpu_user_main_thread"] + used["used_cpu_sys_main_thread"])


def _documents(rng: random.Random, count: int) -> Iterator[str]:
    words = _words(rng)
    for _ in range(count):
        yield " ".join([COMMON, *itertools.islice(words, WORDS - 1)])


def _words(rng: random.Random) -> Iterator[str]:
    weights = list(itertools.accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
    while True:
        for number in rng.choices(range(VOCABULARY), cum_weights=weights, k=10_000):
            yield f"w{number}"


if __name__ == "__main__":
    main()

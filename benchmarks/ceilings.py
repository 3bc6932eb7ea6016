"""How far one core of the server goes: its processor time for the usual calls of each component.

    python -m benchmarks.ceilings [--calls 2000] [--rounds 3]

Each call is sent alone, and waits for its reply: the time is that of the main thread, with its part of the network, and
is the smallest of the rounds. Calls of one second are what a core could do if it did nothing else. ``REDIS_URL`` names
another server, which is emptied.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import redis

from benchmarks.environment import server_url
from benchmarks.scaling import cpu_ms

#: Entries of the autocomplete index, documents of the search index, members of the chat, ranges of addresses.
ENTRIES, DOCUMENTS, MEMBERS, RANGES = 20_000, 2_000, 50, 10_240


def main() -> None:
    """Start a server and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2_000, help="calls of each sort in a round (default: 2,000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: 3)")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options.calls, options.rounds)


def measure(url: str, calls: int, rounds: int) -> None:
    """Print the table."""
    os.environ |= {"BENCH_REDIS_URL": url, "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
    import django

    django.setup()
    raw = redis.Redis.from_url(url)
    print("| call | us of the server | calls/s of a core |\n|---|---:|---:|")
    for name, items, call in operations(raw):
        call(0)
        found = []
        for number in range(rounds):
            count = max(20, calls // items)
            before_ms = cpu_ms(raw)
            for at in range(count):
                call(1 + number * count + at)
            found.append((cpu_ms(raw) - before_ms) * 1_000 / count / items)
        print(f"| {name} | {min(found):,.1f} | {1e6 / min(found):,.0f} |", flush=True)


def operations(raw: redis.Redis) -> Iterator[tuple[str, int, Callable[[int], object]]]:
    """Yield names, how many items a call has, and calls by number."""
    yield from _coordination(raw)
    yield from _content()


def _coordination(raw: redis.Redis) -> Iterator[tuple[str, int, Callable[[int], object]]]:
    from benchmarks import tasks
    from django_redis_components.core.client import connections
    from django_redis_components.expiry import cached
    from django_redis_components.locks import Lock, ReadWriteLock
    from django_redis_components.ratelimits import RateLimit
    from django_redis_components.semaphores import Semaphore
    from django_redis_components.taskqueue import chain, group
    from django_redis_components.taskqueue.shards import home
    from django_redis_components.taskqueue.store.job import Ack
    from django_redis_components.taskqueue.worker.fetcher import Fetcher
    from django_redis_components.transactions import Pipe, atomic_update

    fetcher = Fetcher(home(), connections.client(), "benchmark:1", ["default"])

    def run(want: int) -> None:
        for job in fetcher.fetch("0", want):
            fetcher.settle(Ack(job.id, job.token, "succeeded", b"null", ran_us=5))

    yield "PING", 1, lambda _: raw.ping()
    yield "task: enqueue", 1, lambda number: tasks.noop.enqueue(number)
    yield "task: enqueue, 500 in a call", 500, lambda _: tasks.noop.enqueue_many([((1,), {})] * 500)
    yield "task: fetch and outcome, one in a call", 1, lambda _: run(1)
    tasks.noop.enqueue_many([((1,), {})] * 20_000)
    yield "task: fetch and outcome, 32 in a call", 32, lambda _: run(32)
    members = [tasks.noop.s(number) for number in range(20)]
    yield (
        "flow: enqueue, for each of 20 tasks and one after them",
        21,
        lambda _: chain(group(members), tasks.noop.si(0)).enqueue(),
    )
    raw.flushall()

    def use(lock: Any) -> None:
        with lock:
            pass

    yield "lock: acquire and release, one name", 1, lambda _: use(Lock("one"))
    readers = ReadWriteLock("one")
    yield "read/write lock: a reader, one name", 1, lambda _: use(readers.read())
    yield "semaphore: acquire and release, one name", 1, lambda _: use(Semaphore("one", 5))
    limit = RateLimit("limit", "1000000/s")
    yield "rate limit: hit, one key", 1, lambda _: limit.hit("one")

    def increment(pipe: Pipe) -> None:
        value = int(pipe.get("account") or 0)
        pipe.multi()
        pipe.set("account", value + 1)

    yield "transaction: read and write a key", 1, lambda _: atomic_update(increment, "account")
    value = cached("bench:{number}", ttl=3_600)(lambda number: number)
    yield "cached value: found", 1, lambda _: value(1)


def _content() -> Iterator[tuple[str, int, Callable[[int], object]]]:
    from django_redis_components.analytics import PageViews, Ranking, UniqueVisitors
    from django_redis_components.autocomplete import PrefixIndex
    from django_redis_components.bloom import BloomFilter, CountMinSketch, TopK
    from django_redis_components.geoip import IpLookup, IpRange, Place
    from django_redis_components.messaging import Chat
    from django_redis_components.search import SearchIndex

    words = [f"{first}{second}" for first in ("an", "ber", "ca", "do", "el", "fi") for second in map(str, range(200))]
    choice = random.Random(1).choice
    index, documents = PrefixIndex("bench"), SearchIndex("bench", log_queries=False)
    for number in range(ENTRIES):
        index.add(number, f"{choice(words)} {choice(words)}")
    yield f"autocomplete: complete, {ENTRIES:,} entries", 1, lambda number: index.complete(words[number % 1_200][:3])
    for number in range(DOCUMENTS):
        documents.add(number, " ".join(choice(words) for _ in range(60)))
    yield (
        f"search: two words, {DOCUMENTS:,} documents",
        1,
        lambda _: documents.search(f"{choice(words)} {choice(words)}"),
    )
    yield (
        "search: add a document of 60 words",
        1,
        lambda _: documents.add(1, " ".join(choice(words) for _ in range(60))),
    )
    chat = Chat.create("user0", [f"user{number}" for number in range(1, MEMBERS)])
    yield f"messaging: send, {MEMBERS} members", 1, lambda _: chat.send("user0", "hello")
    yield "messaging: fetch 10", 1, lambda _: chat.fetch("user1", limit=10)
    views, ranking = PageViews("bench"), Ranking("bench")
    yield "analytics: a view in a call for itself", 1, lambda number: views.hit(f"/{number % 50}")
    visitors = UniqueVisitors("bench")
    yield "analytics: a visitor", 1, lambda number: visitors.add(f"user{number}")
    yield "analytics: ranking, add", 1, lambda number: ranking.add(f"member{number % 500}", 1)
    seen = BloomFilter("bench", 1_000_000)
    yield "Bloom: add", 1, lambda number: seen.add(number)
    yield "Bloom: add, 1,000 in a call", 1_000, lambda at: seen.add_many(range(at * 1_000, at * 1_000 + 1_000))
    sketch, top = CountMinSketch("bench"), TopK("bench", 10)
    yield "count-min sketch: add", 1, lambda number: sketch.add(number)
    yield "top list: add", 1, lambda number: top.add(number % 500)
    lookup = IpLookup("bench", source="ranges")
    lookup.rebuild(
        IpRange(f"8.{n // 256}.{n % 256}.0", f"8.{n // 256}.{n % 256}.255", Place("DE" if n % 2 else "FR"))
        for n in range(RANGES)
    )
    yield f"IP address: look up, {RANGES:,} ranges", 1, lambda n: lookup.lookup(f"8.{n % 40}.{n % 256}.7")


if __name__ == "__main__":
    main()

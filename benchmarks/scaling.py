"""The server's time as a site grows: fetches of many queues, events of many workers, and pages of many queues.

    python -m benchmarks.scaling [--calls 200]

Printed is the server's time for a call, from ``INFO commandstats``: fetches of a worker with 1 to 1,000 queues that
find nothing, that find a task in the first queue, and in the last one; and the server's time in a second of the events
that 1 to 1,000 busy worker processes record for the page Live, in full and shared. ``REDIS_URL`` names another server,
which is emptied.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import redis

from benchmarks.environment import server_url

QUEUES = (1, 10, 100, 1_000)
WORKERS = (1, 10, 100, 1_000)


def main() -> None:
    """Start a server and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200, help="calls of each sort (default: 200)")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options.calls)


def measure(url: str, calls: int) -> None:
    """Set a site up, and print the tables."""
    os.environ |= {"BENCH_REDIS_URL": url, "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
    import django

    django.setup()
    raw = redis.Redis.from_url(url)
    print(f"{'queues of a worker':>20}{'empty fetch':>14}{'first queue':>14}{'last queue':>14}   us of the server")
    for count in QUEUES:
        print(f"{count:>20,}" + "".join(f"{us:>14,.1f}" for us in fetches(raw, count, calls)), flush=True)
    print(f"{'workers':>20}{'in full':>14}{'shared':>14}   ms of the server in a second")
    for count in WORKERS:
        print(f"{count:>20,}" + "".join(f"{ms:>14,.2f}" for ms in live_events(raw, count)), flush=True)


def fetches(raw: redis.Redis, count: int, calls: int) -> list[float]:
    """Return the server's microseconds of a fetch that finds nothing, one in the first queue, and one in the last."""
    from benchmarks import tasks
    from django_redis_components.core.client import connections
    from django_redis_components.taskqueue.shards import home
    from django_redis_components.taskqueue.store.job import Ack
    from django_redis_components.taskqueue.worker.fetcher import Fetcher

    names = [f"queue-{number}" for number in range(count)]
    found = []
    for queue in (None, names[0], names[-1]):
        raw.flushall()
        fetcher = Fetcher(home(), connections.client(), "benchmark:1", names)

        def fetch(fetcher: Fetcher = fetcher) -> None:
            for job in fetcher.fetch("0", 1):
                fetcher.settle(Ack(job.id, job.token, "succeeded", b"null", ran_us=5))

        for _ in range(calls if queue else 0):
            tasks.noop.using(queue_name=queue).enqueue(1)
        fetch()
        found.append(script_us(raw, fetch, calls - 1))
    return found


def script_us(raw: redis.Redis, call: Callable[[], object], calls: int) -> float:
    """Return the server's microseconds of the scripts of a call, on average."""
    raw.config_resetstat()
    for _ in range(calls):
        call()
    stats: Any = raw.info("commandstats")
    return sum(float(each["usec"]) for name, each in stats.items() if name.startswith("cmdstat_evalsha")) / calls


def live_events(raw: redis.Redis, workers: int) -> list[float]:
    """Return the milliseconds of the server in which it stores the events of a second, in full and shared.

    The events of ten seconds are sent one process after the other, each as a process sends them: once a second.
    """
    from django_redis_components.core.observability.live_events import RECORDER, LiveEvent

    event, found = (
        LiveEvent("succeeded", "task", "shop.tasks.pay", "0123456789abcdefghij", "default", "host:1.abc", 0.01),
        [],
    )
    for fleet in (1, workers):
        raw.flushall()
        before_ms = cpu_ms(raw)
        per_flush = max(1, 35 // fleet)
        flushes = round(10 * workers * min(1.0, 35 / fleet / per_flush))
        for _ in range(flushes):
            RECORDER.reset()
            for _ in range(per_flush):
                if RECORDER.has_room(is_routine=True):
                    RECORDER.add("default", event)
            RECORDER.flush()
        found.append((cpu_ms(raw) - before_ms) / 10)
    return found


def cpu_ms(raw: redis.Redis) -> float:
    """Return the CPU time that the server's main thread has used."""
    cpu: Any = raw.info("cpu")
    return float(cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]) * 1_000


if __name__ == "__main__":
    main()

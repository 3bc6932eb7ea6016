"""The server's time for hot paths and pages as queues, workers and tasks grow.

    python -m benchmarks.growth [--calls 100] [--share 1.0] [--row "5,000 workers"]

Each row is a server with what its name says in one queue, and a hundredth of it in another. *enqueue*, and *fetch* with
the outcome of the task before it, one task in a call, are in microseconds of scripts (``INFO commandstats``, the
smallest of nine rounds); *x* is the median of their ratios to the other queue, which is measured in turn. A *round* of
the poller and the one each minute that also *prunes*, the *overview*, the page of the *queue*, and a *scrape* of the
metrics are in milliseconds of the processor time of the server's main thread (median).

Of scheduled tasks, what is sent and fetched is due, too; of failed ones, it fails; of limited ones, each that ends lets
the next start; of a flow, members run. ``--share 0.01`` fills a hundredth. ``REDIS_URL`` names another server, which is
emptied.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import redis

from benchmarks import dashboard
from benchmarks.environment import server_url
from benchmarks.scaling import cpu_ms, script_us
from django_redis_components.taskqueue.store.job import Ack, ErrorIdentity, Job

COLUMNS = ("enqueue, us", "x", "fetch, us", "x", "round, ms", "with pruning", "overview, ms", "queue, ms", "scrape, ms")
#: Rounds of the calls, and pages of each sort.
ROUNDS, PAGES = 9, 5


def main() -> None:
    """Start a server and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100, help="calls of each sort in a round (default: 100)")
    parser.add_argument("--share", type=float, default=1.0, help="of the number of tasks (default: 1)")
    parser.add_argument("--row", action="append", help="this row only; may be repeated")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """Fill the server for each row, and print it."""
    dashboard.set_up(url)
    from django.conf import settings

    settings.REDIS_COMPONENTS["TASKQUEUE"] = {"FAILED_LIMIT": 10_000_000}
    raw = redis.Redis.from_url(url)
    print(f"| | {' | '.join(COLUMNS)} |\n|---|{'---:|' * len(COLUMNS)}")
    for number, (name, (make, count)) in enumerate(rows(options.share).items()):
        if options.row and name not in options.row:
            continue
        raw.flushall()
        small = make(raw, f"small-{number}", count // 100)
        site = make(raw, f"row-{number}", count)
        calls = site.calls(small, options.calls)
        figures = [f"{figure:,.1f}" for figure in (*calls, *site.pages_and_rounds())]
        print(f"| {name} | {' | '.join(figures)} |", flush=True)


class Site:
    """A site with one queue, and what is measured of it.

    Attributes:
        task: of the queue, sends what is measured.
        fetcher: a worker of the queue.
    """

    def __init__(self, raw: redis.Redis, queue: str, **options: Any) -> None:
        from django_redis_components.core.client import connections
        from django_redis_components.taskqueue import task
        from django_redis_components.taskqueue.shards import home
        from django_redis_components.taskqueue.worker.fetcher import Fetcher

        def noop(number: int) -> int:
            return number

        noop.__module__, noop.__qualname__ = "benchmarks", f"noop_{queue}"
        self.raw, self.queue = raw, queue
        self.task = task(queue_name=queue, **options)(noop)
        self.fetcher = Fetcher(home(), connections.client(), f"benchmark:{queue}", [queue])
        self.numbers = itertools.count()

    def send(self) -> None:
        """Enqueue a task that a worker can run at once."""
        self.task.enqueue(next(self.numbers))

    def run(self, want: int = 1) -> int:
        """Fetch tasks, with the outcomes of those before them; return how many."""
        jobs = self.fetcher.fetch("0", want)
        for job in jobs:
            self.settle(job)
        return len(jobs)

    def run_one(self) -> None:
        """Fetch a task, with the outcome of the one before it."""
        if not self.run():
            raise SystemExit(f"{self.queue}: no task to run")

    def settle(self, job: Job) -> None:
        """Let the next fetch send the outcome of a task."""
        self.fetcher.settle(Ack(job.id, job.token, "succeeded", b"null", ttl_ms=60_000, ran_us=5))

    def calls(self, other: Site, calls: int) -> list[float]:
        """Return the microseconds of enqueue and of fetch, each with its ratio to that of another queue."""
        found = []
        for name in ("send", "run_one"):
            times: dict[Site, list[float]] = {self: [], other: []}
            for _ in range(ROUNDS):
                for site, own in times.items():
                    call = getattr(site, name)
                    call()
                    own.append(script_us(self.raw, call, calls))
            ratios = [mine / its for mine, its in zip(*times.values(), strict=True)]
            found += [min(times[self]), statistics.median(ratios)]
        return found

    def pages_and_rounds(self) -> list[float]:
        """Return the milliseconds of the other columns."""
        pages = self._pages()  # first: heartbeats of workers are of a minute
        return [*self._rounds(), *pages]

    def _rounds(self) -> list[float]:
        from django_redis_components.core.client import connections
        from django_redis_components.taskqueue.poller import Poller
        from django_redis_components.taskqueue.shards import home

        poller, found = Poller(home(), connections.client()), []
        for is_pruning in (False, True):
            times = []
            for _ in range(PAGES * 2 + 1):
                poller.next_round_at, poller.next_prune_at = 0.0, 0.0 if is_pruning else time.monotonic() + 60
                times.append(_cpu_ms_of(self.raw, poller.step))
            found.append(statistics.median(times[1:]))  # the first one makes this poller the active one
        poller.close()
        return found

    def _pages(self) -> list[float]:
        from django.contrib.admin.utils import quote
        from django.contrib.auth.models import User
        from django.test import Client

        from django_redis_components.contrib.prometheus.collector import RedisComponentsCollector

        client, base = Client(), "/admin/django_redis_components"
        client.force_login(User.objects.filter(username="admin").first() or User.objects.create_superuser("admin"))

        def get(address: str) -> None:
            if (status := client.get(address).status_code) != 200:
                raise SystemExit(f"{address}: {status}")

        calls: list[Callable[[], object]] = [
            lambda: get(f"{base}/overview/"),
            lambda: get(f"{base}/queues/{quote(self.queue)}/"),
            lambda: list(RedisComponentsCollector("default").collect()),
        ]
        for call in calls:
            call()
        return [statistics.median(_cpu_ms_of(self.raw, call) for _ in range(PAGES)) for call in calls]


class Scheduled(Site):
    """Sends and fetches tasks that are due, beside those that are not."""

    def send(self) -> None:
        """Enqueue a task that is due in a moment."""
        self.task.using(run_after=0.001).enqueue(next(self.numbers))


class Failing(Site):
    """Each task that is fetched fails."""

    def settle(self, job: Job) -> None:
        """Let the next fetch send a failure."""
        error, identity = _failure()
        self.fetcher.settle(Ack(job.id, job.token, "failed", error, ttl_ms=86_400_000, ran_us=5, error=identity))


@functools.cache
def _failure() -> tuple[bytes, ErrorIdentity]:
    from django_redis_components.core.serialization import encode
    from django_redis_components.taskqueue.failure import describe
    from django_redis_components.taskqueue.stats.fingerprint import identify

    failure = LookupError("out of order")
    return encode(describe(failure)), identify(failure)


def _cpu_ms_of(raw: redis.Redis, call: Callable[[], object]) -> float:
    before = cpu_ms(raw)
    call()
    return cpu_ms(raw) - before


Maker = Callable[[redis.Redis, str, int], "Site"]


def rows(share: float) -> dict[str, tuple[Maker, int]]:
    """Return what fills a queue, and the number, by the names of the rows."""
    million, limited = round(1_000_000 * share), round(100_000 * share)
    made: dict[str, tuple[Maker, int]] = {"an empty queue": (with_ready, 0)}
    made |= {f"{count:,} workers": (with_workers, count) for count in (10, 1_000, 5_000)}
    made |= {
        f"{million:,} ready": (with_ready, million),
        f"{million:,} scheduled": (with_scheduled, million),
        f"{million:,} failed": (with_failed, million),
        f"{limited:,} limited": (with_limited, limited),
        "a flow of 5,000": (with_flow, 5_000),
    }
    return made | {f"{count:,} queues": (with_queues, count) for count in (10, 100, 1_000)}


def with_workers(raw: redis.Redis, queue: str, number: int) -> Site:
    """Return a site whose workers have all reported."""
    from django_redis_components.taskqueue.shards import home

    site = Site(raw, queue)
    site.send()
    for worker in range(number):
        dashboard.write_heartbeat(home(), raw, f"{queue}-{worker}:a", [queue], ahead_ms=55_000)
    return site


def with_ready(raw: redis.Redis, queue: str, number: int) -> Site:
    """Return a site with tasks that no worker has taken yet."""
    site = Site(raw, queue)
    dashboard.send(site.task, number)
    return site


def with_scheduled(raw: redis.Redis, queue: str, number: int) -> Site:
    """Return a site with tasks that are due tomorrow."""
    site = Scheduled(raw, queue)
    dashboard.send(site.task.using(run_after=86_400), number)
    return site


def with_failed(raw: redis.Redis, queue: str, number: int) -> Site:
    """Return a site whose tasks have failed."""
    site = Failing(raw, queue)
    for start in range(0, number, dashboard.CHUNK):
        dashboard.send(site.task, min(dashboard.CHUNK, number - start))
        while site.run(250):
            pass
    return site


def with_limited(raw: redis.Redis, queue: str, number: int) -> Site:
    """Return a site whose tasks wait for a limit of one at a time."""
    from django_redis_components.taskqueue import Concurrency, get_queue

    site = Site(raw, queue, concurrency=Concurrency(1))
    dashboard.send(site.task, number)
    [first] = site.fetcher.fetch("0", 1)
    while (info := get_queue(queue).info()).ready > info.limited:
        site.fetcher.fetch("filling", 250)
    site.settle(first)
    return site


def with_flow(raw: redis.Redis, queue: str, number: int) -> Site:
    """Return a site with a group that has started, and a task after it."""
    from django_redis_components.taskqueue import chain, group

    site = Site(raw, queue)
    chain(group(*[site.task.s(each) for each in range(number)]), site.task.si(0)).enqueue()
    return site


def with_queues(raw: redis.Redis, queue: str, number: int) -> Site:
    """Return a site with further queues that have tasks of each sort, and an hour of figures."""
    from django_redis_components.taskqueue.shards import home

    for each in range(number):
        dashboard.fill_queue(home(), raw, f"{queue}-{each}", 21)
    return Site(raw, queue)


if __name__ == "__main__":
    main()

"""Analytics: what a page bears, what a killed process loses, and how exact visitors are.

    python -m benchmarks.analytics overhead [--rounds 30] [--requests 300]
    python -m benchmarks.analytics load [--requests 20000] [--clients 8]
    python -m benchmarks.analytics kill [--runs 10]
    python -m benchmarks.analytics visitors [--runs 20] [--ids 1000000]
    python -m benchmarks.analytics cohorts [--users 100000] [--weeks 12]

``overhead``: microseconds of a request with the middleware less those without it, in interleaved rounds, and the round
trips that the requests of a second take together. ``load``: processes request pages and log them; the counts must equal
the log. ``kill``: a process logs and counts views until it is killed; the time that its lost views span. ``visitors``:
the error of HyperLogLogs, and a range of 30 days with and without daily ids. ``cohorts``: a cohort table beside plain
Python. ``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import django
import redis
from django.conf import settings

from tools.localserver import LocalServer

AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
MIDDLEWARE = "django_redis_components.analytics.AnalyticsMiddleware"
DAY = date(2026, 11, 1)


def main() -> None:
    """Run one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["overhead", "load", "kill", "visitors", "cohorts", "client", "victim"])
    parser.add_argument("--rounds", type=int, default=30, help="interleaved rounds (default: 30)")
    parser.add_argument("--requests", type=int, help="requests of a round (300), or of all clients (20000)")
    parser.add_argument("--clients", type=int, default=8, help="processes (default: 8)")
    parser.add_argument("--runs", type=int, help="repetitions (default: 10, visitors 20)")
    parser.add_argument("--ids", type=int, default=1_000_000, help="visitors of a run (default: 1000000)")
    parser.add_argument("--users", type=int, default=100_000, help="users of the cohorts (default: 100000)")
    parser.add_argument("--weeks", type=int, default=12, help="weeks of the cohorts (default: 12)")
    parser.add_argument("--log", help="of a client or a victim, which this program starts itself")
    options = parser.parse_args()
    if url := os.environ.get("REDIS_URL"):
        measure(url, options)
        return
    with tempfile.TemporaryDirectory() as directory, LocalServer(directory=Path(directory)) as server:
        os.environ["REDIS_URL"] = server.url
        measure(server.url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """Run the measurement on a server."""
    settings.configure(
        REDIS_COMPONENTS={"CONNECTIONS": {"default": {"URL": url}}},
        ALLOWED_HOSTS=["*"],
        MIDDLEWARE=[MIDDLEWARE],
        ROOT_URLCONF=__name__,
        USE_TZ=True,
    )
    django.setup()
    globals()[options.what](url, options)


def requests(count: int) -> list[Any]:
    """Return requests of 50 visitors for 200 pages."""
    from django.test import RequestFactory

    headers = {"User-Agent": AGENT, "Referer": "https://example.org/a", "Cookie": "sessionid=" + "a" * 32}
    factory = RequestFactory(headers=headers)
    return [factory.get(f"/items/{n % 200}/", REMOTE_ADDR=f"10.0.{n % 50}.1") for n in range(count)]


def timed(call: Callable[[Any], Any], count: int) -> float:
    """Return microseconds per request."""
    batch = requests(count)
    started = time.perf_counter()
    for request in batch:
        call(request)
    return (time.perf_counter() - started) / count * 1e6


def atimed(call: Callable[[Any], Any], count: int) -> float:
    """Return microseconds per request of an async view."""

    async def run() -> float:
        batch = requests(count)
        started = time.perf_counter()
        for request in batch:
            await call(request)
        return (time.perf_counter() - started) / count * 1e6

    return asyncio.run(run())


def view(request: object) -> Any:
    """A page."""
    from django.http import HttpResponse

    return HttpResponse("<p>page")


async def aview(request: object) -> Any:
    """A page of an async view."""
    return view(request)


def overhead(url: str, options: argparse.Namespace) -> None:
    """Print what the middleware adds to a request."""
    from django_redis_components.analytics import AnalyticsMiddleware, flush

    count = options.requests or 300
    middleware, amiddleware = AnalyticsMiddleware(view), AnalyticsMiddleware(aview)
    times: dict[str, list[float]] = {"sync": [], "async": [], "flush": []}
    for _ in range(options.rounds):
        times["sync"].append(-timed(view, count) + timed(middleware, count))
        flush()
        times["async"].append(-atimed(aview, count) + atimed(amiddleware, count))
        started = time.perf_counter()
        flush()
        times["flush"].append((time.perf_counter() - started) / count * 1e6)
    for name, found in times.items():
        spread = statistics.quantiles(found, n=20)
        print(f"{name:6} {statistics.median(found):7.1f} µs per request (5 % {spread[0]:.1f}, 95 % {spread[-1]:.1f})")
    server = redis.Redis.from_url(url)
    before = server.info("stats")["total_commands_processed"]
    for request in requests(5_000):
        middleware(request)
    time.sleep(2)
    sent = server.info("stats")["total_commands_processed"] - before
    print(f"5,000 requests in about a second: {sent:,} commands, those inside scripts and of this program included")


def load(url: str, options: argparse.Namespace) -> None:
    """Compare the counts with the log of several processes."""
    from django_redis_components.analytics import PageViews, UniqueVisitors
    from django_redis_components.analytics.dates import site_date

    total = options.requests or 20_000
    with tempfile.TemporaryDirectory() as directory:
        logs = [Path(directory, str(number)) for number in range(options.clients)]
        started = time.perf_counter()
        clients = [start("client", log, "--requests", str(total // options.clients)) for log in logs]
        codes = [client.wait() for client in clients]
        took_s = time.perf_counter() - started
        log: Counter[str] = Counter()
        for path in logs:
            log.update(json.loads(path.read_text()))
    found = dict(PageViews().top(limit=1_000))
    visitors = UniqueVisitors("default").count(site_date())
    print(f"{sum(log.values()):,} requests of {options.clients} processes in {took_s:.1f} s, exit codes {set(codes)}")
    print(f"counts equal the log: {found == dict(log)} ({sum(found.values()):,} views of {len(found)} pages)")
    print(f"visitors: {visitors} of {options.clients * 100}")


def client(url: str, options: argparse.Namespace) -> None:
    """Request pages, and log them at the end."""
    from django.test import Client

    number, log = int(Path(options.log).name), []
    rnd = random.Random(number)
    clients = [Client(REMOTE_ADDR=f"10.{number}.0.{visitor}", headers={"User-Agent": AGENT}) for visitor in range(100)]
    for turn in range(options.requests):
        page = f"/page/{int(rnd.paretovariate(1)) % 500}/"
        assert clients[turn % 100].get(page).status_code == 200
        log.append(page)
    Path(options.log).write_text(json.dumps(log))


def kill(url: str, options: argparse.Namespace) -> None:
    """Print how old the oldest view is that a killed process loses."""
    from django_redis_components.analytics import PageViews

    spans = []
    for run in range(options.runs or 10):
        with tempfile.TemporaryDirectory() as directory:
            log = Path(directory, f"site-{run}")
            process = start("victim", log)
            time.sleep(3 + random.random())
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            times = [float(line) for line in log.read_text().splitlines()]
        counted = sum(PageViews(log.name).series(None, date.today() - timedelta(days=1), date.today()).values())  # noqa: DTZ011
        lost = times[counted:]
        spans.append(times[-1] - lost[0] if lost else 0.0)
        print(f"logged {len(times):,}, counted {counted:,}, the lost ones of the last {spans[-1]:.2f} s")
    print(f"at most {max(spans):.2f} s, median {statistics.median(spans):.2f} s")


def victim(url: str, options: argparse.Namespace) -> None:
    """Count a thousand views a second, each logged just before, until the process is killed."""
    from django_redis_components.analytics import PageViews

    views = PageViews(Path(options.log).name)
    with Path(options.log).open("w", buffering=1) as log:
        while True:
            log.write(f"{time.monotonic()}\n")
            views.hit_later("/a/")
            time.sleep(0.001)


def visitors(url: str, options: argparse.Namespace) -> None:
    """Print the errors of HyperLogLogs of this number of ids, and ranges of 30 days."""
    from django_redis_components.analytics import UniqueVisitors
    from django_redis_components.analytics.estimate import STANDARD_ERROR

    errors = []
    for run in range(options.runs or 20):
        one = UniqueVisitors(f"run {run}")
        for first in range(0, options.ids, 50_000):
            one.add(*(f"{run}-{n}" for n in range(first, min(first + 50_000, options.ids))), at=DAY)
        errors.append(one.count(DAY) / options.ids - 1)
    deviation = statistics.fmean(error * error for error in errors) ** 0.5
    worst = max(errors, key=abs)
    print(
        f"{options.ids:,} ids, {len(errors)} runs: standard deviation {deviation:.2%} (stated {STANDARD_ERROR:.2%}),"
        f" worst {worst:+.2%}, {sum(abs(error) <= 3 * STANDARD_ERROR for error in errors)} within 3 sigma"
    )
    for count in (100, 1_000, 10_000, 100_000):
        one = UniqueVisitors(f"users {count}")
        one.add(*(f"user{n}" for n in range(count)), at=DAY)
        found = one.count(DAY)
        key = redis.Redis.from_url(url).keys(f"*users {count}*uv:{DAY:%Y%m%d}")[0]
        size = redis.Redis.from_url(url).memory_usage(key, samples=0)
        print(f"user0 to user{count - 1}: {int(found):,} ({found / count - 1:+.3%}), {size:,} bytes")
    stable, salted = UniqueVisitors("stable"), UniqueVisitors("salted", identity_period="day")
    for number in range(30):
        day = DAY + timedelta(days=number)
        stable.add(*range(1_000), at=day)
        salted.add(*(f"{number} {n}" for n in range(1_000)), at=day)
    last = DAY + timedelta(days=29)
    for one in (stable, salted):
        found = one.count(DAY, last)
        print(f"1,000 visitors on each of 30 days, {one.name} ids: {int(found):,}, is_unique {found.is_unique}")


def cohorts(url: str, options: argparse.Namespace) -> None:
    """Print whether a cohort table equals that of Python's sets, and its time."""
    from django_redis_components.analytics import Events
    from django_redis_components.analytics import cohorts as table

    rnd, weeks = random.Random(1), options.weeks
    mondays = [date(2026, 8, 3) + timedelta(weeks=week) for week in range(weeks)]
    signed_up: list[set[int]] = [set() for _ in mondays]
    active: list[set[int]] = [set() for _ in mondays]
    for user in range(options.users):
        week = rnd.randrange(weeks)
        signed_up[week].add(user)
        for later in range(week, weeks):
            if rnd.random() < 0.8 / (1 + later - week):
                active[later].add(user)
    first, later = Events("signup", units=("week",)), Events("active", units=("week",))
    started = time.perf_counter()
    for monday, users, actives in zip(mondays, signed_up, active, strict=True):
        for event, ids in ((first, users), (later, actives)):
            for user in ids:
                event.mark(user, at=monday)
    marked_s = time.perf_counter() - started
    times, found = [], None
    for _ in range(20):
        started = time.perf_counter()
        found = table(first, later, unit="week", periods=weeks, end=mondays[-1])
        times.append(time.perf_counter() - started)
    expected = {
        monday: [len(signed_up[row] & active[column]) for column in range(row, weeks)]
        for row, monday in enumerate(mondays)
    }
    equal = found is not None and {row.start: list(row.later) for row in found} == expected
    marks = sum(map(len, signed_up)) + sum(map(len, active))
    print(f"{marks:,} marks in {marked_s:.1f} s ({marked_s / marks * 1e6:.0f} µs each)")
    print(
        f"{weeks} x {weeks} cohorts of {options.users:,} users: {statistics.median(times) * 1e3:.1f} ms, equal {equal}"
    )


def start(what: str, log: Path, *args: str) -> subprocess.Popen[bytes]:
    """Start this program for one client or victim."""
    return subprocess.Popen([sys.executable, "-m", "benchmarks.analytics", what, "--log", str(log), *args])


def page(request: object, number: int) -> Any:
    """A page of the load."""
    from django.http import HttpResponse

    return HttpResponse(f"<p>{number}")


def _urlpatterns() -> list[Any]:
    from django.urls import path

    return [path("page/<int:number>/", page)]


urlpatterns = _urlpatterns()

if __name__ == "__main__":
    main()

"""Cost of the dashboard's pages on a server with much data.

    python -m benchmarks.dashboard [--tasks 1000000] [--queues 20] [--pages 100]

Fills a server with tasks in several queues, a fifth of them scheduled, an hour of minute counters, workers, visitors,
locks and a rate limit, and asks for each page in turn, through Django's test client: middleware, session, permission,
reading, template. Printed are commands and round trips, as the page's footer has them, and the milliseconds of a whole
answer. ``REDIS_URL`` names another server: keys with the prefix "bench-dashboard" are written there, and deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import types
from datetime import timedelta
from pathlib import Path
from typing import Any

import django
import redis
from django.conf import settings

from example_project.localserver import LocalServer

PREFIX = "bench-dashboard"
#: Tasks that each queue has finished in each minute of the last hour.
FINISHED = 20
#: Locks that are held, workers that report, visitors of each of the last days.
LOCKS, WORKERS, VISITORS, DAYS = 100, 20, 1_000, 30
#: Tasks in a call that sends many.
CHUNK = 5_000


def main() -> None:
    """Fill the server and measure the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1_000_000, help="tasks in all queues (default: 1,000,000)")
    parser.add_argument("--queues", type=int, default=20, help="queues (default: 20)")
    parser.add_argument("--pages", type=int, default=100, help="answers of each page (default: 100)")
    options = parser.parse_args()
    if url := os.environ.get("REDIS_URL"):
        measure(url, options)
        return
    with tempfile.TemporaryDirectory() as directory, LocalServer(directory=Path(directory)) as server:
        measure(server.url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """Request all pages in turn, each ``--pages`` times."""
    set_up(url)
    raw = redis.Redis.from_url(url)
    try:
        addresses = fill(raw, options.tasks, options.queues)
        keys = raw.dbsize()
        print(f"{options.queues} queues, {options.tasks:,} tasks, {keys:,} keys; {options.pages} answers of each page")
        measure_pages(addresses, options.pages)
    finally:
        empty(raw)


def set_up(url: str) -> None:
    """The smallest site with an admin, in this process."""
    apps = ["admin", "auth", "contenttypes", "sessions", "messages", "staticfiles"]
    middleware = [
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ]
    processors = ["django.template.context_processors.request"]
    processors += [f"django.contrib.{app}.context_processors.{app}" for app in ("auth", "messages")]
    engine = "django.template.backends.django.DjangoTemplates"
    settings.configure(
        ALLOWED_HOSTS=["*"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=[*(f"django.contrib.{app}" for app in apps), "django_redis_components"],
        MIDDLEWARE=middleware,
        REDIS_COMPONENTS={"PREFIX": PREFIX, "CONNECTIONS": {"default": {"URL": url}}},
        SECRET_KEY="benchmarks only",
        STATIC_URL="static/",
        TEMPLATES=[{"BACKEND": engine, "APP_DIRS": True, "OPTIONS": {"context_processors": processors}}],
        USE_TZ=True,
    )
    django.setup()
    from django.contrib import admin
    from django.core.management import call_command
    from django.urls import path

    urls: Any = types.ModuleType("urls")
    urls.urlpatterns = [path("admin/", admin.site.urls)]
    settings.ROOT_URLCONF = urls
    call_command("migrate", verbosity=0)


def fill(raw: redis.Redis, tasks: int, queues: int) -> dict[str, str]:
    """Write the data that the pages show; return the pages by label."""
    from django_redis_components.analytics import SignIns, UniqueVisitors
    from django_redis_components.analytics.dates import site_date
    from django_redis_components.locks import Lock
    from django_redis_components.ratelimits import RateLimit

    names = [f"queue-{number}" for number in range(queues)]
    for name in names:
        fill_queue(raw, name, tasks // queues)
    for number in range(WORKERS):
        write_heartbeat(raw, f"host-{number}:a", names)
    for ago in range(DAYS):
        day = site_date() - timedelta(days=ago)
        UniqueVisitors("default").add(*range(VISITORS), at=day)
        SignIns("default").sign_in(ago + 1, day)
    KEEP_ALIVE.extend(Lock(f"lock-{number}", timeout=3_600) for number in range(LOCKS))
    for held in KEEP_ALIVE:
        held.acquire()
    limit = RateLimit("login", "5/m")
    KEEP_ALIVE.append(limit)
    limit.hit("ada")
    base = "/admin/django_redis_components"
    return {
        "overview": f"{base}/overview/",
        "a queue": f"{base}/queues/queue_2D0/",
        "locks, a part of the keys": f"{base}/lock/",
        "locks, by name": f"{base}/lock/?name=lock-1",
        "rate limits, with a key": f"{base}/ratelimit/?limit={limit.policy.id}&key=ada",
    }


#: Objects that must stay alive while pages are requested.
KEEP_ALIVE: list[Any] = []


def fill_queue(raw: redis.Redis, name: str, count: int) -> None:
    """Fill a queue with ready and scheduled tasks and an hour of minute counters."""
    from django_redis_components.taskqueue import task
    from django_redis_components.taskqueue.fields import Part, queue_key
    from django_redis_components.testing import drain

    def noop(number: int) -> int:
        return number

    noop.__qualname__ = f"noop_{name}"
    noop.__module__ = "benchmarks"
    made = task(queue_name=name)(noop)
    for number in range(FINISHED):
        made.enqueue(number)
    drain(name)
    minute = int(raw.time()[0]) // 60
    newest = max(at for at in (minute, minute - 1) if raw.exists(queue_key(name, f"{Part.minute}:{at}")))
    for ago in range(1, 60):
        raw.copy(queue_key(name, f"{Part.minute}:{newest}"), queue_key(name, f"{Part.minute}:{newest - ago}"))
    later = count // 5
    for wanted, sender in ((count - later, made), (later, made.using(run_after=86_400))):
        for start in range(0, wanted, CHUNK):
            sender.enqueue_many([((number,), {}) for number in range(start, min(start + CHUNK, wanted))])


def write_heartbeat(raw: redis.Redis, worker: str, queues: list[str]) -> None:
    """Write the heartbeat of a worker."""
    from django_redis_components.taskqueue.fields import Key, tag_key

    payload = {"host": worker.partition(":")[0], "pid": 7, "queues": queues, "threads": 8, "busy": 0, "finished": 0}
    raw.zadd(tag_key(Key.workers), {worker: int(time.time() * 1_000) + 600_000})
    raw.set(tag_key(Key.worker, worker), json.dumps(payload))


def empty(raw: redis.Redis) -> None:
    """Delete the written keys."""
    cursor = 0
    while True:
        cursor, keys = raw.scan(cursor, f"{PREFIX}:*", CHUNK)
        if keys:
            raw.unlink(*keys)
        if not cursor:
            return


def measure_pages(addresses: dict[str, str], pages: int) -> None:
    """Request the pages and print the cost of each."""
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    client.force_login(User.objects.create_superuser("admin"))
    times: dict[str, list[float]] = {name: [] for name in addresses}
    for _ in range(pages):
        for name, address in addresses.items():
            started_at = time.perf_counter()
            answer = client.get(address)
            times[name].append((time.perf_counter() - started_at) * 1_000)
            if answer.status_code != 200:
                raise SystemExit(f"{address}: {answer.status_code}")
    for name, address in addresses.items():
        cost = client.get(f"{address}{'&' if '?' in address else '?'}format=json").json()["cost"]
        ordered = sorted(times[name])
        print(
            f"{name:28} {cost['commands']:4} commands  {cost['round_trips']:2} round trips  "
            f"p50 {statistics.median(ordered):6.1f} ms  p95 {ordered[int(len(ordered) * 0.95)]:6.1f} ms  "
            f"max {ordered[-1]:6.1f} ms"
        )


if __name__ == "__main__":
    main()

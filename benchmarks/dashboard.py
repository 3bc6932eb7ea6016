"""Cost of the dashboard's pages on a server with much data.

    python -m benchmarks.dashboard [--tasks 1400000] [--queues 40] [--pages 20]

Fills a server with tasks in several queues: of 7 tasks 5 are ready, 1 is scheduled and 1 has failed; and with an hour
of minute counters, which a poller has added up, workers, visitors, a flow, locks and a rate limit. It requests each
page and each confirmation through Django's test client: middleware, session, permission, reading, template. Printed are
commands and round trips, as the page's footer has them, the CPU time of the server's main thread per page and the least
of one page, which other work on the machine changes less, the milliseconds of a whole response, and its size.
``REDIS_URL`` names another server: keys with the prefix "bench-dashboard" are written there and deleted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import types
from datetime import timedelta
from typing import Any

import django
import redis
from django.conf import settings

from benchmarks.environment import server_url
from django_redis_components.taskqueue.shards import Shard, home

PREFIX = "bench-dashboard"
#: Tasks that each queue has finished in each minute of the last hour.
FINISHED = 20
#: Locks that are held, visitors of each of the last days.
LOCKS, VISITORS, DAYS = 100, 1_000, 30
#: Tasks in a call that sends many.
CHUNK = 5_000


def main() -> None:
    """Fill the server and measure the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1_400_000, help="tasks in all queues (default: 1,400,000)")
    parser.add_argument("--queues", type=int, default=40, help="queues (default: 40)")
    parser.add_argument("--workers", type=int, default=50, help="workers that report (default: 50)")
    parser.add_argument("--pages", type=int, default=20, help="responses of each page (default: 20)")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """Request all pages in turn, each ``--pages`` times."""
    set_up(url)
    raw = redis.Redis.from_url(url)
    try:
        addresses = fill(raw, options.tasks, options.queues, options.workers)
        keys = raw.dbsize()
        print(
            f"{options.queues} queues, {options.tasks:,} tasks, {options.workers} workers, {keys:,} keys; "
            f"{options.pages} responses of each page"
        )
        measure_pages(raw, addresses, options.pages)
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
        REDIS_COMPONENTS={"PREFIX": PREFIX, "CONNECTIONS": {"default": {"URL": url, "SOCKET_TIMEOUT": 60}}},
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


def fill(raw: redis.Redis, tasks: int, queues: int, workers: int) -> dict[str, str]:
    """Write the data that the pages show; return the pages by label."""
    from django_redis_components.analytics import SignIns, UniqueVisitors
    from django_redis_components.analytics.dates import site_date
    from django_redis_components.locks import Lock
    from django_redis_components.ratelimits import RateLimit

    names = [f"queue-{number}" for number in range(queues)]
    for name in names:
        fill_queue(home(), raw, name, tasks // queues)
    add_minutes(home(), raw)  # before the heartbeats: a poller would delete those of the future
    for number in range(workers):
        write_heartbeat(home(), raw, f"host-{number}:a", names)
    for ago in range(DAYS):
        day = site_date() - timedelta(days=ago)
        UniqueVisitors("default").add(*range(VISITORS), at=day)
        SignIns("default").sign_in(ago + 1, at=day)
    KEEP_ALIVE.extend(Lock(f"lock-{number}", timeout=3_600) for number in range(LOCKS))
    for held in KEEP_ALIVE:
        held.acquire()
    limit = RateLimit("login", "5/m")
    KEEP_ALIVE.append(limit)
    limit.hit("ada")
    return addresses_of(names[0], write_flow(names[0]), limit.policy.id)


def addresses_of(queue: str, flow: str, limit: str) -> dict[str, str]:
    """Return the pages and confirmations by label."""
    from django.contrib.admin.utils import quote

    from django_redis_components.taskqueue import get_queue

    base = "/admin/django_redis_components"
    at = f"{base}/queues/{quote(queue)}"
    ready, failed = (get_queue(queue).tasks(state, limit=1)[0] for state in ("ready", "failed"))
    [group, *_] = get_queue(queue).errors()
    pages = {"overview": f"{base}/overview/", "overview, sorted": f"{base}/overview/?sort=failed&queues=all"}
    for state in ("ready", "scheduled", "retrying", "limited", "waiting", "running", "failed", "unregistered"):
        pages[f"queue, {state}"] = f"{at}/?state={state}"
    return pages | {
        "queue, search without a match": f"{at}/?state=ready&text=nothing",
        "task, ready": f"{base}/task/{quote(ready.id)}/",
        "task, failed": f"{base}/task/{quote(failed.id)}/",
        "failures": f"{base}/failure/",
        "failures, one error": f"{base}/failure/?group={group.fingerprint}",
        "schedules": f"{base}/schedule/",
        "workers": f"{base}/worker/",
        "flow": f"{base}/taskflow/{quote(flow)}/",
        "locks, a part of the keys": f"{base}/lock/",
        "locks, by name": f"{base}/lock/?name=lock-1",
        "rate limits, with a key": f"{base}/ratelimit/?limit={limit}&key=ada",
        "actions": f"{base}/action/",
        "confirm: pause": f"{base}/queues/_verb/pause/{quote(queue)}/",
        "confirm: purge": f"{base}/queues/_verb/purge/{quote(queue)}/",
        "confirm: retry one error": f"{base}/failure/retry_error/?group={group.fingerprint}",
    }


def write_flow(queue: str) -> str:
    """Enqueue a flow of 20 tasks and one after them; return its id."""
    from django_redis_components.taskqueue import chain, group, registry

    task: Any = next(each for each in registry.all_tasks() if each.options.queue_name == queue)
    return chain(group(*[task.s(number) for number in range(20)]), task.si(0)).enqueue().id


#: Objects that must stay alive while pages are requested.
KEEP_ALIVE: list[Any] = []


def fill_queue(shard: Shard, raw: redis.Redis, name: str, count: int) -> None:
    """Fill a queue with ready and scheduled tasks and an hour of minute counters."""
    from django_redis_components.taskqueue import task
    from django_redis_components.taskqueue.fields import Part
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
    newest = max(at for at in (minute, minute - 1) if raw.exists(shard.queue(name, f"{Part.minute}:{at}")))
    pipe = raw.pipeline(transaction=False)
    for ago in range(1, 60):
        pipe.copy(shard.queue(name, f"{Part.minute}:{newest}"), shard.queue(name, f"{Part.minute}:{newest - ago}"))
    pipe.execute()
    later = failed = count // 7
    send(made, failed)
    fail_all(name)
    for wanted, sender in ((count - later - failed, made), (later, made.using(run_after=86_400))):
        send(sender, wanted)


def add_minutes(shard: Shard, raw: redis.Redis) -> None:
    """Let pollers add the minutes of the last hour to what they keep: each adds five minutes in its first round."""
    from django_redis_components.core.client import connections
    from django_redis_components.taskqueue.fields import Key
    from django_redis_components.taskqueue.poller import Poller

    raw.set(shard.key(Key.rollup), int(raw.time()[0]) // 60 - 61)
    for _round in range(13):
        raw.delete(shard.key(Key.poller))
        Poller(shard, connections.client()).step()


def send(task: Any, wanted: int) -> None:
    """Enqueue a task many times."""
    for start in range(0, wanted, CHUNK):
        task.enqueue_many([((number,), {}) for number in range(start, min(start + CHUNK, wanted))])


def fail_all(queue: str) -> None:
    """Let all ready tasks of a queue fail with one error."""
    from django_redis_components.core.client import connections
    from django_redis_components.core.serialization import encode
    from django_redis_components.taskqueue.failure import describe
    from django_redis_components.taskqueue.stats.fingerprint import identify
    from django_redis_components.taskqueue.store.job import Ack
    from django_redis_components.taskqueue.worker.fetcher import Fetcher

    # A worker for each queue: the server repeats its reply to a request of the same worker with the same number.
    fetcher = Fetcher(home(), connections.client(), f"benchmark:{queue}", (queue,))
    failure = LookupError("out of order")
    error, identity = encode(describe(failure)), identify(failure)
    while jobs := fetcher.fetch("0", 250):
        for job in jobs:
            fetcher.settle(Ack(job.id, job.token, "failed", error, ttl_ms=86_400_000, ran_us=5, error=identity))
    fetcher.fetch("acks", 0)


def write_heartbeat(shard: Shard, raw: redis.Redis, worker: str, queues: list[str], *, ahead_ms: int = 600_000) -> None:
    """Write the heartbeat of a worker, with a time in the future: it is not lost soon."""
    from django_redis_components.taskqueue.fields import Key, Part

    payload = {"host": worker.partition(":")[0], "pid": 7, "queues": queues, "threads": 8, "busy": 0, "finished": 0}
    pipe = raw.pipeline(transaction=False)
    for key in (shard.key(Key.workers), *(shard.queue(queue, Part.workers) for queue in queues)):
        pipe.zadd(key, {worker: int(time.time() * 1_000) + ahead_ms})
    pipe.set(shard.key(Key.worker, worker), json.dumps(payload))
    pipe.execute()


def empty(raw: redis.Redis) -> None:
    """Delete the written keys."""
    cursor = 0
    while True:
        cursor, keys = raw.scan(cursor, f"{PREFIX}:*", CHUNK)
        if keys:
            raw.unlink(*keys)
        if not cursor:
            return


def measure_pages(raw: redis.Redis, addresses: dict[str, str], pages: int) -> None:
    """Request the pages and print the cost of each."""
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    client.force_login(User.objects.create_superuser("admin"))
    print(f"{'':30}commands  round trips  server ms   least  p50 ms  max ms     kB")
    for name, address in addresses.items():
        commands, trips = cost_of(client, address)
        times, cpu_ms = [], []
        for _ in range(pages):
            started_ms, started_at = server_cpu_ms(raw), time.perf_counter()
            response = client.get(address)
            times.append((time.perf_counter() - started_at) * 1_000)
            cpu_ms.append(server_cpu_ms(raw) - started_ms)
            if response.status_code != 200:
                raise SystemExit(f"{address}: {response.status_code}")
        print(
            f"{name:30}{commands:>8}{trips:>13}{statistics.mean(cpu_ms):11.2f}{min(cpu_ms):8.2f}"
            f"{statistics.median(times):8.1f}{max(times):8.1f}{len(response.content) / 1_000:7.0f}"
        )


def server_cpu_ms(raw: redis.Redis) -> float:
    """Return the CPU time that the server's main thread has used."""
    cpu: Any = raw.info("cpu")
    return (cpu["used_cpu_user_main_thread"] + cpu["used_cpu_sys_main_thread"]) * 1_000


def cost_of(client: Any, address: str) -> tuple[str, str]:
    """Return the commands and round trips of a page; of a confirmation "", it has no JSON."""
    if "/_verb/" in address or "retry_error" in address:
        return "", ""
    cost = client.get(f"{address}{'&' if '?' in address else '?'}format=json").json().get("cost", {})
    return str(cost.get("commands", "")), str(cost.get("round_trips", ""))


if __name__ == "__main__":
    main()

"""Helpers of the dashboard's tests: clients with a role, and data in Redis to show."""

from __future__ import annotations

import html
import itertools
import json
import re
import struct
import threading
import time
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from django_redis_components.core.observability import catalog
from django_redis_components.core.serialization import encode
from django_redis_components.ratelimits import RateLimit
from django_redis_components.taskqueue.failure import describe
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.states import OutcomeCounter
from django_redis_components.taskqueue.stats.fingerprint import identify
from django_redis_components.taskqueue.stats.metrics import SIZE, Counts
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from tests.support import Store
from tests.taskqueue.support import base_key, new_fetcher, settle_now, work_off
from tests.taskqueue.tasks import note

URL = "/admin/django_redis_components/overview/"

#: Codename and app of the permission.
PERMISSION = "view_overview"

ROLES = ("anonymous", "member with the permission", "staff", "staff with the permission", "superuser")


def client_of(role: str) -> Client:
    """Return a client that is signed in as a user with this role."""
    client = Client()
    if role == "anonymous":
        return client
    user = User.objects.create_user(
        role.replace(" ", "-"), is_staff=not role.startswith("member"), is_superuser=role == "superuser"
    )
    if "permission" in role:
        user.user_permissions.add(Permission.objects.get(codename=PERMISSION))
    client.force_login(user)
    return client


def text_of(html: str) -> str:
    """Return the text without tags, with single spaces."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def reason_of(response: Any) -> str:
    """Return what is invalid in a request that was answered with 400: with a page, or with text."""
    assert response.status_code == 400
    content: str = response.content.decode()
    if response["Content-Type"] == "text/plain":
        return content
    [reason] = re.findall(r'<p class="drc-empty"><bdi[^>]*>(.*?)</bdi></p>', content, re.S)
    return html.unescape(reason)


def page_text(client: Client, **query: str) -> str:
    response = client.get(URL, query)
    assert response.status_code == 200, response.content
    return text_of(response.content.decode())


def now_ms(store: Store) -> int:
    """Return the server's time; on a Cluster that of any node, since all run on this machine."""
    time = store.raw.time()
    seconds, micros = next(iter(time.values())) if isinstance(time, dict) else time
    return int(seconds) * 1_000 + int(micros) // 1_000


def write_queue(store: Store, name: str, *, ready: int = 0, age_s: float = 0.0, **states: int) -> None:
    """Write a queue as the scripts of the task queue do.

    Args:
        age_s: how long ago the ready tasks were accepted, in seconds.
        states: how many tasks are scheduled, running, failed, unregistered.
    """
    base, now = home().base, now_ms(store)
    pipe = store.raw.pipeline(transaction=False)
    pipe.zadd(f"{base}:queues", {name: now})
    ids = [f"{name}-{number}" for number in range(ready)]
    for task_id in ids:
        pipe.hset(f"{base}:t:{task_id}", "e", str(int((now - age_s * 1_000) * 1_000)))
    if ids:
        pipe.rpush(f"{base}:q:{name}:ready", *ids)
    for state, count in states.items():
        tasks = {f"{state}-{number}": now + 60_000 * (number + 1) for number in range(count)}
        if tasks:
            pipe.zadd(f"{base}:q:{name}:{state}", tasks)
    pipe.execute()


def write_worker(store: Store, worker: str, *, seen_s: float = 0.0, raw_info: str | None = None, **info: Any) -> None:
    """Write a worker that reported `seen_s` seconds ago, with `raw_info` instead of the JSON of `info`."""
    base = home().base
    fields = {"host": worker.partition(":")[0], "pid": 7, "queues": ["default"], "threads": 8, "busy": 0, "finished": 0}
    fields |= info
    heartbeat = {worker: now_ms(store) - seen_s * 1_000}
    for key in (f"{base}:workers", *(f"{base}:q:{queue}:workers" for queue in fields["queues"])):
        store.raw.zadd(key.encode(errors="replace"), heartbeat)
    store.raw.set(f"{base}:worker:{worker}", json.dumps(fields) if raw_info is None else raw_info, ex=600)


def write_poller(store: Store) -> None:
    store.raw.set(f"{home().base}:poller", "here:1:abc", ex=60)


def write_schedule(store: Store, name: str, *, late_s: float = -3_600) -> None:
    """Write a schedule that has sent a task. Its name consists of the task's name and the times."""
    base, now = home().base, now_ms(store)
    task, _, times = name.partition(" ")
    store.raw.zadd(f"{base}:schedules", {name: now})
    fields = {
        "times": times,
        "last": now - 60_000,
        "next": int(now - late_s * 1_000),
        "fired": (now - 60_000) * 1_000,
        "id": "Imqv5aPWT-YOwJ5X1UGd",
        "info": json.dumps({"task": task, "queue": "default", "misfire": "once", "enabled": True}),
    }
    store.raw.hset(f"{base}:schedule:{name}", mapping=fields)


_numbers = itertools.count()


def work_off_in_a_thread() -> None:
    """Run all ready tasks. A worker closes its thread's database connections, and the test needs its own."""
    worker = threading.Thread(target=work_off)
    worker.start()
    worker.join()


def settle_tasks(outcome: str, count: int = 1_000, *, delay_ms: int = 0, queue: str = "default") -> list[Any]:
    """Lease up to this many tasks and settle them with an outcome; return their first arguments, in order.

    A worker would close the test's database connections.
    """
    fetcher = new_fetcher(queue, worker=f"settles:{next(_numbers)}")
    done: list[Any] = []
    error = encode(describe(LookupError("out of order"))) if outcome in ("failed", "retried") else b"null"
    while len(done) < count and (jobs := fetcher.fetch("0", min(250, count - len(done)))):
        acks = [Ack(job.id, job.token, outcome, error, delay_ms=delay_ms, ttl_ms=86_400_000) for job in jobs]
        settle_now(fetcher, *acks)
        done += [(job.message()[0] or [None])[0] for job in jobs]
    return done


def enqueue_to_fail(count: int, queue: str = "default") -> tuple[Fetcher, list[Job]]:
    """Enqueue tasks and lease them; return the fetcher, and the jobs for `fail_jobs`."""
    note.using(queue_name=queue).enqueue_many([((number,), {}) for number in range(count)])
    fetcher = new_fetcher(queue, worker=f"fails:{next(_numbers)}")
    jobs: list[Job] = []
    while len(jobs) < count and (leased := fetcher.fetch("0", min(250, count - len(jobs)))):
        jobs += leased
    return fetcher, jobs


def fail_jobs(fetcher: Fetcher, jobs: list[Job], *texts: str) -> None:
    """Let leased tasks fail as a worker does, each with a text; the last text is that of all others, too."""
    acks = []
    for number, job in enumerate(jobs):
        exc = raised(texts[min(number, len(texts) - 1)])
        acks.append(
            Ack(job.id, job.token, "failed", encode(describe(exc)), ttl_ms=86_400_000, ran_us=5, error=identify(exc))
        )
    for at in range(0, len(acks), 250):
        settle_now(fetcher, *acks[at : at + 250])


def fail_with(*texts: str, queue: str = "default") -> list[str]:
    """Let a task fail with each text; return their ids."""
    fetcher, jobs = enqueue_to_fail(len(texts), queue)
    fail_jobs(fetcher, jobs, *texts)
    time.sleep(0.002)  # the next failure is in a later millisecond
    return [job.id for job in jobs]


def raised(text: str) -> Exception:
    """Return an exception with a traceback."""
    try:
        raise LookupError(text)
    except LookupError as exc:
        return exc


def group_of(text: str) -> str:
    """Return the fingerprint of tasks that `fail_with` lets fail with a text."""
    return identify(raised(text)).fingerprint


#: Names that an attacker might choose.
HOSTILE = [
    "<b>bold</b>",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7|add:7 }}",
    "a&amp;b",
    "\u202eevil",
]


SIGN_INS_OFF = {"ANALYTICS": {"SIGN_IN_ON_LOGIN": False}}


class Page(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def dump(store: Store) -> dict[bytes, tuple[bytes, bool]]:
    """Every key with its content, and whether it has a TTL."""
    keys = store.keys()
    found = {key: (store.raw.dump(key), store.raw.pttl(key) > 0) for key in keys}
    return {key: content for key, content in found.items() if content[0] is not None}  # others have expired meanwhile


def browser(*permissions: str) -> Client:
    """Return a client of a staff user with these permissions."""
    user = User.objects.create_user("-".join(permissions) or "nobody", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def fields_of(response: Any) -> dict[str, str]:
    """Return the hidden fields of a confirmation."""
    return {each["name"]: each["value"] for each in Page(response.content.decode()).all("input") if each.get("value")}


def write_minute(store: Store, queue: str, *, ago: int = 1, **events: int) -> None:
    """Write the counters of a minute, by default of the last full one. Each task that ran has waited for about 1 ms."""
    minute = now_ms(store) // 60_000 - ago
    counts = [events.get(name, 0) for name in OutcomeCounter.__members__]
    numbers = [*counts, *[0] * (SIZE - len(counts))]
    numbers[len(counts) + 1] = Counts(*counts).runs
    store.raw.set(f"{home().base}:q:{queue}:minute:{minute}", struct.pack(f">{SIZE}I", *numbers), ex=600)


def connect(settings: Any, **urls: str) -> None:
    """Add connections to those of the test."""
    known = settings.REDIS_COMPONENTS
    added = {alias: {"URL": url} for alias, url in urls.items()}
    settings.REDIS_COMPONENTS = {**known, "CONNECTIONS": {**known["CONNECTIONS"], **added}}


def hit_recorded(limit: RateLimit, key: str) -> None:
    """Hit a limit as a site does that records names, so that the pages list it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "is_on", lambda: True)
        patch.setattr(catalog.RECORDER, "notify", catalog.RECORDER.flush)
        catalog.RECORDER.clear()
        limit.hit(key)


def write_hour(store: Store, name: str, hours_ago: int, *, succeeded: int, failed: int = 0) -> None:
    """Write the counters of a name in an hour, as the poller does: each run took about 5 s, each wait about 1 ms."""
    hour = now_ms(store) // 3_600_000 - hours_ago
    numbers = [0] * SIZE
    numbers[0], numbers[1], numbers[9], numbers[56 + 25] = succeeded, failed, succeeded + failed, succeeded + failed
    store.raw.set(base_key(store, f"class_hours:{hour}:{name}"), struct.pack(f">{SIZE}I", *numbers), ex=600)
    latest = now_ms(store) // 3_600_000 - 1
    store.raw.set(base_key(store, "class_rollup"), latest, ex=600)

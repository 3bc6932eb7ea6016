"""The pages of queues: their URLs, and a queue with a past."""

from __future__ import annotations

import json
import struct

from django.contrib.admin.utils import quote

from django_redis_components.taskqueue.shards import home
from tests.dashboard.support import now_ms
from tests.support import Store

QUEUES = "/admin/django_redis_components/queues/"
#: Positions of counters: the bucket of waiting from 22.6 to 32 ms, that of running from 1.02 to 1.45 s.
WAITED_30_MS, RAN_1_S = 8 + 10, 56 + 21


def url_of(name: str) -> str:
    return f"{QUEUES}{quote(name)}/"


def verb_url(verb: str, queue: str = "default") -> str:
    return f"{QUEUES}_verb/{verb}/{queue}/"


def counters(slots: int = 1, **counts: int) -> bytes:
    """Return a set of counters: of all tasks, and of the first names."""
    numbers = [0] * 104
    for name, count in counts.items():
        numbers[{"succeeded": 0, "failed": 1, "waited": WAITED_30_MS, "ran": RAN_1_S}[name]] = count
    return struct.pack(">104I", *numbers) * slots


def write_past(store: Store, name: str) -> None:
    """A queue that has done something: 30 and 3 failed in a minute a while ago, 10 in the one before, of one task."""
    base, minute = f"{home().base}:q:{name}", now_ms(store) // 60_000
    both = counters(2, succeeded=30, failed=3, waited=33, ran=33)
    store.raw.set(f"{base}:minute:{minute - 1}", both, ex=600)
    store.raw.set(f"{base}:minute:{minute - 2}", counters(2, succeeded=10, waited=10, ran=10), ex=600)
    for hour in {(minute - 1) // 60, (minute - 2) // 60}:
        store.raw.hset(f"{base}:task_names:{hour}", "shop.tasks.send", 1)
    store.raw.set(f"{base}:hour:{minute // 60 - 1}", counters(succeeded=500, failed=1), ex=600)


def write_error(store: Store, name: str, **about: str) -> None:
    """Write an error group as the scripts do, with the fingerprint ``ab…``."""
    base, now, fingerprint = f"{home().base}:q:{name}", now_ms(store), "ab" * 8
    details = {"class": "builtins.LookupError", "location": "shop.tasks.send", "text": "no user #"} | about
    store.raw.zadd(f"{base}:errors", {fingerprint: now})
    error = {"times": 1_204, "final": 12, "first": now - 90_000, "last": now, "ids": "newest older"}
    store.raw.hset(f"{base}:error:{fingerprint}", mapping=error | {"about": json.dumps(details)})

"""Periodic tasks by the commands: workers with an embedded poller, and pollers alone."""

from __future__ import annotations

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Call
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.messages import TaskMessage, call_for
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import base_key

#: For `Children.manage`: a site with a task that comes every second.
SITE = {"DJANGO_SETTINGS_MODULE": "tests.taskqueue.ticking.site"}


def ticks(store: Store) -> int:
    return int(store.raw.get(f"{store.prefix}:ticks") or 0)


def tick_by_hand() -> Call:
    return call_for(home(), TaskMessage("by-hand", "tests.taskqueue.ticking.tasks.tick", "ticks", b"[[],{}]"))


def test_worker_enqueues_due_schedules(redis_server: Store, children: Children) -> None:
    children.manage("runworker", "ticks", env=SITE)

    eventually(lambda: ticks(redis_server) >= 2)
    assert redis_server.raw.zrange(base_key(redis_server, "schedules"), 0, -1) == [b"tick"]


def test_worker_without_a_poller_enqueues_no_schedule(redis_server: Store, children: Children) -> None:
    children.manage("runworker", "ticks", "--no-poller", env=SITE)
    connections.client().execute(tick_by_hand())
    eventually(lambda: ticks(redis_server) == 1)
    assert redis_server.raw.exists(f"{home().base}:schedules") == 0

    first = children.manage("runpoller", env=SITE)
    first.wait_for("started with 1 schedule.")
    eventually(lambda: ticks(redis_server) >= 2)
    second = children.manage("runpoller", env=SITE)
    second.wait_for(": started with")
    first.kill()
    redis_server.raw.delete(base_key(redis_server, "poller"))
    reached = ticks(redis_server)

    eventually(lambda: ticks(redis_server) >= reached + 2)

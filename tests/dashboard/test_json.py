"""The JSON of the overview matches Redis."""

from __future__ import annotations

import math
import random
from datetime import datetime

import pytest
from django.test import Client

from django_redis_components.analytics import SignIns, UniqueVisitors
from django_redis_components.taskqueue import get_queue, task
from django_redis_components.taskqueue.shards import home
from tests.dashboard.support import URL, client_of, now_ms, write_poller, write_queue, write_worker
from tests.support import Store, eventually
from tests.taskqueue.support import new_fetcher

pytestmark = pytest.mark.django_db

QUEUES = ("high", "default", "mail")


@task
def figure_task(number: int) -> int:
    return number


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def figures(client: Client) -> dict:
    response = client.get(URL, {"format": "json"})
    assert (response.status_code, response["Content-Type"]) == (200, "application/json")
    return response.json()


def test_queue_counts_match_redis_after_random_workload(store: Store, viewer: Client) -> None:
    rnd = random.Random(7)
    for number in range(120):
        options = {"queue_name": rnd.choice(QUEUES), "priority": rnd.choice([0, 0, 5])}
        if rnd.random() < 0.4:
            options["run_after"] = rnd.randrange(60, 600)
        figure_task.using(**options).enqueue(number)

    shown = {queue["name"]: queue for queue in figures(viewer)["queues"]}

    base = home().base
    for name in QUEUES:
        raw = store.raw
        assert shown[name]["ready"] == raw.llen(f"{base}:q:{name}:ready") + raw.zcard(f"{base}:q:{name}:priority")
        assert shown[name]["scheduled"] == raw.zcard(f"{base}:q:{name}:scheduled")
        [(_, due_ms)] = raw.zrange(f"{base}:q:{name}:scheduled", 0, 0, withscores=True)
        shown_ms = datetime.fromisoformat(shown[name]["next_due_at"]).timestamp() * 1_000
        assert round(shown_ms) == math.ceil(due_ms)
        assert 0 <= shown[name]["oldest_age"] < 60
    assert sum(queue["ready"] + queue["scheduled"] for queue in shown.values()) == 120


def test_each_state_is_counted(store: Store, viewer: Client) -> None:
    write_queue(store, "mail", ready=3, age_s=90, scheduled=4, running=5, failed=6, unregistered=7)
    write_worker(store, "here:a", queues=["mail", "low"])

    [queue] = figures(viewer)["queues"]

    assert {state: queue[state] for state in ("ready", "scheduled", "running", "failed", "unregistered")} == {
        "ready": 3,
        "scheduled": 4,
        "running": 5,
        "failed": 6,
        "unregistered": 7,
    }
    assert queue["oldest_age"] == pytest.approx(90, abs=5)
    assert queue["live_workers"] == 1
    assert queue["paused"] is None


def test_limited_tasks_are_counted(store: Store, viewer: Client) -> None:
    figure_task.using(concurrency=1).enqueue_many([((number,), {}) for number in range(3)])
    new_fetcher().fetch("0", 3)

    [queue] = figures(viewer)["queues"]

    assert (queue["running"], queue["ready"], queue["limited"]) == (1, 2, 2)


def test_workers_report_their_state(store: Store, viewer: Client) -> None:
    started = now_ms(store) / 1_000 - 3_600
    write_worker(store, "web-1:a", seen_s=3, queues=["high", "low"], busy=2, finished=10, started_at=started, pid=41)
    write_worker(store, "web-2:b", seen_s=60)
    write_poller(store)

    found = figures(viewer)

    first, second = found["workers"]
    assert first["heartbeat_age"] == pytest.approx(3, abs=2)
    assert datetime.fromisoformat(first["started_at"]).timestamp() == pytest.approx(started, abs=0.01)
    assert {name: first[name] for name in first if name not in ("heartbeat_age", "started_at")} == {
        "id": "web-1:a",
        "alive": True,
        "host": "web-1",
        "pid": 41,
        "queues": ["high", "low"],
        "threads": 8,
        "busy": 2,
        "finished": 10,
    }
    assert (second["id"], second["alive"], second["started_at"]) == ("web-2:b", False, None)
    assert found["poller"] == "here:1:abc"


def test_a_real_worker_is_alive_until_it_is_killed(redis_server: Store, viewer: Client, settings, children) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"LEASE": 1}}
    child = children.manage("runworker", "default", "mail", "--threads", "3")

    def alive() -> bool:
        found = figures(viewer)
        return bool(found["poller"]) and [worker["alive"] for worker in found["workers"]] == [True]

    eventually(alive)
    [worker] = figures(viewer)["workers"]
    assert (worker["queues"], worker["threads"], worker["busy"]) == (["default", "mail"], 3, 0)
    assert worker["pid"] > 0
    assert worker["started_at"] is not None

    child.close()

    eventually(lambda: [worker["alive"] for worker in figures(viewer)["workers"]] == [False])
    assert "worker_lost" in [problem["code"] for problem in figures(viewer)["problems"]]


def test_names_of_the_settings_are_used(redis_server: Store, viewer: Client, settings) -> None:
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "DASHBOARD": {"VISITORS": "shop", "SIGN_INS": "staff", "ENVIRONMENT": "Staging"},
    }
    UniqueVisitors("shop").add("a", "b", "c")
    SignIns("staff").sign_in(1)

    found = figures(viewer)

    assert (found["visitors"]["name"], found["visitors"]["today"]) == ("shop", 3)
    assert (found["sign_ins"]["name"], found["sign_ins"]["today"]) == ("staff", 1)
    assert found["environment"] == "Staging"


def test_names_default_to_the_analytics_site(redis_server: Store, viewer: Client, settings) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "ANALYTICS": {"SITE": "shop"}}

    found = figures(viewer)

    assert (found["visitors"]["name"], found["sign_ins"]["name"]) == ("shop", "shop")


def test_empty_redis_returns_zeros(store: Store, viewer: Client) -> None:
    found = figures(viewer)

    assert (found["queues"], found["workers"], found["poller"], found["problems"]) == ([], [], None, [])
    assert found["visitors"]["today"] == 0
    assert found["sign_ins"]["today"] == 1  # the viewer's own
    assert found["errors"] == {}
    assert found["days_time_zone"] == "Europe/Berlin"
    assert found["cost"]["commands"] > 2


def test_address_has_no_credentials(redis_server: Store, viewer: Client) -> None:
    assert figures(viewer)["address"] == f"127.0.0.1:{redis_server.servers[0].port} (connection 'default')"


def test_pause_is_included(redis_server: Store, viewer: Client) -> None:
    figure_task.enqueue(1)
    get_queue("default").pause("the mail server is down")

    found = figures(viewer)

    [queue] = found["queues"]
    assert queue["paused"]["reason"] == "the mail server is down"
    assert queue["paused"]["ends_at"] is None
    assert [problem["code"] for problem in found["problems"]] == ["poller_missing", "paused"]

"""The overview of queues, workers and poller equals the stored state."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command, arun, run
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats import queue_stats
from django_redis_components.taskqueue.stats.due import HOUR_MS, read_due
from django_redis_components.taskqueue.stats.errors import list_errors
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo
from django_redis_components.taskqueue.stats.totals import read_totals
from tests.support import Store, run_async
from tests.taskqueue.stats.support import QUEUES, stir
from tests.taskqueue.support import (
    base_key,
    end_lease,
    fall_due,
    new_fetcher,
    queue_key,
    recover,
    renew,
    renewal,
    server_ms,
    taskqueue_settings,
    work_off,
)
from tests.taskqueue.tasks import add, fail, note


def overview() -> queue_stats.TaskQueueOverview:
    return run(connections.client(), queue_stats.read_overview(home()))


def raw_depth(store: Store, queue: str) -> dict[str, int]:
    """The same figures from the records themselves: each task's own state, and where it stands."""
    raw, now = store.raw, server_ms(store)
    scheduled = raw.zrange(queue_key(store, "scheduled", queue), 0, -1, withscores=True)
    waiting = [
        *raw.lrange(queue_key(store, "requeued", queue), 0, -1),
        *raw.lrange(queue_key(store, "ready", queue), 0, -1),
        *raw.zrange(queue_key(store, "priority", queue), 0, -1),
    ]
    waiting = [task_id for task_id in waiting if raw.hget(base_key(store, "t", task_id.decode()), "s") != b"cancelled"]
    states: dict[str, int] = {}
    for key in raw.scan_iter(match=base_key(store, "t", "*"), count=1_000):
        if raw.type(key) == b"hash" and raw.hget(key, "q") == queue.encode():
            state = (raw.hget(key, "s") or b"").decode()
            states[state] = states.get(state, 0) + 1
    due = sum(score <= now for _, score in scheduled)
    assert len({*waiting, *[task_id for task_id, _ in scheduled]}) == len(waiting) + len(scheduled), "no task twice"
    assert sum(states.get(state, 0) for state in ("", "ready", "scheduled", "retrying")) == len(waiting) + len(
        scheduled
    )
    return {
        "ready": len(waiting) + due,
        "scheduled": len(scheduled) - due,
        "running": states.get("running", 0),
        "failed": states.get("failed", 0),
        "unregistered": states.get("unregistered", 0),
    }


def shown(depth: QueueInfo) -> dict[str, int]:
    return {name: getattr(depth, name) for name in ("ready", "scheduled", "running", "failed", "unregistered")}


@pytest.mark.parametrize("seed", [1, 2])
def test_depths_match_raw_reads_after_a_random_workload(store: Store, seed: int) -> None:
    stir(store, seed)

    expected = {queue: raw_depth(store, queue) for queue in QUEUES}

    assert {depth.name: shown(depth) for depth in overview().queues} == expected
    assert {queue: shown(get_queue(queue).info()) for queue in QUEUES} == expected
    assert all(sum(counts[name] for counts in expected.values()) for name in expected["low"]), "each state occurs"


def test_an_empty_queue_has_zero_depths(store: Store) -> None:
    empty = QueueInfo("default", 0, 0, 0, 0, 0, None, None, None)

    assert shown(get_queue("default").info()) == shown(empty)
    depth = get_queue("default").info()
    assert (depth.oldest_age, depth.next_due_at) == (None, None)
    found = overview()
    assert (found.queues, found.workers, found.poller) == ([], [], None)
    assert repr(get_queue("default")) == "<Queue default>"


def test_async_methods_return_the_same_depths(store: Store) -> None:
    add.enqueue(1, 2)

    async def read() -> Any:
        return await get_queue("default").ainfo(), await arun(connections.aclient(), queue_stats.read_overview(home()))

    depth, found = run_async(read)

    assert shown(depth) == shown(get_queue("default").info())
    assert [shown(each) for each in found.queues] == [shown(depth)]


@pytest.mark.parametrize("part", ["requeued", "ready", "priority", "scheduled"])
def test_oldest_age_is_the_age_of_the_longest_waiting_task(store: Store, part: str) -> None:
    options = {"priority": {"priority": 3}, "scheduled": {"run_after": 60}}.get(part, {})
    result = note.using(**options).enqueue("old")
    if part == "requeued":
        new_fetcher(worker="dies").fetch("0", 1)
        end_lease(store, result.id)
        recover()
    if part == "scheduled":
        fall_due(store, result, ms_ago=50_000)
    else:
        now_us = int(server_ms(store) * 1_000)
        store.raw.hset(base_key(store, "t", result.id), "e", now_us - 50_000_000)
    for _ in range(3):
        note.enqueue("new")
    note.using(priority=1).enqueue("new")

    age_s = get_queue("default").info().oldest_age

    assert age_s is not None
    assert 50 <= age_s < 70


def test_next_due_at_is_the_earliest_due_time(store: Store) -> None:
    for seconds in (90, 30, 60):
        note.using(run_after=seconds).enqueue(seconds)

    due = get_queue("default").info().next_due_at

    assert due is not None
    assert 10 < due.timestamp() - server_ms(store) / 1_000 <= 30.01


def test_overview_lists_workers_with_their_reports(store: Store) -> None:
    renew("plain", {})
    info = {"host": "h", "pid": 7, "queues": ["a", "b"], "threads": 8, "started_at": 1e9, "busy": 3, "finished": 99}
    store.raw.set(base_key(store, "worker", "h:1"), json.dumps(info))
    store.raw.zadd(base_key(store, "workers"), {"h:1": server_ms(store) - 5_000, "silent:2": server_ms(store) - 9_000})

    plain, talker, silent = overview().workers

    assert (plain.id, plain.pid, plain.host) == ("plain", 1, "plain")
    assert (talker.id, talker.host, talker.pid, talker.queues, talker.threads) == ("h:1", "h", 7, ("a", "b"), 8)
    assert (talker.busy, talker.finished) == (3, 99)
    assert talker.started_at == datetime.fromtimestamp(1e9, UTC)
    assert 5 <= talker.heartbeat_age < 25
    assert 0 <= plain.heartbeat_age < 20
    assert (silent.id, silent.host, silent.pid, silent.queues, silent.started_at) == ("silent:2", "silent", 0, (), None)


def test_overview_names_the_active_poller(store: Store) -> None:
    poller = Poller(home(), connections.client())
    poller.step()

    assert overview().poller == poller.id


@pytest.mark.parametrize("queues", [0, 500])
def test_overview_takes_two_round_trips(redis_server: Store, queues: int) -> None:
    renew("w", {})
    for number in range(queues):
        redis_server.raw.zadd(base_key(redis_server, "queues"), {f"q{number:03}": number})
    trips = []

    class Counting:
        def execute(self, request: Any) -> Any:
            return self.execute_many([request])[0]

        def execute_many(self, requests: Any) -> Any:
            trips.append(len(requests))
            return connections.client().execute_many(requests)

    run(Counting(), queue_stats.read_overview(home()))  # type: ignore[arg-type]

    assert trips == [6, 3 if queues else 1]


def test_overview_reads_the_eviction_policy(own_server: Store) -> None:
    assert (overview().eviction_policy, overview().evicts) == ("noeviction", False)

    own_server.raw.config_set("maxmemory-policy", "allkeys-lru")

    assert (overview().eviction_policy, overview().evicts) == ("allkeys-lru", True)


def test_eviction_policy_is_none_without_permission_for_info(own_server: Store, settings: Any) -> None:
    own_server.raw.execute_command("ACL SETUSER app on >secret ~* &* +@all -info")
    url = own_server.url.replace("redis://", "redis://app:secret@")
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}
    add.enqueue(1, 2)

    found = overview()

    assert (found.eviction_policy, found.evicts) == (None, False)
    assert [depth.ready for depth in found.queues] == [1]


def test_eviction_policy_is_none_when_the_reply_lacks_it() -> None:
    assert queue_stats.eviction_policy_of(b"# Memory\r\nused_memory:1\r\n") is None
    assert queue_stats.eviction_policy_of(redis.exceptions.ResponseError("NOPERM")) is None


@pytest.mark.contract
def test_overview_raises_redis_errors(store: Store) -> None:
    store.raw.set(base_key(store, "queues"), "not a zset")

    with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
        overview()


def test_overview_returns_all_of_many_queues(redis_server: Store, settings: Any) -> None:
    names = {f"q{number:03}": number for number in range(550)}
    connections.client().execute(
        Command("ZADD", base_key(redis_server, "queues"), *[part for name, at in names.items() for part in (at, name)])
    )
    taskqueue_settings(settings, QUEUES=["q300", "q449"])
    get_queue("q449").pause()

    assert {depth.name for depth in overview().queues} == set(names)
    assert len(overview().queues) == len(run(connections.client(), queue_stats.read_depths(home()))) == 550
    assert len(run(connections.client(), read_totals(home()))) == 550


def test_due_tasks_of_all_queues_are_counted(redis_server: Store) -> None:
    names = {f"q{number:03}": number for number in range(550)}
    redis_server.raw.zadd(base_key(redis_server, "queues"), names)
    for name in ("q001", "q549"):
        note.using(queue_name=name, run_after=60).enqueue("later")

    assert sum(run(connections.client(), read_due(home())).counts) == 2


def test_due_tasks_are_counted_in_their_hours(redis_server: Store) -> None:
    hour_ms = server_ms(redis_server) // HOUR_MS * HOUR_MS
    hours = {
        "overdue": (-30, -1),
        "one": (2,),
        "bounds": (0, 1, 23, 24),
        "many": tuple(range(24)) * 2,
        "later": (25, 90),
    }
    for queue, offsets in hours.items():
        redis_server.raw.zadd(base_key(redis_server, "queues"), {queue: 1})
        due = {f"{queue}-{number}": hour_ms + hour * HOUR_MS for number, hour in enumerate(offsets)}
        redis_server.raw.zadd(queue_key(redis_server, "scheduled", queue), due)

    found = run(connections.client(), read_due(home()))

    start = round(found.first_at.timestamp() * 1_000 - hour_ms) // HOUR_MS  # 0, or 1 if an hour has begun meanwhile
    expected = [0] * 24
    for hour in (hour for offsets in hours.values() for hour in offsets if hour - start < 24):
        expected[max(0, hour - start)] += 1
    assert found.counts == expected


def test_errors_of_all_queues_are_listed(redis_server: Store) -> None:
    redis_server.raw.zadd(base_key(redis_server, "queues"), {f"q{number:03}": number for number in range(550)})
    for name in ("q001", "q549", "q300"):
        fail.using(queue_name=name).enqueue(name)
        work_off(name)

    found = run(connections.client(), list_errors(home(), [], 2))

    assert ([group.queue for group in found.groups], found.total) == (["q300", "q549"], 3)


def test_latest_errors_are_listed_of_more_queues_than_groups(redis_server: Store) -> None:
    for name, texts in {"a": ("one", "two"), "b": ("three",), "c": ("four", "five")}.items():
        for text in texts:
            fail.using(queue_name=name).enqueue(text)
            work_off(name)

    found = run(connections.client(), list_errors(home(), [], 2))

    assert ([(group.queue, group.message) for group in found.groups], found.total) == (
        [("c", "five"), ("c", "four")],
        5,
    )


def test_metrics_of_the_busiest_queues_are_read(redis_server: Store) -> None:
    redis_server.raw.zadd(base_key(redis_server, "queues"), {f"q{number:03}": number for number in range(450)})
    note.using(queue_name="q449").enqueue_many([(("a",), {})] * 2)
    found = {queue.name: queue for queue in overview().queues}

    assert "q449" in overview().metrics
    assert found["q449"].arrival_rate


def test_traffic_names_the_arrivals_of_each_queue(store: Store) -> None:
    for queue, count in {"mail": 3, "high": 1}.items():
        note.using(queue_name=queue).enqueue_many([(("a",), {})] * count)

    _, arrivals = run(connections.client(), queue_stats.read_traffic(home(), ["high", "empty", "mail"]))

    assert (arrivals["high"], arrivals["empty"]) == (None, None), "of fewer than two tasks there is no rate"
    assert arrivals["mail"] is not None
    assert arrivals["mail"] > 0


def test_heartbeat_registers_the_worker_for_its_queues(store: Store) -> None:
    for worker, queues in {"app:1.a": ["mail", "default"], "app:2.a": ["mail"], "app:3.a": ["mail"]}.items():
        connections.client().execute(renewal(worker, [], lease_ms=15_000, info=json.dumps({"queues": queues})))
    store.raw.zadd(queue_key(store, "workers", "mail"), {"app:3.a": server_ms(store) - 16_000})

    live = {name: get_queue(name).info().live_workers for name in ("mail", "default", "other")}

    assert live == {"mail": 2, "default": 1, "other": 0}
    assert 590 < store.raw.ttl(queue_key(store, "workers", "mail")) <= 600
    assert (overview().worker_count, overview().live_count) == (3, 3)


def test_poller_removes_workers_without_heartbeats_from_their_queues(store: Store) -> None:
    note.using(queue_name="mail").enqueue("a")
    now_ms = server_ms(store)
    ages = {"app:1.a": now_ms, "app:2.a": now_ms - 601_000, "app:3.a": now_ms + 3_600_000}
    store.raw.zadd(queue_key(store, "workers", "mail"), ages)

    recover()

    assert store.raw.zrange(queue_key(store, "workers", "mail"), 0, -1) == [b"app:1.a"]


def test_configured_queues_are_listed_before_their_first_task(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, QUEUES=["high", "default", "low"])
    add.using(queue_name="low").enqueue(1, 2)
    add.using(queue_name="high").enqueue(1, 2)

    seen = [(row.name, row.ready) for row in overview().queues]

    assert sorted(seen) == [("default", 0), ("high", 1), ("low", 1)]
    assert seen == [(row.name, row.ready) for row in run(connections.client(), queue_stats.read_depths(home()))]


def test_reading_statistics_writes_nothing(store: Store) -> None:
    add.enqueue(1, 2)
    work_off()
    before = {key: store.raw.dump(key) for key in store.keys()}  # noqa: SIM118 - a Store is no dict

    overview()
    get_queue("default").info()

    assert {key: store.raw.dump(key) for key in store.keys()} == before  # noqa: SIM118

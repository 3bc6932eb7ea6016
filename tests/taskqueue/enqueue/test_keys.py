"""Every key has a TTL or an owner, and every kind of key is documented."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from django_redis_components import taskqueue
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import Schedules, TaskResult, Unique, chain, get_queue, group, outbox, registry
from django_redis_components.taskqueue.enqueue import prepare
from django_redis_components.taskqueue.fields import Field, FlowField
from django_redis_components.taskqueue.flows.enqueue import Callbacks, prepare_flow
from django_redis_components.taskqueue.flows.graph import FlowGraph
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.metrics import SIZE
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.poller_failure import FailureReport
from django_redis_components.taskqueue.store.pools import keep_pool
from django_redis_components.taskqueue.store.scripts import REGISTER_SCHEDULES
from django_redis_components.taskqueue.store.workers import command_worker, stack_key
from tests.support import Store, eventually
from tests.taskqueue.support import (
    Ack,
    base_key,
    end_lease,
    fall_due,
    new_fetcher,
    queue_key,
    recover,
    renew,
    server_ms,
    settle_now,
    taskqueue_settings,
    work_off,
)
from tests.taskqueue.tasks import add, come_back, fail, fail_thrice, note

LEASE_S, FAILED_TTL_S, FINISHED_TTL_S = 100, 5_000, 3_000

#: Each kind in the package's docstring: its pattern, and its longest TTL in seconds (None: no TTL).
KINDS: dict[str, tuple[str, float | None]] = {
    "t:<id>": (r"t:[\w-]{20}", FAILED_TTL_S),
    "t:<id>:errors": (r"t:[\w-]{20}:errors", FAILED_TTL_S),
    "t:<id>:done": (r"t:[\w-]{20}:done", 60),
    "q:<queue>:requeued": (r"q:\w+:requeued", None),
    "q:<queue>:ready": (r"q:\w+:ready", None),
    "q:<queue>:priority": (r"q:\w+:priority", None),
    "q:<queue>:scheduled": (r"q:\w+:scheduled", None),
    "q:<queue>:retrying": (r"q:\w+:retrying", None),
    "q:<queue>:running": (r"q:\w+:running", None),
    "q:<queue>:failed": (r"q:\w+:failed", FAILED_TTL_S),
    "q:<queue>:unregistered": (r"q:\w+:unregistered", None),
    "q:<queue>:successful": (r"q:\w+:successful", FINISHED_TTL_S),
    "q:<queue>:cancelled": (r"q:\w+:cancelled", FINISHED_TTL_S),
    "q:<queue>:expired": (r"q:\w+:expired", FINISHED_TTL_S),
    "wakeup:q:<queue>, :poller": (r"wakeup:(q:\w+|poller)", 60),
    "wakeup:s:<supervisor>": (r"wakeup:s:[\w:]+", 60),
    "commands:<supervisor>": (r"commands:[\w:]+", 60),
    "kept_pools": (r"kept_pools", None),
    "stack:<op>": (r"stack:\w+", 60),
    "queues, workers, idle_queues": (r"queues|workers|idle_queues", None),
    "worker:<id>": (r"worker:[\w:]+", LEASE_S * 40),
    "deploys, versions": (r"deploys|versions", 365 * 86_400),
    "last_fetch:<worker>:<thread>": (r"last_fetch:[\w:]+:\w+", LEASE_S),
    "poller": (r"poller", 10),
    "poller_failure": (r"poller_failure", 60),
    "contact": (r"contact", None),
    "paused": (r"paused", None),
    "q:<queue>:tombstones": (r"q:\w+:tombstones", None),
    "q:<queue>:minute:<minute>": (r"q:\w+:minute:\d+", 181 * 60),
    "q:<queue>:hour:<hour>": (r"q:\w+:hour:\d+", 337 * 3_600),
    "q:<queue>:total": (r"q:\w+:total", 337 * 3_600),
    "class_hours:<hour>:<name>": (r"class_hours:\d+:[\w.]+", 170 * 3_600),
    "class_rollup": (r"class_rollup(:\d+)?", 170 * 3_600),
    "class_queues:<hour>": (r"class_queues:\d+", 241 * 60),
    "q:<queue>:task_names:<hour>": (r"q:\w+:task_names:\d+", 241 * 60),
    "q:<queue>:errors": (r"q:\w+:errors", FAILED_TTL_S),
    "q:<queue>:error:<print>": (r"q:\w+:error:[0-9a-f]{16}", FAILED_TTL_S),
    "rollup": (r"rollup(:\d+)?", 337 * 3_600),
    "packed_minutes:<number>": (r"packed_minutes:\d+", 72 * 60),
    "packed": (r"packed", 337 * 3_600),
    "history:<minutes>:<number>": (r"history:(1|10|60|1440):\d+", 92 * 86_400),
    "q:<queue>:purged_at": (r"q:\w+:purged_at", 7 * 86_400),
    "u:<digest>": (r"u:[\w-]{22}", None),
    "quarantine:<worker>": (r"quarantine:[\w:]+", 86_400),
    "trash_index": (r"trash_index", None),
    "trash:<purge>:<part>": (r"trash:\w+:(requeued|ready|priority|scheduled)", None),
    "schedules": (r"schedules", None),
    "schedule:<name>": (r"schedule:\w+", None),
    "paused_schedules": (r"paused_schedules", None),
    "added_schedules": (r"added_schedules", None),
    "schedule_counts": (r"schedule_counts", None),
    "schedules_version": (r"schedules_version", None),
    "reply:<op>, reply:<id>": (r"reply:[\w-]+", 60),
    "unfinished_flows": (r"unfinished_flows", None),
    "partial_flows": (r"partial_flows", None),
    "flow_work": (r"flow_work", None),
    "outbox": (r"outbox", None),
    "flow:<flow>": (r"flow:[\w-]{20}", FAILED_TTL_S),
    "flow_steps:<flow>": (r"flow_steps:[\w-]{20}", None),
    "q:<queue>:waiting": (r"q:\w+:waiting", None),
    "q:<queue>:limited": (r"q:\w+:limited", None),
    "q:<queue>:reserved": (r"q:\w+:reserved", None),
    "q:<queue>:grouped": (r"q:\w+:grouped", None),
    "q:<queue>:turns": (r"q:\w+:turns", None),
    "q:<queue>:paused_groups": (r"q:\w+:paused_groups", None),
    "holders:c:<key>": (r"holders:c:[\w.]+", None),
    "concurrency_waiters:c:<key>": (r"concurrency_waiters:c:[\w.]+", 30 * 86_400),
    "rate:r:<key>": (r"rate:r:[\w.]+", 60),
    "limit:<limit>": (r"limit:[cr]:[\w.]+", 30 * 86_400),
    "sequence": (r"sequence", None),
}


@pytest.fixture
def busy_store(store: Store, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A queue in which everything has happened that can happen to a task."""
    taskqueue_settings(settings, LEASE=LEASE_S, FAILED_TTL=FAILED_TTL_S, FINISHED_TTL=FINISHED_TTL_S)
    for queue in ("default", "mail"):
        waited_for = add.using(queue_name=queue).enqueue(2, 3)
        store.raw.hset(base_key(store, "t", waited_for.id), "W", 1)
        fail.using(queue_name=queue).enqueue()
        chain(add.using(queue_name=queue).s(2, 3), fail.using(queue_name=queue).si(), add.s(1)).enqueue()
        fail_thrice.using(queue_name=queue, backoff=60).enqueue()
        come_back.using(queue_name=queue).enqueue(60)
        note.using(queue_name=queue, expires=datetime(1969, 1, 1, tzinfo=UTC)).enqueue("late")
        work_off(queue)
        with monkeypatch.context() as elsewhere:
            note.using(queue_name=queue).enqueue("unregistered")
            elsewhere.setattr(registry, "tasks", {})
            work_off(queue)
        given_back = note.using(queue_name=queue, max_deliveries=1).enqueue("back")
        worker = new_fetcher(queue, worker=f"giver:{queue}")
        [job] = worker.fetch("0", 1)
        settle_now(worker, Ack(job.id, job.token, "requeued"))
        new_fetcher(queue, worker=f"dies:{queue}").fetch("0", 1)
        end_lease(store, given_back.id, queue=queue)
        recover()
        suspect = note.using(queue_name=queue, max_deliveries=2).enqueue("suspect")
        new_fetcher(queue, worker=f"dies:too:{queue}").fetch("0", 1)
        end_lease(store, suspect.id, queue=queue)
        recover()
        work_off(queue)
        note.using(queue_name=queue).enqueue_many([((number,), {}) for number in range(4)])
        worker = new_fetcher(queue, worker=f"runs:{queue}")
        running, back = worker.fetch("0", 2)
        settle_now(worker, Ack(back.id, back.token, "requeued"))
        renew(f"runs:{queue}", {running.id: running.token}, LEASE_S * 1_000)
        TaskResult(note, note.name, running.id, home(), {}).cancel()
        note.using(queue_name=queue, run_after=60).enqueue("later")
        fall_due(store, note.using(queue_name=queue, run_after=60).enqueue("due"), queue=queue)
        note.using(queue_name=queue, priority=5, unique=True).enqueue("urgent")
        note.using(queue_name=queue).enqueue("not at all").cancel()
        replaced = note.using(queue_name=queue, unique=Unique(until="started", on_conflict="replace"), run_after=60)
        replaced.enqueue_many([((queue,), {})] * 2)
    run(connections.client(), command_worker(home(), "runs:mail", "quiet", "ada", new_op()))
    run(connections.client(), keep_pool(home(), [("app-1", "mail")], {"threads": "8"}, "ada"))
    store.raw.set(stack_key(home(), "op"), "", ex=60)
    stored = prepare(note.using(queue_name="old"), ["from a row"], {})[1]
    connections.client().execute(outbox.send_once(home(), [("token", stored.arguments)]))
    note.using(queue_name="old").enqueue("never")
    get_queue("old").purge()
    chain(note.using(queue_name="old", run_after=60).s("first"), note.using(queue_name="flows").s()).enqueue()
    note.using(queue_name="limited", concurrency=1).enqueue_many([(("waits for a slot",), {})] * 2)
    note.using(queue_name="limited", rate="1/m").enqueue_many([(("waits for its turn",), {})] * 3)
    new_fetcher("limited", worker="takes").fetch("0", 9)
    get_queue("old").pause("a look")
    note.using(queue_name="groups", fair="ada").enqueue("waits for a turn")
    get_queue("groups").pause_group("bob")
    minute = next(key for key in store.keys() if b":q:mail:minute:" in key)  # noqa: SIM118 - a Store is no dict
    past = b"%s:%d" % (minute.rpartition(b":")[0], int(minute.rpartition(b":")[2]) - 1)
    store.raw.set(past, store.raw.get(minute), ex=60)
    store.raw.delete(base_key(store, "rollup"), base_key(store, "class_rollup"))
    write_past_hour(store, "mail", note.name)
    recover()
    recover()
    rows = ["nightly", 1, "0 3 * * *", 0, "{}", 0]
    connections.client().execute(
        REGISTER_SCHEDULES(base=base_key(store), poller="here:poller", keep_ms=1_000, version=0, rows=rows)
    )
    Schedules().add("added", note, every=60, args=["x"])
    store.raw.hset(base_key(store, "schedule_counts"), "added", 1)
    Schedules().pause("nightly", author="ada")
    poller = Poller(home(), connections.client())
    poller.step()
    FailureReport(home(), connections.client(), poller.id).write(KeyError("odd"), 1, 1.0)
    partly = group(note.using(queue_name="flows").s(number) for number in range(300))  # of which one part is sent
    connections.client().execute(prepare_flow(FlowGraph(partly), Callbacks()).calls[0])
    chain(note.using(queue_name="first").s("first"), group(note.si(number) for number in range(101))).enqueue()
    work_off("first")  # more tasks start after it than at once
    return store


def write_past_hour(store: Store, queue: str, name: str) -> None:
    """Count a run of a name in the first minute of the last hour that has ended, as the scripts do."""
    hour = int(server_ms(store)) // 3_600_000 - 1
    store.raw.hset(queue_key(store, f"task_names:{hour}", queue), name, 1)
    store.raw.expire(queue_key(store, f"task_names:{hour}", queue), 600)
    store.raw.set(queue_key(store, f"minute:{60 * hour}", queue), bytes(SIZE * 4) + b"\0\0\0\1", ex=600)


def kinds(store: Store) -> dict[str, list[bytes]]:
    """The keys of the test by kind; those of no kind stand under an empty name."""
    found: dict[str, list[bytes]] = {}
    prefix = base_key(store) + ":"
    for key in store.keys():  # noqa: SIM118 - a Store is no dict
        rest = key.decode().removeprefix(prefix)
        kind = next((name for name, (pattern, _) in KINDS.items() if re.fullmatch(pattern, rest)), "")
        found.setdefault(kind, []).append(key)
    return found


def test_documented_keys_are_those_of_this_test() -> None:
    table = (taskqueue.__doc__ or "").partition("\nKeys")[2].split("=\n")[2]

    assert [line[:30].strip() for line in table.splitlines() if line and not line.startswith("=")] == list(KINDS)


def test_keys_of_every_documented_kind_and_no_other_exist(busy_store: Store) -> None:
    assert set(kinds(busy_store)) == set(KINDS)


@pytest.mark.contract
def test_keys_have_the_documented_ttl(busy_store: Store) -> None:
    for kind, keys in kinds(busy_store).items():
        longest_s = KINDS[kind][1]
        for key in keys:
            left_ms = busy_store.raw.pttl(key)
            if longest_s is None:
                assert left_ms == -1, key
            elif kind == "flow:<flow>" and busy_store.raw.hget(key, FlowField.unfinished) != b"0":
                assert left_ms == -1, f"{key!r}: a flow that has not finished has no end"
            elif kind == "t:<id>" and busy_store.raw.hget(key, Field.state) not in (
                b"successful",
                b"failed",
                b"cancelled",
                b"expired",
            ):
                assert left_ms == -1, f"{key!r}: a task that has not finished has no end"
            elif kind == "t:<id>" and left_ms == -1:
                assert busy_store.raw.hexists(key, Field.flow_ref), (
                    f"{key!r}: only a flow that has not finished keeps it"
                )
            else:
                assert 0 < left_ms <= longest_s * 1_000, key


def test_result_ttl_sets_the_lifetime_of_a_result(store: Store) -> None:
    short, usual = add.using(result_ttl=120).enqueue(1, 2), add.enqueue(1, 2)

    work_off()

    assert 110 < store.raw.ttl(base_key(store, "t", short.id)) <= 120
    assert 590 < store.raw.ttl(base_key(store, "t", usual.id)) <= 600


def test_finished_tasks_leave_only_results_and_their_list(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=LEASE_S, FAILED_TTL=FAILED_TTL_S)
    for priority in (-1, 0, 1):
        note.using(priority=priority).enqueue(priority)
    fall_due(store, note.using(run_after=60).enqueue("due"))

    work_off()

    assert set(kinds(store)) == {
        "t:<id>",
        "q:<queue>:successful",
        "wakeup:q:<queue>, :poller",
        "queues, workers, idle_queues",
        "last_fetch:<worker>:<thread>",
        "sequence",
        "q:<queue>:minute:<minute>",
        "q:<queue>:task_names:<hour>",
    }


def test_expired_results_leave_no_keys(store: Store) -> None:
    def pass_through(count: int) -> None:
        results = note.using(result_ttl=0.05).enqueue_many([((number,), {}) for number in range(count)])
        work_off()
        records = {base_key(store, "t", result.id).encode() for result in results}
        eventually(lambda: not records & set(store.keys()))

    def lasting() -> list[bytes]:
        """Without the batches that a fetch slot keeps for a lease; a new minute or hour begins at any time."""
        keys = store.keys()
        kinds = {re.sub(rb":(minute|hour|task_names):\d+$", rb":\1", key) for key in keys}
        return sorted(key for key in kinds if b":last_fetch:" not in key)

    pass_through(5)
    before = lasting()

    pass_through(500)

    assert lasting() == before


def test_the_poller_prunes_old_failures_and_workers(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, FAILED_TTL=FAILED_TTL_S)
    fail.enqueue("kept")
    work_off()
    renew("lives", {})
    store.raw.zadd(queue_key(store, "failed"), {"old": 1})
    store.raw.zadd(base_key(store, "workers"), {"gone": 1})

    recover()

    assert store.raw.zrange(base_key(store, "workers"), 0, -1) == [b"lives"]
    assert b"old" not in store.raw.zrange(queue_key(store, "failed"), 0, -1)
    assert store.raw.zcard(queue_key(store, "failed")) == 1

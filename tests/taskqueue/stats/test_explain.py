"""`explain`: the state of a task, and each fact that keeps it from running."""

from __future__ import annotations

import json

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import TaskResult, TaskResultDoesNotExist, chain, get_queue, group
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.explain import Explanation, explain
from django_redis_components.taskqueue.store import control
from tests.dashboard.support import settle_tasks, write_worker
from tests.support import Store
from tests.taskqueue.store.support import fail_many, park_many
from tests.taskqueue.support import base_key, end_lease, new_fetcher, queue_key, renewal
from tests.taskqueue.tasks import add, fail, note, note_async


def why(result: TaskResult) -> Explanation:
    return run(connections.client(), explain(home(), result.id))


def codes(result: TaskResult) -> list[str]:
    return [reason.code for reason in why(result).reasons]


def heartbeat(worker: str, queue: str) -> None:
    info = json.dumps({"queues": [queue], "threads": 1})
    connections.client().execute(renewal(worker, [], lease_ms=15_000, info=info))


@pytest.fixture
def worker(redis_server: Store) -> None:
    write_worker(redis_server, "here:1", threads=4, busy=1)


def test_ready_task_is_behind_those_that_are_served_first(redis_server: Store, worker: None) -> None:
    urgent = [note.using(priority=priority).enqueue("urgent") for priority in (5, 9)]
    plain = note.enqueue_many([((number,), {}) for number in range(1_400)])
    low = note.using(priority=-5).enqueue("low")

    for result, ahead, higher in (
        (urgent[0], 1, 1),
        (urgent[1], 0, 0),
        (plain[0], 2, 2),
        (plain[700], 702, 2),
        (plain[1_399], 1_401, 2),
        (low, 1_402, 1_402),
    ):
        found = why(result)
        assert (found.state, found.ahead, found.higher, found.is_exact) == ("ready", ahead, higher, True)
        assert codes(result) == (["behind"] if ahead else ["next"])


def test_place_in_the_middle_of_a_long_list_is_found_by_its_time(redis_server: Store, worker: None) -> None:
    results = [result for _ in range(8) for result in note.enqueue_many([((0,), {}) for _ in range(1_000)])]

    for rank in (0, 999, 3_500, 5_001, 7_999):
        found = why(results[rank])
        assert found.place == "ready"
        assert abs(found.ahead - rank) <= (0 if found.is_exact else 1_000), rank


def test_queue_without_a_worker_or_that_is_paused(redis_server: Store) -> None:
    result = note.enqueue("x")
    assert codes(result) == ["no_worker", "next"]
    write_worker(redis_server, "dead:1", seen_s=3_600)
    write_worker(redis_server, "other:1", queues=["mail"])
    assert codes(result) == ["no_worker", "next"]
    write_worker(redis_server, "here:1", state="quiet")
    assert codes(result) == ["quiet", "next"]
    write_worker(redis_server, "here:2", threads=2, busy=2)
    write_worker(redis_server, "here:1", threads=2, busy=2)
    assert (codes(result), why(result).reasons[0].count) == (["busy"], 4)

    write_worker(redis_server, "here:2", threads=2, busy=9, busy_coroutines=9)
    assert codes(result) == ["next"]

    get_queue("default").pause("mail is down", author="ada", until=600)

    paused = why(result).reasons[0]
    assert (paused.code, paused.name) == ("paused", "ada")
    assert 590 < (paused.at - why(result).at).total_seconds() <= 600  # type: ignore[operator]


def test_coroutine_waits_for_the_coroutines_of_its_workers(redis_server: Store) -> None:
    result, other = note_async.enqueue("x"), note.using(queue_name="mail").enqueue("x")
    for busy, expected in ((9, "next"), (10, "busy_coroutines")):
        write_worker(
            redis_server,
            "here:1",
            queues=["default", "mail"],
            threads=2,
            async_concurrency=10,
            busy=busy + 1,
            busy_coroutines=busy,
        )
        assert (codes(result), codes(other)) == ([expected], ["next"])

    assert why(result).reasons[0].count == 10


def test_scheduled_and_retried_tasks_have_a_due_time(redis_server: Store, worker: None) -> None:
    later, retried = note.using(run_after=600).enqueue("later"), note.enqueue("x")
    settle_tasks("retried", delay_ms=60_000)

    due, retry = why(later).reasons[0], why(retried).reasons[0]

    assert (due.code, retry.code, retry.count) == ("due", "retry", 1)
    assert 590 < (due.at - why(later).at).total_seconds() <= 600  # type: ignore[operator]
    assert 50 < (retry.at - why(retried).at).total_seconds() <= 60  # type: ignore[operator]
    assert (why(later).state, why(retried).state) == ("scheduled", "retrying")


def test_full_limit_names_the_tasks_that_hold_it(redis_server: Store, worker: None) -> None:
    results = [note.using(concurrency=1).enqueue(number) for number in range(3)]
    assert [job.id for job in new_fetcher().fetch("0", 3)] == [results[0].id]

    last = why(results[2])

    reason = last.reasons[0]
    assert (reason.code, reason.count, reason.name) == ("concurrency", 1, note.name)
    assert [(task.id, task.name, task.state) for task in reason.tasks] == [(results[0].id, note.name, "running")]
    assert (why(results[0]).reasons, why(results[0]).fact("is_holder")) == ([], 1)


def test_rate_limit_gives_the_start_and_the_number_of_tasks_before(redis_server: Store, worker: None) -> None:
    results = [note.using(rate="1/h").enqueue(number) for number in range(4)]
    new_fetcher().fetch("0", 4)

    reserved, behind = why(results[1]).reasons[0], why(results[3]).reasons[0]

    assert (reserved.code, reserved.count, reserved.name) == ("rate", 0, note.name)
    assert 3_500 < (reserved.at - why(results[1]).at).total_seconds() <= 3_601  # type: ignore[operator]
    assert (behind.code, behind.count) == ("rate", 2)


def test_callbacks_say_what_starts_them(redis_server: Store, worker: None) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_error=note.s(), on_complete=note.s(), on_success=note.s())

    for name in ("on_error", "on_complete", "on_success"):
        assert codes(getattr(flow, f"{name}_result")) == [name]


def test_member_that_failed_and_may_is_not_waited_for(redis_server: Store, worker: None) -> None:
    flow = group(fail.s("x").on_failure("continue"), add.s(1, 2)).then(note.s()).enqueue()
    settle_tasks("failed", 1)

    reason = why(flow.last).reasons[0]

    assert (reason.code, reason.count, [task.id for task in reason.tasks]) == ("waiting", 1, [flow.results[1].id])


def test_member_of_a_flow_waits_for_its_parents(redis_server: Store, worker: None) -> None:
    flow = group(add.s(1, 2), fail.s("x")).then(note.s()).enqueue(on_error=note.s())
    last = flow.results[2]
    waits = why(last)

    assert (waits.state, waits.reasons[0].code, waits.reasons[0].count) == ("waiting", "waiting", 2)
    assert {task.id for task in waits.reasons[0].tasks} == {flow.results[0].id, flow.results[1].id}
    assert (waits.fact("flow_tasks"), waits.fact("flow_unfinished")) == (3, 3)
    assert flow.on_error_result is not None
    assert codes(flow.on_error_result) == ["on_error"]
    assert [task.id for task in why(flow.results[0]).followers] == [last.id]

    settle_tasks("succeeded", 1)

    assert [task.id for task in why(last).reasons[0].tasks] == [flow.results[1].id]


def test_unregistered_deleted_purged_and_expired_tasks(redis_server: Store, worker: None) -> None:
    [unknown] = park_many(1)
    [failed] = fail_many(1)
    [purged, expired] = note.enqueue("x"), note.using(expires=0.001, queue_name="mail").enqueue("x")
    assert codes(unknown) == ["unregistered"]
    assert (why(failed).state, codes(failed)) == ("failed", [])

    queue = get_queue("default")
    queue.purge()
    write_worker(redis_server, "here:2", queues=["mail"])

    assert codes(purged) == ["deleted"]
    redis_server.raw.hset(base_key(redis_server, "t", expired.id), "X", "1000 60000")
    assert codes(expired) == ["expired"]
    assert run(connections.client(), control.delete_tasks(home(), "default", "failed", [failed.id], "", "aa")) == 1
    assert codes(failed) == ["deleted"]
    assert queue.restore("aa") == 1
    redis_server.raw.zrem(queue_key(redis_server, "failed"), failed.id)  # as after its retention
    assert (why(failed).place, codes(failed)) == ("", [])


def test_running_and_finished_tasks_have_no_reasons(redis_server: Store, worker: None) -> None:
    result = add.enqueue(1, 2)
    [job] = new_fetcher().fetch("0", 1)
    assert (why(result).state, why(result).reasons, why(result).fact("score_ms") > 0) == ("running", [], True)
    end_lease(redis_server, job.id)
    assert why(result).fact("score_ms") == 1
    cancelled = note.enqueue("x")
    cancelled.cancel()

    assert (why(cancelled).state, why(cancelled).reasons) == ("cancelled", [])


@pytest.mark.parametrize("task_id", ["", "unknown", "x" * 201, "{}", "a\0b", "ü\u2028", "x:errors"])
def test_unknown_id_raises(task_id: str, redis_server: Store) -> None:
    redis_server.raw.rpush(base_key(redis_server, "t", "x:errors"), "{}")

    with pytest.raises(TaskResultDoesNotExist):
        run(connections.client(), explain(home(), task_id))


def test_explain_writes_nothing_and_reads_no_long_value(redis_server: Store, worker: None) -> None:
    result = note.using(concurrency=1, rate="5/m", unique=True).enqueue("x" * 100_000)
    chain(note.s(1), note.si(2)).enqueue()
    before = {key: redis_server.raw.dump(key) for key in list(redis_server.keys())}

    found = why(result)

    assert {key: redis_server.raw.dump(key) for key in list(redis_server.keys())} == before
    assert found.sizes["b"] > 100_000
    assert found.unique_holder is not None
    assert found.unique_holder.id == result.id


def test_workers_of_the_queue_are_found_among_many_others(store: Store) -> None:
    result = note.using(queue_name="mail").enqueue("a")
    heartbeat("mail:1.a", "mail")
    for number in range(210):
        heartbeat(f"app:{number}.a", "default")

    assert [worker.id for worker in why(result).live_workers] == ["mail:1.a"]
    assert codes(result) == ["next"]

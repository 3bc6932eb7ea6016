"""The timeline of a task lists its runs with worker, start, end and outcome."""

from __future__ import annotations

from datetime import timedelta
from unittest import mock

from django_redis_components.taskqueue import TaskResult, get_queue, registry
from tests.support import Store
from tests.taskqueue.support import (
    Ack,
    base_key,
    end_lease,
    fall_due,
    new_fetcher,
    recover,
    settle_now,
    work_off,
    work_until_finished,
)
from tests.taskqueue.tasks import add, come_back, fail, fail_thrice, note


def outcomes(result: TaskResult) -> list[tuple[str, str]]:
    result.refresh()
    return [(run.outcome, run.worker_id) for run in result.timeline]


def test_waiting_task_has_no_run(store: Store) -> None:
    result = add.enqueue(1, 2)

    assert result.timeline == []
    assert outcomes(result) == []


def test_running_task_has_a_run_without_an_end(store: Store) -> None:
    result = add.enqueue(1, 2)
    new_fetcher(worker="host:1").fetch("0", 1)

    assert outcomes(result) == [("running", "host:1")]
    [run] = result.timeline
    assert (run.started_at, run.finished_at) == (result.last_attempted_at, None)


def test_successful_task_stores_no_history(store: Store) -> None:
    result = add.enqueue(1, 2)
    work_off(worker="host:1")

    assert outcomes(result) == [("succeeded", "host:1")]
    [run] = result.timeline
    assert (run.started_at, run.finished_at) == (result.started_at, result.finished_at)
    assert not store.raw.hexists(base_key(store, "t", result.id), "h")


def test_timeline_lists_attempts_in_order(store: Store) -> None:
    result = fail_thrice.enqueue()

    work_until_finished(result, worker="host:1")

    assert outcomes(result) == [("retried", "host:1"), ("retried", "host:1"), ("failed", "host:1")]
    times = [time for run in result.timeline for time in (run.started_at, run.finished_at)]
    assert times == sorted(times)
    assert times[0] == result.started_at
    assert times[-1] == result.finished_at


def test_timeline_has_the_worker_that_died(store: Store) -> None:
    result = add.enqueue(1, 2)
    new_fetcher(worker="dies:1").fetch("0", 1)
    end_lease(store, result.id)
    recover()
    work_off(worker="lives:2")

    assert outcomes(result) == [("recovered", "dies:1"), ("succeeded", "lives:2")]


def test_timeline_has_delayed_and_unregistered_runs(store: Store) -> None:
    result = come_back.enqueue(60)
    work_off(worker="host:1")
    fall_due(store, result)
    with mock.patch.object(registry, "tasks", {}):
        work_off(worker="old:2")

    assert outcomes(result) == [("delayed", "host:1"), ("unregistered", "old:2")]


def test_returned_lease_is_not_a_run(store: Store) -> None:
    result = note.enqueue("back")
    worker = new_fetcher()
    [job] = worker.fetch("0", 1)
    settle_now(worker, Ack(job.id, job.token, "requeued"))

    assert outcomes(result) == []


def test_manual_retry_keeps_earlier_runs(store: Store) -> None:
    result = fail.enqueue()
    work_off(worker="host:1")
    get_queue("default").retry_failed([result.id])
    work_off(worker="host:2")

    assert outcomes(result) == [("failed", "host:1"), ("failed", "host:2")]


def test_last_runs_are_kept(store: Store) -> None:
    result = fail_thrice.using(max_attempts=1_000, backoff=0).enqueue()
    for number in range(120):
        for job in new_fetcher(worker=f"host:{number}").fetch("0", 1):
            settle_now(new_fetcher(worker=f"host:{number}"), Ack(job.id, job.token, "retried", b"{}", 0, 60_000, 7))

    found = outcomes(result)

    assert 50 <= len(found) < 120
    assert found[-1] == ("retried", "host:119")
    assert len(store.raw.hget(base_key(store, "t", result.id), "h")) <= 4_000
    assert all(timedelta(0) <= run.finished_at - run.started_at < timedelta(minutes=1) for run in result.timeline)

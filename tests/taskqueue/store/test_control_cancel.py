"""Cancelling and rescheduling waiting tasks."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from django_redis_components.taskqueue import (
    InvalidTask,
    NotScheduled,
    TaskFailed,
    TaskResult,
    TaskResultDoesNotExist,
    get_queue,
)
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.task import Task
from tests.support import Store, eventually, run_async, run_together
from tests.taskqueue.support import (
    base_key,
    fall_due,
    new_fetcher,
    queue_key,
    settle_now,
    work_off,
    work_until_finished,
)
from tests.taskqueue.tasks import fail, fail_thrice, note, recorded


def ready(_: Store) -> TaskResult:
    return note.enqueue("ready")


def urgent(_: Store) -> TaskResult:
    return note.using(priority=7).enqueue("urgent")


def scheduled(_: Store) -> TaskResult:
    return note.using(run_after=3_600).enqueue("scheduled")


def due(store: Store) -> TaskResult:
    result = note.using(run_after=3_600).enqueue("due")
    fall_due(store, result)
    return result


def retrying(_: Store) -> TaskResult:
    result = fail_thrice.using(backoff=3_600).enqueue()
    work_off()
    return result


def front(_: Store) -> TaskResult:
    result = note.enqueue("front")
    fetcher = new_fetcher(worker="gives:back")
    [job] = fetcher.fetch("0", 1)
    settle_now(fetcher, Ack(job.id, job.token, "requeued"))
    return result


def unregistered(_: Store) -> TaskResult:
    stranger: Task[..., Any, Any] = Task(func=note.func, name="unknown.task", declared_options=note.options)
    result = stranger.enqueue("unregistered")
    work_off()
    return result


WAITING = [ready, urgent, scheduled, due, retrying, front, unregistered]


def waiting() -> int:
    depth = get_queue("default").info()
    return depth.ready + depth.scheduled + depth.unregistered


@pytest.mark.parametrize("kind", WAITING)
def test_waiting_task_is_cancelled_and_never_runs(store: Store, kind: Any) -> None:
    result = kind(store)
    assert waiting() == 1

    assert result.cancel() is True

    assert waiting() == 0
    work_off()
    assert recorded == []
    result.refresh()
    assert (result.state, result.status, result.is_finished) == ("cancelled", "FAILED", True)
    assert result.finished_at is not None
    assert 590 < store.raw.ttl(base_key(store, "t", result.id)) <= 600
    assert get_queue("default").info().ready == 0


def test_cancelled_task_has_state_cancelled(store: Store) -> None:
    result = ready(store)
    result.cancel()
    result.refresh()

    with pytest.raises(TaskFailed, match=rf"^Task {result.id} \(tests\.taskqueue\.tasks\.note\) was cancelled\.$"):
        _ = result.return_value


def test_cancelling_again_changes_nothing(store: Store) -> None:
    result = ready(store)
    result.cancel()
    result.refresh()
    finished_at = result.finished_at

    assert result.cancel() is True

    result.refresh()
    assert result.finished_at == finished_at
    assert store.raw.get(queue_key(store, "tombstones")) == b"1"


@pytest.mark.parametrize("task", [note, fail])
def test_finished_task_cannot_be_cancelled(store: Store, task: Task[..., Any, Any]) -> None:
    result = task.enqueue("done")
    work_off()

    assert result.cancel() is False

    result.refresh()
    assert result.state in ("successful", "failed")


@pytest.mark.contract
def test_task_that_was_not_accepted_cannot_be_cancelled(store: Store) -> None:
    result = TaskResult(note, note.name, "unheard-of", home(), {})

    with pytest.raises(TaskResultDoesNotExist, match=r"^There is no task 'unheard-of': it was never accepted, or its"):
        result.cancel()


@pytest.mark.contract
def test_cancel_wakes_callers_of_get(store: Store) -> None:
    result = scheduled(store)
    raised: list[Exception] = []

    def wait() -> None:
        try:
            result.get(60)
        except TaskFailed as exc:
            raised.append(exc)

    waiter = threading.Thread(target=wait)
    waiter.start()
    eventually(lambda: store.raw.hget(base_key(store, "t", result.id), "W"))

    TaskResult(note, note.name, result.id, home(), {}).cancel()

    waiter.join(60)
    assert "was cancelled" in str(raised[0])
    assert 0 < store.raw.pttl(base_key(store, "t", result.id, "done")) <= 60_000 or not store.raw.exists(
        base_key(store, "t", result.id, "done")
    )


def test_a_task_is_either_cancelled_or_runs(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(120)])
    lists = [results[start::4] for start in range(4)]
    ran: set[str] = set()

    def act(number: int) -> set[str]:
        if number < 4:
            return {result.id for result in lists[number] if cancelled(result)}
        fetcher, found = new_fetcher(worker=f"w:{number}"), set()
        while jobs := fetcher.fetch("0", 3):
            found |= {job.id for job in jobs}
        ran.update(found)
        return set()

    stopped = set().union(*run_together(8, act))

    assert stopped | ran == {result.id for result in results}
    assert stopped & ran == set()
    depth = get_queue("default").info()
    assert (depth.ready, depth.running) == (0, len(ran))
    assert store.raw.exists(queue_key(store, "tombstones")) == 0


def cancelled(result: TaskResult) -> bool:
    return result.cancel() and not result.refresh() and result.state == "cancelled"


def test_concurrent_cancels_count_once(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(30)])

    run_together(4, lambda: [result.cancel() for result in results[:20]])

    assert get_queue("default").info().ready == 10


def test_depths_exclude_cancelled_tasks_still_in_the_lists(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(12)])
    for result in results[::2]:
        result.cancel()
    fetcher = new_fetcher()

    left = [6]
    while fetcher.fetch("0", 1):
        left.append(get_queue("default").info().ready)

    assert left == [6, 5, 4, 3, 2, 1, 0]
    assert store.raw.exists(queue_key(store, "tombstones")) == 0


def test_depths_stay_exact_when_a_cancelled_record_has_expired_before_its_turn(store: Store) -> None:
    first, second = note.enqueue("first"), note.enqueue("second")
    first.cancel()
    store.raw.delete(base_key(store, "t", first.id))

    assert get_queue("default").info().ready == 1
    assert [job.id for job in work_off()] == [second.id]
    assert get_queue("default").info().ready == 0


def test_oldest_age_ignores_cancelled_tasks(store: Store) -> None:
    old, young = note.enqueue("old"), note.enqueue("young")
    long_ago_us = old.enqueued_at.timestamp() * 1e6 - 50e6
    store.raw.hset(base_key(store, "t", old.id), "e", int(long_ago_us))
    assert get_queue("default").info().oldest_age >= 50

    old.cancel()

    assert 0 <= get_queue("default").info().oldest_age < 50
    young.cancel()
    assert get_queue("default").info().oldest_age is None


@pytest.mark.parametrize("kind", [scheduled, retrying, due])
def test_reschedule_to_now_makes_the_task_ready(store: Store, kind: Any) -> None:
    result = kind(store)

    result.run_now()

    assert [job.id for job in work_off()][:1] == [result.id]


def test_reschedule_changes_the_time(store: Store) -> None:
    result = scheduled(store)

    result.reschedule(0.02)

    work_until_finished(result)
    assert recorded == ["scheduled"]
    assert result.started_at >= result.run_after
    assert get_queue("default").info().scheduled == 0


def test_earlier_time_notifies_workers_and_the_poller(store: Store) -> None:
    result = scheduled(store)
    wakeup_keys = [base_key(store, "wakeup", name) for name in ("q:default", "poller")]
    for each in wakeup_keys:
        store.raw.delete(each)

    result.reschedule(1_800)

    assert all(store.raw.exists(each) for each in wakeup_keys)


@pytest.mark.parametrize("kind", [ready, urgent, front, unregistered])
def test_task_that_is_not_scheduled_cannot_be_rescheduled(store: Store, kind: Any) -> None:
    result = kind(store)

    with pytest.raises(
        Exception, match=rf"^Task {result.id} is not scheduled: it is ready, running, finished or purged"
    ):
        result.run_now()


@pytest.mark.contract
def test_task_that_was_not_accepted_cannot_be_rescheduled(store: Store) -> None:
    with pytest.raises(TaskResultDoesNotExist, match="There is no task 'unheard-of'"):
        TaskResult(note, note.name, "unheard-of", home(), {}).reschedule(5)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (None, r"^run_after=None: expected a datetime or seconds\. run_now\(\) makes the task due at once\.$"),
        ("soon", r"^run_after='soon': expected a datetime, or a number of seconds or a timedelta from now\.$"),
        (-1, r"^run_after=-1: expected a number of seconds of at least 0, or a timedelta\.$"),
        (datetime.max.replace(tzinfo=UTC), r"^run_after=.*: expected a date up to December 30, 9999\.$"),
    ],
)
def test_invalid_time_raises(redis_server: Store, moment: Any, text: str) -> None:
    result = scheduled(redis_server)

    with pytest.raises(InvalidTask, match=text):
        result.reschedule(moment)

    assert get_queue("default").info().scheduled == 1


@pytest.mark.contract
def test_concurrent_reschedules_run_the_task_once(store: Store) -> None:
    result = scheduled(store)

    def run_it_now(number: int) -> int:
        try:
            result.run_now()
        except NotScheduled:
            return 0
        return len(new_fetcher(worker=f"w:{number}").fetch("0", 5))

    assert sum(run_together(4, run_it_now)) == 1


def test_async_methods_return_the_same(store: Store) -> None:
    doomed, moved, hurried = scheduled(store), scheduled(store), scheduled(store)

    async def act() -> bool:
        await moved.areschedule(7_200)
        await hurried.arun_now()
        return await doomed.acancel()

    assert run_async(act) is True

    for result in (doomed, moved):
        result.refresh()
    assert doomed.state == "cancelled"
    assert (moved.run_after - moved.enqueued_at).total_seconds() > 7_000
    assert [job.id for job in work_off()] == [hurried.id]

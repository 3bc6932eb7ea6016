"""Results: states, times, errors, and the timeouts of `get`."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from redis.exceptions import NoPermissionError

from django_redis_components.taskqueue import (
    TaskFailed,
    TaskNotFinished,
    TaskQueueError,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    WaitTimeout,
    get_flow,
    get_queue,
    get_result,
)
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.explain import explain
from django_redis_components.taskqueue.store import task_control
from django_redis_components.taskqueue.store.finished import find_finished
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store, eventually, run_async, run_together
from tests.taskqueue.support import base_key, new_fetcher, running_worker, settle_now, work_off
from tests.taskqueue.tasks import add, come_back, fail, fail_thrice, note


def test_running_task_has_its_worker_id(store: Store) -> None:
    result = add.enqueue(2, 3)

    new_fetcher(worker="host:1").fetch("0", 1)

    result.refresh()
    assert (result.state, result.status, result.is_finished) == ("running", TaskResultStatus.RUNNING, False)
    assert (result.worker_ids, result.attempts) == (["host:1"], 1)
    assert result.enqueued_at is not None
    assert result.started_at is not None
    assert result.enqueued_at <= result.started_at == result.last_attempted_at
    assert result.finished_at is None
    with pytest.raises(TaskNotFinished) as raised:
        _ = result.return_value
    assert str(raised.value) == (f"Task {result.id} (tests.taskqueue.tasks.add) has not finished yet: it is running.")
    assert repr(result) == f"<TaskResult {result.id} of tests.taskqueue.tasks.add: running>"


def test_a_successful_task_has_its_return_value(store: Store) -> None:
    result = add.enqueue(2, 3)

    work_off(worker="host:1")

    result.refresh()
    assert (result.state, result.status, result.is_finished) == ("successful", TaskResultStatus.SUCCESSFUL, True)
    assert (result.return_value, result.errors, result.worker_ids, result.attempts) == (5, [], ["host:1"], 1)
    assert result.started_at is not None
    assert result.finished_at is not None
    assert result.started_at <= result.finished_at


def test_last_worker_ids_are_kept_and_all_runs_are_counted(store: Store) -> None:
    result = fail_thrice.using(max_attempts=3, backoff=0).enqueue()
    many = ",".join(f"host-{number:04}:1" for number in range(500))
    store.raw.hset(base_key(store, "t", result.id), mapping={"w": many, "k": 500})

    work_off(worker="host:1")

    result.refresh()
    assert (result.attempts, result.runs) == (3, 503)
    assert 50 < len(result.worker_ids) < 400
    assert result.worker_ids[-4:] == ["host-0499:1", *["host:1"] * 3]
    assert len(store.raw.hget(base_key(store, "t", result.id), "w")) <= 4_000


def test_a_failed_task_has_its_error(store: Store) -> None:
    result = fail.enqueue("张三 has no such item")

    work_off(worker="host:1")

    result.refresh()
    assert (result.state, result.status, result.is_finished) == ("failed", TaskResultStatus.FAILED, True)
    [error] = result.errors
    assert (error.exception_class_path, error.message) == ("builtins.LookupError", "张三 has no such item")
    assert error.traceback.startswith("Traceback (most recent call last):")
    assert error.traceback.endswith("LookupError: 张三 has no such item\n")
    assert "raise LookupError(text)" in error.traceback
    assert (result.worker_ids, result.attempts) == (["host:1"], 1)
    with pytest.raises(TaskFailed) as raised:
        _ = result.return_value
    assert str(raised.value) == (
        f"Task {result.id} (tests.taskqueue.tasks.fail) failed. Last error: builtins.LookupError: 张三 has no such item"
    )


def test_a_retrying_task_is_ready_again_and_keeps_its_errors(store: Store) -> None:
    result = fail_thrice.using(backoff=60).enqueue()

    work_off(worker="host:1")

    result.refresh()
    assert (result.state, result.status, result.is_finished) == ("retrying", TaskResultStatus.READY, False)
    assert [error.message for error in result.errors] == ["again"]
    assert (result.worker_ids, result.attempts) == (["host:1"], 1)
    assert result.run_after is not None
    assert result.last_attempted_at is not None
    assert 59.9 < (result.run_after - result.last_attempted_at).total_seconds() < 80


def test_delayed_run_is_scheduled_and_uses_no_attempt(store: Store) -> None:
    result = come_back.enqueue(60)

    work_off()

    result.refresh()
    assert (result.state, result.status) == ("scheduled", TaskResultStatus.READY)
    assert (result.worker_ids, result.attempts, result.errors) == ([], 0, [])


def test_return_value_of_a_task_that_never_ran_raises_with_the_reason(redis_server: Store) -> None:
    result = add.enqueue(2, 3)
    for state, reason in (("cancelled", "was cancelled"), ("expired", "expired before it started")):
        redis_server.raw.hset(base_key(redis_server, "t", result.id), "s", state)

        result.refresh()

        assert (result.state, result.status) == (state, TaskResultStatus.FAILED)
        with pytest.raises(TaskFailed, match=rf"\(tests\.taskqueue\.tasks\.add\) {reason}\.$"):
            _ = result.return_value


def test_unknown_id_raises_with_the_id(store: Store) -> None:
    text = r"^There is no task 'unknown': it was never accepted, or its result has expired\.$"
    with pytest.raises(TaskResultDoesNotExist, match=text) as raised:
        add.get_result("unknown")
    with pytest.raises(TaskResultDoesNotExist, match=text):
        run_async(add.aget_result, "unknown")

    assert raised.value.id == "unknown"
    assert isinstance(raised.value, TaskQueueError)


def test_get_result_raises_for_the_id_of_another_task(store: Store) -> None:
    result = note.enqueue(1)
    text = rf"^Task {result.id} is a tests\.taskqueue\.tasks\.note, not a tests\.taskqueue\.tasks\.add\.$"

    with pytest.raises(TaskResultMismatch, match=text):
        add.get_result(result.id)
    with pytest.raises(TaskResultMismatch, match=text):
        run_async(add.aget_result, result.id)


def test_results_of_different_tasks_differ(redis_server: Store) -> None:
    first, second = add.enqueue(1, 2), add.enqueue(1, 2)

    assert first != second
    assert first != first.id
    assert len({first, second, add.get_result(first.id)}) == 2


@pytest.mark.contract
def test_expired_result_raises(store: Store) -> None:
    result = add.using(result_ttl=0.05).enqueue(2, 3)
    work_off()

    eventually(lambda: store.raw.exists(base_key(store, "t", result.id)) == 0)
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()
    with pytest.raises(TaskResultDoesNotExist):
        result.get(1)
    with pytest.raises(TaskResultDoesNotExist):
        run_async(result.arefresh)


def test_get_returns_when_the_task_finishes(store: Store) -> None:
    result = add.enqueue(2, 3)
    waiting = threading.Barrier(3)

    def act(number: int) -> Any:
        waiting.wait(60)
        if number == 0:
            return work_off()
        return add.get_result(result.id).get(60)

    assert run_together(3, act)[1:] == [5, 5]


def test_get_returns_at_once_for_a_finished_task(store: Store) -> None:
    result = add.enqueue(2, 3)
    work_off()

    assert result.get() == 5
    assert result.state == "successful"
    assert run_async(result.aget, 0) == 5


def test_aget_returns_when_the_task_finishes(store: Store) -> None:
    with running_worker():
        assert run_async(add.enqueue(2, 3).aget, 60) == 5


def test_get_raises_for_a_failed_task(store: Store) -> None:
    result = fail.enqueue("no stock")

    with running_worker(), pytest.raises(TaskFailed, match=r"Last error: builtins\.LookupError: no stock$"):
        result.get(60)
    with pytest.raises(TaskFailed, match=r"no stock$"):
        run_async(result.aget, 60)


def test_get_times_out_without_a_worker(store: Store) -> None:
    result = add.enqueue(2, 3)

    with pytest.raises(WaitTimeout) as raised:
        result.get(0.03)
    with pytest.raises(TimeoutError):
        run_async(result.aget, 0.03)

    assert str(raised.value) == f"Task {result.id} had not finished after 0.03 s: it has not started."
    assert (result.state, store.raw.hget(base_key(store, "t", result.id), "W")) == ("ready", b"2")
    with pytest.raises(WaitTimeout):
        result.get(0)
    with pytest.raises(WaitTimeout, match=r"had not finished after 0\.03 s: "):
        result.get(timedelta(milliseconds=30))


def test_get_raises_when_the_result_is_deleted_meanwhile(redis_server: Store) -> None:
    """The result may expire before the wakeup arrives."""
    result = add.enqueue(2, 3)

    def act(number: int) -> None:
        if number == 0:
            with pytest.raises(TaskResultDoesNotExist):
                result.get(60)
        else:
            key = base_key(redis_server, "t", result.id)
            eventually(lambda: redis_server.raw.hget(key, "W") == b"1")
            redis_server.raw.delete(key)
            redis_server.raw.rpush(f"{key}:done", "1")

    run_together(2, act)


def test_get_refuses_a_negative_timeout(redis_server: Store) -> None:
    with pytest.raises(ValueError, match=r"^timeout=-1: expected a number of seconds of at least 0"):
        add.enqueue(2, 3).get(-1)


def test_only_the_last_fifty_errors_are_kept(redis_server: Store) -> None:
    result = fail.using(max_attempts=60, backoff=0).enqueue()
    work = new_fetcher()

    for _ in range(60):
        [job] = eventually(lambda: work.fetch("0", 1))
        settle_now(work, execute(job))

    result.refresh()
    assert (result.state, len(result.errors), result.attempts) == ("failed", 50, 60)


def test_id_with_the_suffix_of_another_key_is_unknown(store: Store) -> None:
    result = fail.enqueue()
    work_off()

    with pytest.raises(TaskResultDoesNotExist):
        fail.get_result(f"{result.id}:errors")


def test_ids_with_lone_surrogates_are_unknown(redis_server: Store) -> None:
    # As an argument of a command line that is not UTF-8 has them.
    shard, queue, odd = home(), get_queue("default"), "\udcff"

    for read in (get_result, note.get_result, get_flow):
        with pytest.raises(TaskQueueError, match=r"There is no (task|flow) '\\udcff'"):
            read(odd)
    for flow in (task_control.cancel(shard, odd), task_control.reschedule(shard, odd, ""), explain(shard, odd)):
        with pytest.raises(TaskResultDoesNotExist):
            shard.run(flow)
    assert shard.run(find_finished(shard, odd)) is None
    many = (queue.cancel, queue.run_now, queue.retry_failed, queue.delete_failed, queue.delete_unregistered)
    assert [change([odd]) for change in many] == [0] * 5
    assert queue.restore(odd) == 0


def test_get_result_raises_redis_errors(own_server: Store, settings: Any) -> None:
    result = add.enqueue(2, 3)
    own_server.raw.execute_command("ACL SETUSER app on >secret ~* &* +@all -hgetall")
    url = own_server.url.replace("redis://", "redis://app:secret@")
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}

    with pytest.raises(NoPermissionError, match="hgetall"):
        result.refresh()

"""Cancelling a task in a supervised worker: by interruption, then by terminating its process."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.taskqueue import TaskFailed, TaskResult
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import Held, is_running, queue_key, queue_worker, taskqueue_settings
from tests.taskqueue.tasks import hold, hold_async, insist, stay_in_c

#: Path of the error of a task that was ended.
TIME_LIMIT = "django_redis_components.taskqueue.exceptions.TimeLimitExceeded"


@pytest.fixture(autouse=True)
def _leases_that_do_not_end_within_a_test(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=60, GRACE=20)


def refreshed(result: TaskResult) -> TaskResult:
    result.refresh()
    return result


def finished(result: TaskResult) -> TaskResult:
    eventually(lambda: refreshed(result).is_finished)
    return result


@pytest.mark.parametrize("args", [(), ("--no-poller",)])
@pytest.mark.parametrize("kind", [hold, hold_async])
def test_running_task_is_cancelled_and_its_process_continues(
    redis_server: Store, children: Children, kind: Any, args: tuple[str, ...]
) -> None:
    held, bystander = Held(redis_server, "a"), Held(redis_server, "b")
    worker = queue_worker(children, *args)
    result, other = kind.enqueue("a"), hold.enqueue("b")
    pid = held.started()
    bystander.started()

    assert result.cancel(force_after=60)

    with pytest.raises(TaskFailed, match="was cancelled"):
        result.get(60)
    assert is_running(pid)
    bystander.release()  # after it the process may exit: it is replaced after an interruption
    assert other.get(60) == "b"
    assert (held.ends(), held.starts()) == (0, 1)
    worker.terminate()
    assert worker.wait() == 0


def test_forced_cancel_kills_the_process_and_requeues_the_other_tasks(redis_server: Store, children: Children) -> None:
    stubborn, bystander, coroutine = (Held(redis_server, name) for name in "abc")
    worker = queue_worker(children, "--threads", "3")
    result = insist.enqueue("a")
    others = [hold.enqueue("b"), hold_async.enqueue("c")]
    pid = stubborn.started()
    bystander.started()
    coroutine.started()

    result.cancel(force_after=60)
    stubborn.started(2)  # it was interrupted, and has started again by itself
    result.cancel(force_after=0.2)

    assert finished(result).state == "cancelled"
    worker.wait_for(f"Terminating process {pid}: task {result.id} was cancelled and still runs.")
    line = worker.wait_for(f"Worker process {pid} exited (")  # or killed, if a busy machine is too slow for its exit
    assert line.endswith("; starting another in 0 s.")
    assert bystander.started(2) == coroutine.started(2) != pid
    for held in (bystander, coroutine):
        held.release()
    for other in others:
        other.get(60)
        assert (other.attempts, other.errors) == (1, [])
        assert b"x" not in redis_server.raw.hgetall(f"{redis_server.prefix}:taskqueue:{{default}}:t:{other.id}")
    assert (stubborn.starts(), result.errors) == (2, [])


@pytest.mark.parametrize("kind", [insist, hold_async])
def test_hard_limit_terminates_the_process_and_fails_only_its_task(
    redis_server: Store, children: Children, kind: Any
) -> None:
    slow, bystander = Held(redis_server, "a"), Held(redis_server, "b")
    worker = queue_worker(children, "--threads", "2")
    other = hold.enqueue("b")
    bystander.started()
    result = kind.using(timeout=(None, 0.4)).enqueue("a")
    pid = slow.started()

    assert finished(result).state == "failed"

    assert [(error.exception_class_path, error.message) for error in result.errors] == [
        (TIME_LIMIT, "The task ran longer than its hard time limit of 0.4 s, and its process was terminated.")
    ]
    assert result.attempts == 1
    worker.wait_for(f"Terminating process {pid}: task {result.id} has reached its hard time limit of 0.4 s.")
    assert bystander.started(2) != pid
    bystander.release()
    assert other.get(60) == "b"
    assert (other.attempts, other.errors) == (1, [])
    assert redis_server.raw.zcard(queue_key(redis_server, "running")) == 0


def test_hard_limit_uses_an_attempt_and_the_task_is_retried(redis_server: Store, children: Children) -> None:
    slow = Held(redis_server, "a")
    queue_worker(children)
    result = insist.using(timeout=(None, 1.5), max_attempts=2, backoff=0).enqueue("a")
    first = slow.started()

    second = slow.started(2)
    assert first != second
    slow.release()

    assert result.get(60) == "a"
    assert [error.exception_class_path for error in result.errors] == [TIME_LIMIT]
    assert result.attempts == 2


def test_unresponsive_process_is_killed_and_its_tasks_are_requeued(redis_server: Store, children: Children) -> None:
    """Code in C keeps the interpreter's lock: no thread of the process does anything any more."""
    frozen, bystander = Held(redis_server, "a"), Held(redis_server, "b")
    worker = queue_worker(children, "--threads", "3")
    other = hold.enqueue("b")
    bystander.started()
    result = stay_in_c.using(timeout=(None, 0.5)).enqueue("a")
    pid = frozen.started()

    assert finished(result).state == "failed"

    worker.wait_for(f"Process {pid} does not exit; killing it.")
    worker.wait_for(f"Worker process {pid} exited (signal SIGKILL)")
    assert not is_running(pid)
    bystander.started(2)
    bystander.release()
    assert other.get(60) == "b"
    assert (other.attempts, other.errors) == (1, [])
    assert result.errors[0].exception_class_path == TIME_LIMIT


def test_task_that_finishes_in_time_keeps_its_process(redis_server: Store, children: Children) -> None:
    held = Held(redis_server, "a")
    worker = queue_worker(children)
    result = hold.using(timeout=(None, 30.0)).enqueue("a")
    pid = held.started()
    held.release()
    assert result.get(60) == "a"

    next_one = Held(redis_server, "b")
    after = hold.enqueue("b")
    assert next_one.started() == pid
    next_one.release()
    assert after.get(60) == "b"
    worker.terminate()
    assert worker.wait() == 0
    assert "Terminating process" not in worker.output


def test_task_cancelled_while_the_worker_stops_is_not_requeued(
    redis_server: Store, children: Children, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=60, GRACE=0.5, CANCEL_GRACE=60)
    held = Held(redis_server, "a")
    worker = queue_worker(children)
    result = insist.enqueue("a")
    held.started()
    result.cancel()
    held.started(2)

    worker.terminate()

    assert worker.wait() == 0
    assert refreshed(result).state == "cancelled"

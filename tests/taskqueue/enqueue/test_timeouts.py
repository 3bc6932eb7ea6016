"""Time limits: accepted values, the soft limit, and how the hard limit is reported."""

from __future__ import annotations

import sys
import threading
import time
from datetime import timedelta
from typing import Any

import pytest

from django_redis_components.taskqueue import (
    InvalidTask,
    SoftTimeLimitExceeded,
    Task,
    TimeLimitExceeded,
    exponential,
    task,
)
from django_redis_components.taskqueue.options import TaskOptions, TimeLimits, options_to_send, time_limits_of
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker.execution import Execution, timed_out
from django_redis_components.taskqueue.worker.interruption import ThreadRun, TimeLimitTimer
from tests.support import Store, eventually
from tests.taskqueue.support import Held, new_fetcher, running_worker, taskqueue_settings, work_off
from tests.taskqueue.tasks import add, count_up, hold, hold_async, recorded, tidy_up

#: Path of the error of a run that took too long.
SOFT_LIMIT = "django_redis_components.taskqueue.exceptions.SoftTimeLimitExceeded"

WRONG = [
    (0, "timeout=0: expected a number of seconds above 0, or a timedelta."),
    (True, "timeout=True: expected a number of seconds above 0, or a timedelta."),
    ("5", "timeout='5': expected a number of seconds above 0, or a timedelta."),
    ((5, 4), "timeout=(5, 4): the hard limit must be longer than the soft one."),
    ([5, 5], "timeout=[5, 5]: the hard limit must be longer than the soft one."),
    ((None, None), "timeout=(None, None): expected seconds, or (soft, hard), one of which may be None."),
    ((5,), "timeout=(5,): expected seconds, or (soft, hard), one of which may be None."),
    ((-1, 5), "timeout[0]=-1: expected a number of seconds above 0, or a timedelta."),
    ((1, "x"), "timeout[1]='x': expected a number of seconds above 0, or a timedelta."),
]


def top_level() -> None: ...


@pytest.mark.parametrize(("timeout", "text"), WRONG, ids=lambda value: str(value)[:30])
def test_a_wrong_limit_is_refused_by_using_and_by_the_decorator(timeout: Any, text: str) -> None:
    with pytest.raises(InvalidTask) as using:
        add.using(timeout=timeout)
    with pytest.raises(InvalidTask) as decorating:
        task(timeout=timeout)(top_level)

    assert str(using.value) == str(decorating.value) == text


@pytest.mark.parametrize(
    ("timeout", "limits"),
    [
        (None, None),
        (30, TimeLimits(30.0, 37.0)),
        (timedelta(minutes=1), TimeLimits(60.0, 67.0)),
        ((30, 40), TimeLimits(30.0, 40.0)),
        ([30, timedelta(seconds=40)], TimeLimits(30.0, 40.0)),
        ((30, None), TimeLimits(30.0, None)),
        ((None, 40), TimeLimits(None, 40.0)),
    ],
)
def test_single_timeout_is_the_soft_limit_and_the_hard_limit_follows_after_the_grace(
    settings: Any, timeout: Any, limits: TimeLimits | None
) -> None:
    taskqueue_settings(settings, TIMEOUT_GRACE=7)

    assert time_limits_of(timeout) == limits
    assert time_limits_of(options_to_send(TaskOptions(timeout=timeout), frozenset(["timeout"]))["timeout"]) == limits, (
        "as it travels"
    )


def limits_in_the_worker(sent: Task[..., Any, Any]) -> TimeLimits | None:
    result = sent.enqueue(1, 2)
    [job] = new_fetcher(worker=f"w:{result.id}").fetch("0", 1)
    execution = Execution(job, add)
    execution.start()
    return execution.limits


def test_timeout_of_using_reaches_the_worker(redis_server: Store) -> None:
    assert limits_in_the_worker(add.using(timeout=(timedelta(seconds=1), 2.5))) == TimeLimits(1.0, 2.5)
    assert limits_in_the_worker(add.using(timeout=3)) == TimeLimits(3.0, 13.0)
    assert limits_in_the_worker(add.using(timeout=3).using(timeout=None)) is None
    assert limits_in_the_worker(add) is None


@pytest.mark.parametrize("kind", [hold, hold_async])
def test_run_above_its_soft_limit_fails(redis_server: Store, kind: Any) -> None:
    held = Held(redis_server, "a")
    with running_worker() as worker:
        result = kind.using(timeout=0.05).enqueue("a")
        eventually(lambda: result.refresh() or result.is_finished)

        assert add.enqueue(2, 3).get(60) == 5
        assert worker.timer.hard_limits() == {}
    assert (result.state, result.attempts, held.ends()) == ("failed", 1, 0)
    assert result.errors[0].exception_class_path == SOFT_LIMIT
    assert result.errors[0].message == "The task ran longer than its soft time limit of 0.05 s."


def test_run_above_its_soft_limit_is_retried(redis_server: Store) -> None:
    held = Held(redis_server, "a")
    with running_worker():
        result = hold.using(timeout=(0.5, None), max_attempts=2, backoff=0.3).enqueue("a")
        eventually(lambda: result.refresh() or result.errors)
        held.release()  # so that the second attempt ends long before its limit

        assert result.get(60) == "a"
    assert [error.exception_class_path for error in result.errors] == [SOFT_LIMIT]
    assert result.attempts == 2


def test_task_may_clean_up_after_its_soft_limit(redis_server: Store) -> None:
    with running_worker():
        assert tidy_up.using(timeout=(0.5, None)).enqueue("a").get(60) == "tidied up"


def test_limit_interrupts_only_its_own_task(redis_server: Store) -> None:
    """Many runs end at about their limit, and tasks without limits run between them on the same threads."""
    if sys.gettrace() is not None:
        pytest.skip("CPython 3.11 may stand still under a tracer while one of many threads is interrupted")
    with running_worker(threads=3):
        close = [count_up.using(timeout=(0.004, None)).enqueue(0.0035 + number / 100_000) for number in range(100)]
        plain = [add.enqueue(number, 1) for number in range(100)]

        assert [result.get(60) for result in plain] == list(range(1, 101))
        for result in close:
            eventually(lambda result=result: result.refresh() or result.is_finished)  # type: ignore[misc]
    assert {result.state for result in close} <= {"successful", "failed"}
    assert {error.exception_class_path for result in close for error in result.errors} <= {SOFT_LIMIT}
    assert len(recorded) >= sum(result.state == "successful" for result in close), "one may be hit after its last line"


def timer_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "time-limits"}


def test_timer_thread_starts_with_the_first_task_that_has_a_limit(redis_server: Store) -> None:
    before = timer_threads()
    with running_worker():
        add.enqueue(1, 2).get(60)
        assert timer_threads() <= before
        add.using(timeout=60).enqueue(1, 2).get(60)
        assert timer_threads() - before


JOB = Job("id", "token", "name", b"[[],{}]", "default", 0, 0, 0, 0, 0)


class Interrupted(ThreadRun):
    """Notes when it is interrupted."""

    at = 0.0

    def interrupt(self, kind: type[BaseException]) -> None:
        assert kind is SoftTimeLimitExceeded
        self.at = time.monotonic()


def test_limits_are_raised_in_order_of_their_time() -> None:
    timer, started = TimeLimitTimer(), time.monotonic()
    late, early, again = Interrupted(JOB), Interrupted(JOB), Interrupted(JOB)
    timer.start(late, TimeLimits(60.0, None))
    eventually(lambda: timer.wakes_at != float("inf"))
    timer.start(early, TimeLimits(0.02, None))

    eventually(lambda: early.at)

    assert early.at - started >= 0.02
    assert late.at == 0.0
    timer.stop(late)
    timer.start(again, TimeLimits(0.01, None))
    eventually(lambda: again.at)
    eventually(lambda: timer.wakes_at == float("inf"))


def test_a_hard_limit_is_reported_at_once() -> None:
    timer, notified = TimeLimitTimer(), []
    timer.on_hard_limit = lambda: notified.append(timer.hard_limits())
    run = ThreadRun(JOB)
    before = time.monotonic()

    timer.start(run, TimeLimits(None, 30.0, 500))

    [seen] = notified
    assert (seen["id"].token, seen["id"].limit_s, seen["id"].retry_ms) == ("token", 30.0, 500)
    assert before + 30 <= seen["id"].ends_at <= time.monotonic() + 30
    timer.stop(run)
    assert timer.hard_limits() == {}
    TimeLimitTimer().start(run, TimeLimits(None, 30.0))  # without a supervisor


@pytest.mark.parametrize(
    ("options", "retry_ms"),
    [
        ({}, None),
        ({"max_attempts": 3, "backoff": [2, 7]}, 2_000),
        ({"max_attempts": 3, "backoff": 1.5}, 1_500),
        ({"max_attempts": 1, "backoff": 1.5}, None),
    ],
)
def test_outcome_of_a_hard_limit_is_prepared_before(
    redis_server: Store, options: dict[str, Any], retry_ms: int | None
) -> None:
    limits = limits_in_the_worker(add.using(timeout=(None, 5), **options))

    assert limits == TimeLimits(None, 5.0, retry_ms)


def test_callable_backoff_is_not_called_for_a_terminated_process(redis_server: Store) -> None:
    asked: list[Any] = []
    for backoff, longest_ms in ((lambda *what: asked.append(what), 2_000), (exponential(base=0.1), 100)):
        options = TaskOptions(max_attempts=3, backoff=backoff, timeout=(None, 5))
        execution = Execution(JOB, Task(func=add.func, name=add.name, declared_options=options))
        execution.start()
        assert execution.limits is not None
        assert 0 <= (execution.limits.retry_ms or 0) <= longest_ms

    assert asked == []


def test_outcome_of_a_terminated_process_has_its_reason() -> None:
    assert timed_out("id", "token", 40.0, None).outcome == "failed"
    ack = timed_out("id", "token", 2.5, 300)

    assert (ack.outcome, ack.delay_ms) == ("retried", 300)
    assert b"longer than its hard time limit of 2.5 s, and its process was terminated." in ack.payload
    assert TimeLimitExceeded.__name__.encode() in ack.payload


def test_limits_apply_only_in_a_worker(redis_server: Store) -> None:
    result = add.using(timeout=(0.000_1, 0.000_2)).enqueue(1, 2)

    work_off()

    result.refresh()
    assert result.return_value == 3

"""A worker runs tasks of Django's framework and sends the framework's signals."""

from __future__ import annotations

import logging
import sys
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_redis_components.contrib.django_tasks import RedisBackend
from django_redis_components.core.client import connections
from django_redis_components.taskqueue import WorkerLost
from django_redis_components.taskqueue.logs import TaskFilter
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.worker.execution import execute
from tests.contrib.django_tasks.framework import (
    IMMEDIATE,
    NAME,
    REDIS,
    ImmediateBackend,
    signals,
)
from tests.contrib.django_tasks.shop.tasks import (
    add,
    add_async,
    come_back,
    echo,
    fail,
    give,
    interrupt,
    look,
    note,
    recorded,
)
from tests.contrib.django_tasks.support import SITE
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import (
    base_key,
    end_lease,
    fall_due,
    let_recovery_begin,
    new_fetcher,
    running_worker,
    settle_now,
    work_off,
)


@pytest.fixture(autouse=True)
def _backends(configure: Any) -> None:
    configure()


def work_once(worker: str) -> None:
    """Run one task, and nothing that becomes due by that."""
    fetcher = new_fetcher(worker=worker)
    (job,) = fetcher.fetch("0", 1)
    settle_now(fetcher, execute(job))


def test_a_task_is_run_and_its_result_is_read(store: Store) -> None:
    result = add.enqueue(1, b=2)

    work_off(worker="host:1")

    result.refresh()
    assert (result.status, result.return_value, result.is_finished) == ("SUCCESSFUL", 3, True)
    assert (result.worker_ids, result.attempts, result.errors) == (["host:1"], 1, [])
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at
    assert 0 < store.raw.pttl(f"{store.prefix}:taskqueue:{{default}}:t:{result.id}") <= 600_000


def test_a_coroutine_is_run(redis_server: Store) -> None:
    result = add_async.enqueue(1, 2)

    work_off()

    assert add_async.get_result(result.id).return_value == 3


def test_a_failure_is_kept_with_its_class_and_traceback(store: Store) -> None:
    result = fail.enqueue("out of paper")

    work_off()

    result.refresh()
    assert result.status == "FAILED"
    with pytest.raises(ValueError, match=r"^Task failed$"):
        assert result.return_value
    (error,) = result.errors
    assert error.exception_class is LookupError
    assert error.traceback.startswith("Traceback (most recent call last):\n")
    assert error.traceback.endswith("LookupError: out of paper\n")


def test_an_interrupt_that_a_task_raises_is_its_failure(redis_server: Store, received: Any) -> None:
    results = [interrupt.enqueue(), add.enqueue(1, 2)]

    work_off()

    assert [each.task.get_result(each.id).status for each in results] == ["FAILED", "SUCCESSFUL"]
    assert interrupt.get_result(results[0].id).errors[0].exception_class is KeyboardInterrupt


@pytest.mark.parametrize(("kind", "value"), [("tuple", [1, 2]), ("bytes", "text")])
def test_a_return_value_is_normalized_as_the_framework_does(redis_server: Store, kind: str, value: Any) -> None:
    result = give.enqueue(kind)

    work_off()

    assert give.get_result(result.id).return_value == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("object", "TypeError: Unsupported type: <class 'object'>\n"),
        ("nan", "ValueError: the return value is nan: JSON has no NaN and no infinities.\n"),
        ("keys", "TypeError: the return value has the key 1: JSON objects have strings as keys.\n"),
    ],
)
def test_a_return_value_that_json_would_change_is_a_failure(
    redis_server: Store, received: Any, kind: str, text: str
) -> None:
    result = give.enqueue(kind)

    work_off()

    assert give.get_result(result.id).errors[0].traceback.endswith(text)
    assert received[-1] == ("task_finished", RedisBackend, "FAILED")


def test_a_deferred_task_waits_for_its_time(store: Store) -> None:
    result = add.using(run_after=timezone.now() + timedelta(seconds=60)).enqueue(1, 2)

    assert work_off() == []
    assert add.get_result(result.id).status == "READY"
    fall_due(store, result)
    work_off()

    result.refresh()
    assert result.return_value == 3


def test_urgent_tasks_come_first(store: Store) -> None:
    for priority in (0, -100, 5, 100, 0):
        note.using(priority=priority).enqueue(priority)

    work_off()

    assert recorded == [100, 5, 0, 0, -100]


def test_context_of_a_running_task_equals_the_stored_result(store: Store) -> None:
    result = look.using(priority=7, max_attempts=2).enqueue()

    work_off(worker="host:1")

    ((seen, stored),) = recorded
    assert (seen.id, seen.status, seen.worker_ids, seen.attempts) == (result.id, "RUNNING", ["host:1"], 1)
    assert stored.status == "RUNNING"
    for name in ("task", "worker_ids", "errors", "enqueued_at", "started_at", "last_attempted_at", "args", "kwargs"):
        assert getattr(seen, name) == getattr(stored, name), name
    assert look.get_result(result.id).return_value == 1


def test_context_has_the_previous_attempts(store: Store) -> None:
    result = look.using(max_attempts=3, backoff=0).enqueue(failures=2)

    for worker in ("host:1", "host:2", "host:3"):
        work_once(worker)

    result.refresh()
    assert (result.return_value, result.worker_ids) == (3, ["host:1", "host:2", "host:3"])
    seen, stored = recorded[-1]
    assert (seen.attempts, seen.worker_ids) == (3, result.worker_ids)
    assert seen.errors == stored.errors == result.errors
    assert [error.traceback.splitlines()[-1] for error in seen.errors] == [
        "LookupError: attempt 1",
        "LookupError: attempt 2",
    ]
    assert seen.started_at == stored.started_at < seen.last_attempted_at == stored.last_attempted_at


def test_context_counts_trimmed_worker_ids(redis_server: Store) -> None:
    result = look.using(max_attempts=500, backoff=0).enqueue(failures=401)
    redis_server.raw.hset(base_key(redis_server, "t", result.id), mapping={"a": 400, "k": 400, "w": "+399,host:1"})

    work_off(worker="host:2")

    assert look.get_result(result.id).return_value == 402
    assert recorded[0][0].worker_ids == ["unknown"] * 399 + ["host:1", "host:2"]


def test_a_context_counts_a_worker_that_died(redis_server: Store) -> None:
    result = look.enqueue()
    let_a_worker_die("host:1", redis_server)

    work_off(worker="host:2")

    assert recorded[0][0].worker_ids == ["host:1", "host:2"]
    assert look.get_result(result.id).return_value == 2


def test_a_task_that_kills_its_workers_fails_without_a_signal(redis_server: Store, received: Any) -> None:
    result = add.using(max_deliveries=2).enqueue(1, 2)
    for worker in ("host:1", "host:2"):
        let_a_worker_die(worker, redis_server)

    result.refresh()

    assert (result.status, result.worker_ids, work_off()) == ("FAILED", ["host:1", "host:2"], [])
    assert result.errors[-1].exception_class is WorkerLost
    assert received.names() == ["task_enqueued"]


def let_a_worker_die(worker: str, store: Store) -> None:
    """Have it take a task and be heard of no more."""
    (job,) = new_fetcher(worker=worker).fetch("0", 1)
    end_lease(store, job.id)
    poller = Poller(home(), connections.client())
    let_recovery_begin()
    for _ in range(2):
        poller.next_round_at = 0.0
        poller.step()
    poller.close()


def test_unreadable_earlier_runs_are_counted(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    fail.using(max_attempts=3, backoff=0).enqueue()
    work_once("host:1")
    started = []
    (job,) = new_fetcher(worker="host:2").fetch("1", 1)
    redis_server.raw.delete(f"{redis_server.prefix}:taskqueue:{{default}}:t:{job.id}")
    receive = lambda task_result, **_: started.append(task_result.worker_ids)  # noqa: E731
    signals.task_started.connect(receive)

    ack = execute(job)

    signals.task_started.disconnect(receive)
    assert started == [["unknown", "host:2"]]
    assert ack.outcome == "retried"
    assert f"The earlier runs of task {job.id} of {job.name} cannot be read (There is no task" in caplog.text


def test_the_signals_follow_the_life_of_a_task(redis_server: Store, received: Any) -> None:
    add.enqueue(1, 2)
    work_off()
    fail.enqueue()
    work_off()

    assert received == [
        ("task_enqueued", RedisBackend, "READY"),
        ("task_started", RedisBackend, "RUNNING"),
        ("task_finished", RedisBackend, "SUCCESSFUL"),
        ("task_enqueued", RedisBackend, "READY"),
        ("task_started", RedisBackend, "RUNNING"),
        ("task_finished", RedisBackend, "FAILED"),
    ]


def test_task_finished_is_not_sent_before_a_retry(redis_server: Store, received: Any) -> None:
    fail.using(max_attempts=2, backoff=0).enqueue()
    work_off()
    come_back.enqueue()
    eventually(lambda: work_off() == [] and len(received) == 8)

    assert received.names() == [
        *("task_enqueued", "task_started", "task_started", "task_finished"),
        *("task_enqueued", "task_started", "task_started", "task_finished"),
    ]


def test_a_finished_receiver_sees_the_exception_and_the_whole_result(redis_server: Store) -> None:
    received: list[Any] = []

    def receive(task_result: Any, **_: Any) -> None:
        received.append((sys.exc_info()[1], task_result))

    signals.task_finished.connect(receive)
    try:
        sent = fail.enqueue("with its traceback"), add.enqueue(1, 2)
        work_off()
    finally:
        signals.task_finished.disconnect(receive)

    (exception, failed), (nothing, succeeded) = received
    assert repr(exception) == "LookupError('with its traceback')"
    assert failed.errors == fail.get_result(sent[0].id).errors
    assert nothing is None
    assert succeeded.return_value == 3
    assert succeeded.finished_at >= succeeded.started_at


@pytest.mark.parametrize("error", [LookupError, SystemExit])
@pytest.mark.parametrize("name", ["task_started", "task_finished"])
def test_a_broken_receiver_does_not_stop_the_worker(
    redis_server: Store, caplog: pytest.LogCaptureFixture, name: str, error: type[BaseException]
) -> None:
    def receive(**_: Any) -> None:
        raise error("in the receiver")

    getattr(signals, name).connect(receive)
    try:
        results = [add.enqueue(1, 2), add.enqueue(3, 4)]
        assert len(work_off()) == 2
    finally:
        getattr(signals, name).disconnect(receive)

    assert [add.get_result(each.id).status for each in results] == ["SUCCESSFUL"] * 2
    assert "in the receiver" in caplog.text


def test_framework_logs_each_step(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, NAME)

    result = add.enqueue(1, 2)
    work_off()

    messages = [record.getMessage() for record in caplog.records if record.name == NAME]
    assert [line.split(f"Task id={result.id} path={add.module_path} ")[1] for line in messages] == [
        "enqueued backend=default",
        "state=RUNNING",
        "state=SUCCESSFUL",
    ]


def test_failure_is_logged_once_with_the_task_id(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.handler.addFilter(TaskFilter())

    result = fail.enqueue()
    work_off()

    [error] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert error.name == NAME
    assert error.exc_info
    assert (error.task_id, error.queue) == (result.id, "default")
    [ours] = [record for record in caplog.records if "failed (attempt 1 of 1)" in record.getMessage()]
    assert (ours.levelname, ours.exc_info, ours.outcome, ours.task_id) == ("INFO", None, "failed", result.id)


def test_unknown_backend_does_not_stop_the_worker(redis_server: Store, configure: Any, received: Any) -> None:
    configure(mails={"BACKEND": REDIS, "QUEUES": []})
    result = add.using(backend="mails").enqueue(1, 2)
    configure()

    work_off()

    assert add.get_result(result.id).return_value == 3
    assert [sender for _, sender, _ in received] == [RedisBackend] * 3


def test_sender_is_the_backend_class_of_the_workers_settings(redis_server: Store, settings: Any, received: Any) -> None:
    add.enqueue(1, 2)
    settings.TASKS = {"default": {"BACKEND": IMMEDIATE}}

    work_off()

    assert [sender for _, sender, _ in received] == [RedisBackend, ImmediateBackend, ImmediateBackend]


def test_a_worker_with_threads_runs_a_mixture(store: Store) -> None:
    with running_worker("default", "mails", threads=4):
        results = [
            task.using(queue_name=("default", "mails")[number % 2]).enqueue(number, 1)
            for number in range(20)
            for task in (add, add_async, echo)
        ]
        eventually(lambda: all(each.task.get_result(each.id).is_finished for each in results))

    for number, each in enumerate(results):
        each.refresh()
        expected = [[number // 3, 1], {}] if each.task.func is echo.func else number // 3 + 1
        assert each.return_value == expected


def test_runworker_runs_tasks_it_finds_in_the_apps(redis_server: Store, settings: Any, children: Children) -> None:
    settings.TASKS = {"default": {"BACKEND": IMMEDIATE}, "redis": {"BACKEND": REDIS, "QUEUES": []}}
    from tests.contrib.django_tasks.elsewhere.tasks import double

    results = [add.using(backend="redis").enqueue(1, 2), double.using(backend="redis").enqueue(21)]
    child = children.manage("runworker", "--threads", "1", "--burst", "--skip-checks", env=SITE)

    assert child.wait(60) == 0, child.output
    assert [each.task.get_result(each.id).return_value for each in results] == [3, 42]

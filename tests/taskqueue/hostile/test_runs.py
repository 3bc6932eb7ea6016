"""Nothing that describes, logs or observes a run changes its outcome, or ends the thread that runs tasks."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from django_redis_components.core.exception_text import class_path
from django_redis_components.core.observability.live_events import RECORDER
from django_redis_components.taskqueue import Middleware, RunContext, RunOutcome, WorkerDescription, signals
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker.worker import Worker
from tests.support import Store, eventually
from tests.taskqueue.hostile.errors import KINDS, make
from tests.taskqueue.hostile.tasks import (
    cancel_all_tasks,
    cancel_late,
    end_the_loop,
    good,
    good_async,
    raise_kind,
    raise_kind_async,
    return_once,
    settle_each,
    settle_each_async,
    use_a_thread,
    wait_async,
)
from tests.taskqueue.support import running_worker, work_off
from tests.taskqueue.tasks import fail_thrice

pytestmark = pytest.mark.integration

QUEUES = ("default", "good")


def runs_of(store: Store, name: str) -> int:
    return int(store.raw.get(f"{store.prefix}:count:{name}") or 0)


def check_good_tasks(worker: Worker, threads: int) -> None:
    """Check that all threads, and the event loop, run tasks of another sender."""
    results = good.enqueue_many([((number,), {}) for number in range(20)])
    assert [result.get(60) for result in results] == list(range(20))
    assert good_async.enqueue(1).get(60) == 1
    eventually(lambda: worker.busy() == 0)
    assert (worker.threads.alive(), worker.threads.lost()) == (threads, 0)


def test_exceptions_of_all_kinds_end_as_failures(redis_server: Store) -> None:
    with running_worker(*QUEUES, threads=2) as worker:
        results = [task.enqueue(kind) for kind in KINDS for task in (raise_kind, raise_kind_async)]
        for result in results:
            eventually(lambda result=result: (result.refresh(), result.is_finished)[1])
        check_good_tasks(worker, 2)

    assert {result.state for result in results} == {"failed"}
    assert all(result.errors[0].traceback for result in results)


@pytest.mark.parametrize("settle", [settle_each, settle_each_async], ids=["sync", "async"])
def test_exceptions_of_all_kinds_fail_their_own_call_of_a_batch(redis_server: Store, settle: Any) -> None:
    results = {kind: settle.enqueue(kind) for kind in ["good", *KINDS]}

    with running_worker(*QUEUES):
        for result in results.values():
            eventually(lambda result=result: (result.refresh(), result.is_finished)[1])

    assert results.pop("good").get(0) == "settled"
    assert {kind: result.errors[0].exception_class_path for kind, result in results.items()} == {
        kind: class_path(type(make(kind))) for kind in results
    }


@pytest.mark.parametrize("kind", ["false", "empty"])
def test_failure_by_an_exception_that_is_not_true_is_logged_with_its_traceback(
    redis_server: Store, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    raise_kind.enqueue(kind)

    work_off()

    [text] = [text for text in caplog.text.split("ERROR") if " failed (attempt 1 of 1)" in text]
    assert 'hostile/tasks.py", line ' in text
    assert type(make(kind)).__name__ in text


@contextmanager
def log_filter(exc: type[BaseException]) -> Iterator[list[str]]:
    """A filter of the site that raises, for each message of the task queue."""
    seen: list[str] = []

    def raise_it(record: logging.LogRecord) -> bool:
        seen.append(record.getMessage())
        raise exc("request_id")

    logger = logging.getLogger("django_redis_components.taskqueue")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addFilter(raise_it)
    try:
        yield seen
    finally:
        logger.removeFilter(raise_it)
        logger.setLevel(level)


@pytest.mark.parametrize("exc", [KeyError, SystemExit, KeyboardInterrupt])
def test_log_filter_that_raises_changes_no_outcome(redis_server: Store, exc: type[BaseException]) -> None:
    with log_filter(exc) as seen, running_worker(*QUEUES, threads=2) as worker:
        assert return_once.enqueue().get(60) == "returned"
        failing = fail_thrice.enqueue()
        eventually(lambda: (failing.refresh(), failing.is_finished)[1])
        check_good_tasks(worker, 2)

    assert runs_of(redis_server, "return_once") == 1
    assert (failing.state, failing.attempts) == ("failed", 3)
    assert any("succeeded" in message for message in seen)


def test_log_handler_that_raises_reports_the_lost_message(
    redis_server: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    with log_filter(KeyError), running_worker():
        assert return_once.enqueue().get(60) == "returned"

    text = "The logging of the site raised KeyError; a message was lost: Task %s[%s] succeeded in %.3f s."
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("name", ["task_started", "task_finished"])
@pytest.mark.parametrize("exc", [LookupError, SystemExit, asyncio.CancelledError])
def test_receiver_that_raises_changes_no_outcome(redis_server: Store, name: str, exc: type[BaseException]) -> None:
    def receive(**_: Any) -> None:
        raise exc("receiver")

    getattr(signals, name).connect(receive, weak=False)
    with running_worker(*QUEUES, threads=2) as worker:
        assert return_once.enqueue().get(60) == "returned"
        check_good_tasks(worker, 2)

    assert runs_of(redis_server, "return_once") == 1


class BrokenAround(Middleware):
    """Raises what ends threads, around the run or after it."""

    def __init__(self, at: str) -> None:
        self._at = at

    def on_outcome(self, run: RunContext, outcome: RunOutcome) -> None:
        raise SystemExit(self._at)

    def on_process_start(self, process: WorkerDescription) -> None:
        raise LookupError(self._at)


def test_middleware_that_raises_after_the_run_changes_no_outcome(redis_server: Store) -> None:
    with pipeline.installed(BrokenAround("outcome")), running_worker(*QUEUES, threads=2) as worker:
        assert return_once.enqueue().get(60) == "returned"
        failing = fail_thrice.enqueue("mine")
        eventually(lambda: (failing.refresh(), failing.is_finished)[1])
        check_good_tasks(worker, 2)

    assert runs_of(redis_server, "return_once") == 1
    assert [error.message for error in failing.errors] == ["mine"] * 3


def test_live_events_that_cannot_be_recorded_change_no_outcome(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise SystemExit("events")

    monkeypatch.setattr(RECORDER, "has_room", broken)
    with running_worker(*QUEUES, threads=2) as worker:
        assert return_once.enqueue().get(60) == "returned"
        check_good_tasks(worker, 2)

    assert runs_of(redis_server, "return_once") == 1


def test_error_outside_of_the_function_fails_the_task(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise MemoryError("outside")

    with running_worker(*QUEUES, threads=1) as worker:
        with monkeypatch.context() as patch:
            patch.setattr("django_redis_components.taskqueue.worker.worker.execute", broken)
            result = good.enqueue(1)
            eventually(lambda: (result.refresh(), result.is_finished)[1])
        check_good_tasks(worker, 1)

    assert (result.state, result.errors[0].message) == ("failed", "outside")


def test_error_in_a_fetch_does_not_end_the_thread(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def broken(row: Any, now_us: int) -> Job:
        calls.append(1)
        if len(calls) == 1:
            raise UnicodeDecodeError("utf-8", b"", 0, 1, "broken")
        return real(row, now_us)

    real = Job.parse
    monkeypatch.setattr(Job, "parse", staticmethod(broken))
    with running_worker(*QUEUES, threads=2) as worker:
        good.enqueue(0)
        eventually(lambda: calls)
        check_good_tasks(worker, 2)


def test_coroutine_returns_to_its_queue_if_the_event_loop_cannot_start(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> asyncio.AbstractEventLoop:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "new_event_loop", broken)
        with running_worker(*QUEUES) as worker:
            assert good.enqueue(0).get(60) == 0
            result = good_async.enqueue(1)
            eventually(lambda: worker.restart_reason)
        assert worker.restart_reason == "its event loop cannot start"
        assert "The event loop cannot start ([Errno 24] Too many open files)." in caplog.text
        result.refresh()
        assert (result.state, result.attempts) == ("ready", 0)
    with running_worker(*QUEUES):
        assert result.get(60) == 1


def test_coroutine_that_a_neighbor_cancels_is_retried(redis_server: Store) -> None:
    with running_worker(*QUEUES) as worker:
        waiting = wait_async.enqueue(0.2)
        canceling = cancel_all_tasks.enqueue()
        assert waiting.get(60) == "waited"
        eventually(lambda: (canceling.refresh(), canceling.is_finished)[1])
        check_good_tasks(worker, 1)

    assert (canceling.state, canceling.attempts) == ("failed", 2)
    assert canceling.errors[0].exception_class_path == "asyncio.exceptions.CancelledError"


def test_coroutine_that_ends_the_loop_takes_nothing_from_others(redis_server: Store) -> None:
    with running_worker(*QUEUES) as worker:
        assert end_the_loop.enqueue().get(60) == "ended"
        assert use_a_thread.enqueue().get(60) == "used"
        check_good_tasks(worker, 1)


def test_late_cancellation_does_not_change_the_outcome(redis_server: Store) -> None:
    with running_worker(*QUEUES) as worker:
        results = [cancel_late.enqueue() for _ in range(20)]
        assert [result.get(60) for result in results] == ["returned"] * 20
        check_good_tasks(worker, 1)


def test_coroutine_that_is_cancelled_before_its_first_step_is_retried(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled: list[int] = []

    class Task(asyncio.Task[Any]):
        def __init__(self, coro: Any, **options: Any) -> None:
            super().__init__(coro, **options)
            if not cancelled:
                cancelled.append(1)
                self.cancel()

    monkeypatch.setattr(asyncio, "Task", Task)
    with running_worker(*QUEUES, async_concurrency=1) as worker:
        assert wait_async.enqueue(0).get(60) == "waited"
        check_good_tasks(worker, 1)

    assert cancelled == [1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_run_whose_thread_has_died_fails_and_the_process_is_replaced(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(ack: Ack) -> None:
        raise SystemExit("the guard itself is broken")

    with running_worker(*QUEUES, threads=2) as worker:
        with monkeypatch.context() as patch:
            patch.setattr(worker.fetcher, "settle", die)
            result = good.enqueue(1)
            eventually(lambda: worker.threads.lost() == 1)
        assert worker.running() == [result.id]
        worker.settle_lost_runs()
        eventually(lambda: (result.refresh(), result.is_finished)[1])

    assert (result.state, result.errors[0].message) == ("failed", "The thread of this run has died.")
    assert worker.restart_reason == "one of its threads has died"

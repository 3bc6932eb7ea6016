"""Each call of a batch has its own outcome: by `succeed` and `fail`, by the return value, or by an exception."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from cryptography.fernet import Fernet

from django_redis_components.taskqueue import (
    BatchCall,
    Middleware,
    RunContext,
    RunOutcome,
    Task,
    TaskResult,
    chain,
    get_queue,
    group,
    registry,
)
from django_redis_components.taskqueue.batch_task import log_if_lost
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.signals import task_finished, task_started
from django_redis_components.taskqueue.store.finished import list_finished
from django_redis_components.testing import drain, inline
from tests.support import Store, eventually
from tests.taskqueue.batching.tasks import collect, collect_async, collect_ready, give_back, latest, runs, settle
from tests.taskqueue.support import running_worker, taskqueue_settings, work_off, work_until_finished


def send(made: Any, *calls: Any) -> list[TaskResult]:
    found: list[TaskResult] = made.enqueue_many([(call if isinstance(call, tuple) else (call,), {}) for call in calls])
    return found


def states(results: list[TaskResult]) -> list[str]:
    for result in results:
        result.refresh()
    return [result.state for result in results]


@pytest.mark.contract
def test_each_call_has_its_own_outcome(store: Store) -> None:
    results = send(settle, ("succeed", 7), ("fail", "x"), ("delay",), ("unstorable",), ("none",))
    work_off()

    assert len(runs[0]) == 5
    assert states(results)[2] == "scheduled"
    assert (results[0].return_value, results[4].return_value) == (7, None)
    assert [result.state for result in results[1::2]] == ["failed", "failed"]
    assert results[1].errors[-1].exception_class is LookupError
    assert results[3].errors[-1].message.startswith("the return value")
    assert [result.attempts for result in results] == [1, 2, 0, 2, 1]


def test_run_is_counted_once_and_shown_with_each_call(store: Store) -> None:
    """Its time is that of one thread: autoscalers add up the times of runs."""
    results = send(collect_ready, "a", "b", "c")
    work_off()

    recent = get_queue("default").metrics()
    assert (recent.run_time.count, recent.wait_time.count) == (1, len(results))
    rows = home().run(list_finished(home(), "default", "successful", 9, 0))
    assert len(rows) == 3
    assert all(row.duration is not None for row in rows), rows


def test_failed_calls_are_retried_together_without_the_others(store: Store) -> None:
    send(settle, ("succeed", 7), ("fail", "x"), ("fail", "y"), ("none",))
    work_off()

    assert runs == [["succeed", "fail", "fail", "none"], ["fail", "fail"]]
    assert [call.attempt for call in latest] == [2, 2]


def test_exception_fails_the_calls_that_are_not_settled(store: Store) -> None:
    results = send(settle.using(max_attempts=1), ("succeed", 7), ("fail", "x"), ("raise",), ("none",))
    work_off()

    assert states(results) == ["successful", "failed", "failed", "failed"]
    assert [result.errors[-1].exception_class for result in results[1:]] == [
        LookupError,
        ZeroDivisionError,
        ZeroDivisionError,
    ]


def test_tracebacks_of_calls_that_fail_together_are_equal(store: Store) -> None:
    results = send(settle.using(max_attempts=1), ("raise",), ("none",), ("none",))
    work_off()

    states(results)
    assert len({result.errors[-1].traceback for result in results}) == 1


def test_list_has_a_value_for_each_call(store: Store) -> None:
    results = send(collect_ready, 1, "two", None)
    work_off()

    assert states(results) == ["successful"] * 3
    assert [result.return_value for result in results] == [1, "two", None]


@pytest.mark.parametrize("value", [3, "x", [1], [1, 2, 3], {"a": 1}], ids=repr)
def test_other_return_values_fail_the_calls(store: Store, value: Any) -> None:
    results = send(give_back, value, 0)
    work_off()

    assert states(results) == ["failed", "failed"]
    assert "expected None, or a list with a value for each of 2 calls" in results[1].errors[-1].message


def test_single_call_runs_as_a_batch_of_one(store: Store) -> None:
    [result] = send(settle, ("succeed", 5))
    [failed] = send(settle.using(max_attempts=1, queue_name="other"), ("fail", "x"))
    work_off()
    work_off("other")

    assert states([result, failed]) == ["successful", "failed"]
    assert (result.return_value, runs) == (5, [["succeed"], ["fail"]])
    assert latest[0].id == failed.id


def test_error_after_all_calls_were_settled_is_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    def raise_late(calls: list[Any]) -> None:
        for call in calls:
            call.succeed()
        raise LookupError("late")

    made = registry.find(settle.name)
    object.__setattr__(made, "batch_func", raise_late)
    try:
        results = send(settle, ("x",), ("y",))
        work_off()
    finally:
        object.__setattr__(made, "batch_func", settle_func)

    assert states(results) == ["successful"] * 2
    assert "has raised after all calls of its batch were settled" in caplog.text


settle_func = registry.find(settle.name).batch_func


def test_each_call_is_logged(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "django_redis_components.taskqueue")
    results = send(settle.using(max_attempts=1), ("succeed", 7), ("fail", "x"))
    work_off()

    assert f"{settle.name}[{results[0].id}] succeeded" in caplog.text
    assert f"{settle.name}[{results[1].id}] failed (attempt 1 of 1)" in caplog.text


def test_worker_runs_batches(store: Store) -> None:
    results = send(collect_ready, *range(250))
    with running_worker(threads=3) as worker:
        assert [result.get(30) for result in results] == list(range(250))
        assert worker.finished == 250

    assert sum(len(run) for run in runs) == 250
    assert max(len(run) for run in runs) == 100


def test_worker_runs_batches_of_coroutines(store: Store) -> None:
    results = send(collect_async, *range(7))
    with running_worker(threads=2) as worker:
        assert [result.get(30) for result in results] == list(range(7))
        assert worker.busy() == 0

    assert sorted(len(run) for run in runs) == [1, 3, 3]


def test_worker_starts_a_batch_when_its_oldest_call_has_waited(store: Store) -> None:
    with running_worker():
        results = send(collect_async, 1, 2)
        assert [result.get(30) for result in results] == [1, 2]

    assert runs == [[1, 2]]


def test_batch_whose_task_is_none_here_runs_call_by_call(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of a version of the site in which the task had no batch get calls that others have enqueued."""
    results = send(collect, "a", "b", "c")
    got: list[Any] = []
    monkeypatch.setitem(registry.tasks, collect.name, _as_before(got))
    with running_worker():
        assert [result.get(30) for result in results] == ["a", "b", "c"]

    assert sorted(got) == ["a", "b", "c"]


def _as_before(got: list[Any]) -> Any:
    def function(word: str) -> str:
        got.append(word)
        return word

    return Task(func=function, name=collect.name, declared_options=TaskOptions())


def test_unregistered_calls_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    results = send(collect, "a", "b", "c")
    monkeypatch.delitem(registry.tasks, collect.name)
    work_off()

    assert states(results) == ["unregistered"] * 3


def test_flow_continues_after_the_calls_of_a_batch(store: Store) -> None:
    flow = chain(group(collect_ready.s(1), collect_ready.s(2)), collect_ready.s()).enqueue()
    work_until_finished(*flow.results) if hasattr(flow, "results") else work_off()

    assert runs[0] == [1, 2]
    assert runs[-1] == [[1, 2]]


def test_drain_runs_calls_that_wait_for_others(store: Store) -> None:
    send(collect, "a", "b", "c", "d")

    ran = drain()

    assert runs == [["a", "b", "c"], ["d"]]
    assert [result.state for result in ran] == ["successful"] * 4
    assert [result.batch_size for result in ran] == [3, 3, 3, 1]


def test_drain_raises_the_error_of_a_call(store: Store) -> None:
    send(settle.using(max_attempts=1), ("succeed", 1), ("fail", "x"))

    with pytest.raises(LookupError, match="x"):
        drain()


def test_inline_runs_each_call_alone() -> None:
    with inline():
        results = send(collect_ready, 1, 2)
        assert [result.get() for result in results] == [1, 2]

    assert runs == [[1], [2]]


def test_inline_raises_the_error_of_a_call() -> None:
    with pytest.raises(LookupError, match="x"), inline():
        send(settle.using(max_attempts=1), ("fail", "x"))


def test_sealed_arguments_are_open_in_a_call(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, SEAL_KEYS=[Fernet.generate_key().decode()])
    results = send(collect_ready.using(sealed=True), 1, 2)
    work_off()

    assert states(results) == ["successful"] * 2
    assert runs == [[1, 2]]


def test_call_that_cannot_be_opened_is_kept_and_the_others_run(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, SEAL_KEYS=[Fernet.generate_key().decode()])
    [sealed] = send(collect_ready.using(sealed=True), 1)
    taskqueue_settings(settings, SEAL_KEYS=[Fernet.generate_key().decode()])
    [other] = send(collect_ready, 2)
    work_off()

    assert states([sealed, other]) == ["unregistered", "successful"]
    assert runs == [[2]]


def test_errors_of_all_calls_have_no_text_if_one_is_sealed(
    store: Store, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    taskqueue_settings(settings, SEAL_KEYS=[Fernet.generate_key().decode()])
    once = settle.using(max_attempts=1)
    results = [once.enqueue("none"), once.using(sealed=True).enqueue("raise")]
    work_off()

    assert states(results) == ["failed"] * 2
    for result in results:
        assert result.errors[-1].exception_class_path.endswith("ZeroDivisionError")
        assert "2 calls" not in result.errors[-1].message + result.errors[-1].traceback
    assert "2 calls" not in caplog.text


def test_cancelled_calls_are_no_lost_errors(caplog: pytest.LogCaptureFixture) -> None:
    call = BatchCall(id="x")
    call.is_cancelled = call.is_settled = True

    log_if_lost(LookupError(), [call], "name", is_sealed=False)
    assert caplog.text == ""

    settled = BatchCall(id="y")
    settled.succeed()
    log_if_lost(LookupError("secret"), [call, settled], "name", is_sealed=True)
    assert "has raised after all calls of its batch were settled" in caplog.text
    assert "secret" not in caplog.text


class Watching(Middleware):
    """Notes what it surrounds, and doubles the arguments."""

    def __init__(self) -> None:
        self.surrounded: list[list[str]] = []
        self.outcomes: dict[str, tuple[str, Any]] = {}

    def around_run(self, run: RunContext, call_next: Callable[[], Any]) -> Any:
        self.surrounded.append([each.id for each in (run, *run.others)])
        for each in (run, *run.others):
            each.args = [arg * 2 if isinstance(arg, int) else arg for arg in each.args]
        return call_next()

    async def aaround_run(self, run: RunContext, call_next: Callable[[], Awaitable[Any]]) -> Any:
        self.surrounded.append([each.id for each in (run, *run.others)])
        for each in (run, *run.others):
            each.args = [arg * 2 if isinstance(arg, int) else arg for arg in each.args]
        return await call_next()

    def on_outcome(self, run: RunContext, outcome: RunOutcome) -> None:
        self.outcomes[run.id] = (outcome.name, sys.exc_info()[1])


def test_middleware_surrounds_the_run_once_and_gets_each_outcome(store: Store) -> None:
    watching = Watching()
    with pipeline.installed(watching):
        results = send(settle.using(max_attempts=1), ("succeed", 7), ("fail", "x"))
        work_off()

    assert watching.surrounded == [[result.id for result in results]]
    assert states(results) == ["successful", "failed"]
    assert results[0].return_value == 14
    assert watching.outcomes[results[0].id] == ("succeeded", None)
    name, raised = watching.outcomes[results[1].id]
    assert (name, repr(raised)) == ("failed", "LookupError('x')")


def test_middleware_surrounds_a_batch_of_coroutines(store: Store) -> None:
    watching = Watching()
    with pipeline.installed(watching), running_worker():
        results = send(collect_async, 1, 2, 3)
        assert [result.get(30) for result in results] == [2, 4, 6]

    assert watching.surrounded == [[result.id for result in results]]
    assert {name for name, _ in watching.outcomes.values()} == {"succeeded"}


def test_signals_are_sent_for_each_call(store: Store) -> None:
    sent: list[tuple[str, str]] = []

    def note_start(sender: Any, task_result: TaskResult, **_: Any) -> None:
        sent.append(("started", task_result.id))

    def note_end(sender: Any, task_result: TaskResult, **_: Any) -> None:
        sent.append((task_result.state, task_result.id))

    task_started.connect(note_start)
    task_finished.connect(note_end)
    try:
        with running_worker():
            results = send(settle.using(max_attempts=1), ("succeed", 7), ("fail", "x"))
            eventually(lambda: len(sent) == 4)
    finally:
        task_started.disconnect(note_start)
        task_finished.disconnect(note_end)

    ids = [result.id for result in results]
    assert sorted(sent) == sorted(
        [("started", ids[0]), ("started", ids[1]), ("successful", ids[0]), ("failed", ids[1])]
    )


def test_error_of_middleware_fails_all_calls(store: Store) -> None:
    class Refusing(Watching):
        def around_run(self, run: RunContext, call_next: Callable[[], Any]) -> Any:
            raise PermissionError("refused")

    with pipeline.installed(Refusing()):
        results = send(settle.using(max_attempts=1), ("succeed", 7), ("none",))
        work_off()

    assert states(results) == ["failed"] * 2
    assert runs == []

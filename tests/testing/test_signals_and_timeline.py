"""`inline()` and `captured()` send the same signals and store the same timelines as a worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_redis_components.taskqueue import chain, signals
from django_redis_components.testing import captured, inline
from tests.support import run_async
from tests.taskqueue.tasks import add, fail, fail_thrice, note, recorded


@pytest.fixture
def received() -> Iterator[list[str]]:
    """Names of the signals, in order."""
    names: list[str] = []
    receivers = {}
    for name in ("task_enqueued", "task_started", "task_retrying", "task_finished"):

        def receive(task_result: Any, name: str = name, **_: Any) -> None:
            names.append(name)

        receivers[name] = receive
        getattr(signals, name).connect(receive)
    yield names
    for name, receive in receivers.items():
        getattr(signals, name).disconnect(receive)


def send(is_async: bool, *args: Any) -> Any:
    return run_async(add.aenqueue, *args) if is_async else add.enqueue(*args)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_inline_sends_task_enqueued_before_the_task_runs(received: list[str], is_async: bool) -> None:
    with inline():
        send(is_async, 1, 2)

    assert received == ["task_enqueued", "task_started", "task_finished"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_inline_sends_task_enqueued_for_a_task_that_raises(received: list[str], is_async: bool) -> None:
    with inline(), pytest.raises(LookupError):
        run_async(fail.aenqueue) if is_async else fail.enqueue()

    assert received == ["task_enqueued", "task_started", "task_finished"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_inline_sends_task_enqueued_for_all_tasks_before_the_first_runs(received: list[str], is_async: bool) -> None:
    calls: list[Any] = [((1,), {}), ((2,), {})]
    recorded.clear()
    with inline():
        results = run_async(note.aenqueue_many, calls) if is_async else note.enqueue_many(calls)

        assert [result.args for result in results] == [[1], [2]]

    assert received[:2] == ["task_enqueued"] * 2
    assert recorded == [1, 2]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_inline_sends_task_enqueued_for_a_flow_before_it_runs(received: list[str], is_async: bool) -> None:
    flow = chain(add.s(1, 2), add.s(3))
    with inline():
        run_async(flow.aenqueue) if is_async else flow.enqueue()

    assert received == ["task_enqueued"] * 2 + ["task_started", "task_finished"] * 2


def test_captured_records_failed_runs_in_the_timeline() -> None:
    with captured() as sent:
        result = fail_thrice.using(max_attempts=2).enqueue()
        sent.run(raise_errors=False)
        result.refresh()

        assert [run.outcome for run in result.timeline] == ["retried", "failed"]
        assert [run.worker_id for run in result.timeline] == result.worker_ids
        assert all(run.finished_at and run.started_at <= run.finished_at for run in result.timeline)


def test_inline_records_failed_runs_in_the_timeline() -> None:
    with inline(raise_errors=False):
        result = fail.enqueue()
        result.refresh()

        assert [run.outcome for run in result.timeline] == ["failed"]


def test_captured_keeps_expires_at() -> None:
    with captured():
        result = add.using(expires=60).enqueue(1, 2)
        sent = result.expires_at
        result.refresh()

        assert sent is not None
        assert result.expires_at == sent

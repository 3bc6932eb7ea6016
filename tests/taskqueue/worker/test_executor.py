"""One run: its failpoints and its observers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from django_redis_components.core import failpoints
from django_redis_components.taskqueue import Task, registry
from django_redis_components.taskqueue.store.job import Job
from tests.support import Store
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import add, come_back, fail, note

pytestmark = pytest.mark.integration


@dataclasses.dataclass
class Watcher:
    """An observer that records its calls."""

    args: list[Any]
    received: list[Any]
    logs_failure: bool = False

    def convert(self, value: Any) -> Any:
        if value == "unbearable":
            raise TypeError("it cannot be kept")
        return ["kept", value]

    def on_finish(self, outcome: str, exc: BaseException | None) -> None:
        self.received.append((outcome, exc and repr(exc)))
        if "unbearable" in self.args:
            raise LookupError("the watcher itself")


received: list[Any] = []


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WatchedTask(Task[Any, Any, Any]):
    """A task whose runs are watched."""

    @staticmethod
    def run_observer(task: Any, job: Job, args: list[Any], kwargs: dict[str, Any], options: dict[str, Any]) -> Any:
        received.append((job.name, kwargs, options))
        return Watcher(list(args), received)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a task one whose runs are watched."""
    received.clear()

    def make(task: Any) -> Any:
        fields = {field.name: getattr(task, field.name) for field in dataclasses.fields(task)}
        monkeypatch.setitem(registry.tasks, task.name, WatchedTask(**fields))
        return task

    return make


def test_observer_receives_the_value_and_the_outcome(redis_server: Store, watched: Any) -> None:
    result = watched(add).enqueue(2, b=3)

    work_off()

    result.refresh()
    assert result.return_value == ["kept", 5]
    assert received == [("tests.taskqueue.tasks.add", {"b": 3}, {}), ("succeeded", None)]


def test_observer_receives_a_failure(redis_server: Store, watched: Any) -> None:
    result = watched(fail).enqueue("boom")

    work_off()

    result.refresh()
    assert result.state == "failed"
    assert received[1:] == [("failed", "LookupError('boom')")]


def test_observer_receives_a_delayed_run(redis_server: Store, watched: Any) -> None:
    watched(come_back).enqueue(60)

    work_off()

    assert [outcome for outcome, _ in received[1:]] == ["delayed"]


def test_unserializable_value_fails_the_task_and_an_observer_error_does_not(
    redis_server: Store, watched: Any, caplog: pytest.LogCaptureFixture
) -> None:
    result = watched(note).enqueue("unbearable")

    work_off()

    result.refresh()
    assert (result.state, result.errors[0].message) == ("failed", "it cannot be kept")
    assert received[1:] == [("failed", "TypeError('it cannot be kept')")]
    assert f"An observer of task {result.id} failed after its end (failed)." in caplog.text


def test_failpoints_of_a_run_are_reached_in_order(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[str] = []
    monkeypatch.setattr(failpoints, "hook", passed.append)
    note.enqueue(1)

    work_off()

    assert passed == ["after_fetch", "before_run", "after_run", "before_ack"]

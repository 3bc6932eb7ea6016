"""What is known of a task: its record in Redis, read once, and told in Python's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from django.conf import settings as django_settings
from django.utils.timezone import make_naive

from django_redis_components.core import serialization as arguments
from django_redis_components.taskqueue import metadata as notes
from django_redis_components.taskqueue.exceptions import TaskFailed, TaskNotFinished
from django_redis_components.taskqueue.failure import TaskError
from django_redis_components.taskqueue.timeline import TaskRun, runs_of


class TaskResultStatus(StrEnum):
    """The status words of Django's Tasks."""

    READY = "READY"
    RUNNING = "RUNNING"
    SUCCESSFUL = "SUCCESSFUL"
    FAILED = "FAILED"


#: Our finer states, and the status each one counts as.
STATUS_OF_STATE = {
    "scheduled": TaskResultStatus.READY,
    "ready": TaskResultStatus.READY,
    "retrying": TaskResultStatus.READY,
    "parked": TaskResultStatus.READY,
    "waiting": TaskResultStatus.READY,
    "running": TaskResultStatus.RUNNING,
    "successful": TaskResultStatus.SUCCESSFUL,
    "failed": TaskResultStatus.FAILED,
    "cancelled": TaskResultStatus.FAILED,
    "expired": TaskResultStatus.FAILED,
}


#: How a task has ended that never began.
_ENDS = {"cancelled": "was cancelled", "expired": "expired before it began"}


class TaskFacts:
    """The record of a task as it was when it was read last.

    Attributes:
        name: the task's name.
        id: the task's id.
    """

    __slots__ = ("_failures", "_fields", "_message", "id", "name")

    def __init__(self, name: str, task_id: str, fields: Mapping[str, bytes], failures: Sequence[bytes]) -> None:
        self.name = name
        self.id = task_id
        self.fill(fields, failures)

    @property
    def state(self) -> str:
        """scheduled, ready, waiting, retrying, parked, running, successful, failed, cancelled or expired."""
        state = self._text("s")
        if state in ("", "scheduled"):
            due_ms = int(self._fields.get("d", 0))
            return "scheduled" if due_ms > datetime.now(UTC).timestamp() * 1_000 else "ready"
        return state

    @property
    def status(self) -> TaskResultStatus:
        """READY, RUNNING, SUCCESSFUL or FAILED."""
        return STATUS_OF_STATE[self.state]

    @property
    def is_finished(self) -> bool:
        """Whether it will not run any more by itself."""
        return self.status in (TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED)

    @property
    def queue_name(self) -> str:
        """The queue it was sent to."""
        return self._text("q")

    @property
    def flow_id(self) -> str | None:
        """The flow it is a task of (see `get_flow`), or None."""
        return self._text("c").rpartition("/")[0] or None

    @property
    def args(self) -> list[Any]:
        """Positional arguments, as JSON carried them."""
        positional: list[Any] = self._sent()[0]
        return positional

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments, as JSON carried them."""
        named: dict[str, Any] = self._sent()[1]
        return named

    @property
    def enqueued_at(self) -> datetime | None:
        """When Redis accepted it; None while a surrounding transaction has not been committed."""
        return self._time("e")

    @property
    def started_at(self) -> datetime | None:
        """When a worker first took it."""
        return self._time("f")

    @property
    def last_attempted_at(self) -> datetime | None:
        """When a worker last took it."""
        return self._time("l")

    @property
    def finished_at(self) -> datetime | None:
        """When it succeeded or finally failed."""
        return self._time("F")

    @property
    def run_after(self) -> datetime | None:
        """When it falls, or fell, due; None if it was sent at once."""
        due_ms = self._fields.get("d")
        return _datetime(int(due_ms) * 1_000) if due_ms else None

    @property
    def expires_at(self) -> datetime | None:
        """When it is not begun any more, if it has not begun by then; None if it waits for as long as it takes."""
        expires = self._text("X")
        return _datetime(int(expires.partition(" ")[0]) * 1_000) if expires else None

    @property
    def worker_ids(self) -> list[str]:
        """The workers that ran it, in order; one that runs it now comes last. Of many the last ones, 50 or more."""
        return self._workers()[1]

    @property
    def attempts(self) -> int:
        """How often a worker began to run it."""
        earlier, ids = self._workers()
        return earlier + len(ids)

    @property
    def metadata(self) -> dict[str, Any]:
        """What it was sent with by `using(metadata=…)`, or has saved since: see `TaskContext`."""
        return notes.decode(self._fields.get("m"))[0]

    @property
    def progress(self) -> notes.Progress | None:
        """How far it is, if it tells: see `TaskContext.progress`. An attempt leaves it as it was at its end."""
        return notes.decode(self._fields.get("m"))[1]

    @property
    def timeline(self) -> list[TaskRun]:
        """Its runs, oldest first: worker, begin, end and outcome of each (see `TaskRun`); of many the last ones."""
        return runs_of(self._fields, _datetime)

    @property
    def errors(self) -> list[TaskError]:
        """The failures so far, oldest first; at most the last 50."""
        return [TaskError(**arguments.decode(data)) for data in self._failures]

    @property
    def return_value(self) -> Any:
        """What the task returned.

        Raises:
            TaskNotFinished: it has not finished yet.
            TaskFailed: it failed, was cancelled or expired, and returned nothing.
        """
        if self.status is TaskResultStatus.SUCCESSFUL:
            return arguments.decode(self._fields["r"])
        if self.status is TaskResultStatus.FAILED:
            last = self.errors[-1:]
            why = f" Last error: {last[0].exception_class_path}: {last[0].message}" if last else ""
            how = _ENDS.get(self.state, "failed")
            raise TaskFailed(f"Task {self.id} ({self.name}) {how}.{why}")
        raise TaskNotFinished(f"Task {self.id} ({self.name}) has not finished yet: it is {self.state}.")

    def fill(self, fields: Mapping[str, bytes], failures: Sequence[bytes]) -> None:
        """Take over what was read of it."""
        self._fields = dict(fields)
        self._failures = list(failures)
        self._message = None

    def _workers(self) -> tuple[int, list[str]]:
        """How many workers ran it that are not remembered any more, and those that ran it after them."""
        text, earlier = self._text("w"), 0
        if text.startswith("+"):
            count, _, text = text.partition(",")
            earlier = int(count)
        ids = [each for each in text.split(",") if each]
        if self._text("s") == "running":
            ids.append(self._text("L").partition("/")[0])
        return earlier, ids

    def _sent(self) -> Any:
        if self._message is None:
            self._message = arguments.decode(self._fields["b"])
        return self._message

    def _text(self, field: str) -> str:
        value = self._fields.get(field, b"")
        return value.decode() if isinstance(value, bytes) else str(value)

    def _time(self, field: str) -> datetime | None:
        value = self._fields.get(field)
        return _datetime(int(value)) if value else None


def _datetime(us: int) -> datetime:
    moment = datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)
    return moment if django_settings.USE_TZ else make_naive(moment)

"""What became of a task: the result, as it stands in Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from django.conf import settings as django_settings
from django.utils.timezone import make_naive

from django_redis_components.core import connections
from django_redis_components.core.protocol import arun, run
from django_redis_components.core.units import Seconds
from django_redis_components.taskqueue import arguments
from django_redis_components.taskqueue.exceptions import InvalidTask, TaskFailed, TaskNotFinished
from django_redis_components.taskqueue.operations import control
from django_redis_components.taskqueue.tasks import notes, store
from django_redis_components.taskqueue.tasks.errors import TaskError
from django_redis_components.taskqueue.tasks.options import TaskOptions
from django_redis_components.taskqueue.tasks.timeline import TaskRun, runs_of


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


class TaskResult:
    """A task that was accepted, and what is known of it. `refresh` reads again.

    Attributes:
        task: the task, or None if its name is not registered in this process.
        name: the task's name.
        id: the task's id.
        using: alias of the connection.
        is_duplicate: it is the result of another task: one that was there already, with the same unique key.
    """

    __slots__ = ("_failures", "_fields", "_message", "id", "is_duplicate", "name", "task", "using")

    def __init__(
        self,
        task: Any,
        name: str,
        task_id: str,
        using: str,
        fields: Mapping[str, bytes],
        failures: Sequence[bytes] = (),
    ) -> None:
        self.task = task
        self.name = name
        self.id = task_id
        self.using = using
        self.is_duplicate = False
        self.fill(fields, failures)

    def __repr__(self) -> str:
        return f"<TaskResult {self.id} of {self.name}: {self.state}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskResult) and (self.id, self.using) == (other.id, other.using)

    def __hash__(self) -> int:
        return hash((self.id, self.using))

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

    def refresh(self) -> None:
        """Read again what became of it.

        Raises:
            TaskResultDoesNotExist: the result has expired.
        """
        self.fill(*run(connections.client(self.using), store.read(self.id)))

    async def arefresh(self) -> None:
        """See `refresh`."""
        self.fill(*await arun(connections.aclient(self.using), store.read(self.id)))

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until it has finished, and return its return value. No polling: the worker rings.

        Args:
            timeout: seconds, or None for as long as it takes.

        Raises:
            WaitTimeout: it had not finished in time.
            TaskFailed: it failed, was cancelled or expired.
            TaskResultDoesNotExist: the result has expired.
        """
        self.fill(*run(connections.client(self.using), store.wait(self.id, timeout)))
        return self.return_value

    async def await_(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - the twin of wait()
        """See `wait`. The twin of `wait` would be `await`, which is a keyword, so it is called `await_`."""
        self.fill(*await arun(connections.aclient(self.using), store.wait(self.id, timeout)))
        return self.return_value

    def cancel(self, *, force_after: Seconds | None = None) -> bool:
        """Cancel it. Returns False if it has finished.

        One that runs is asked to end, by an exception in its thread or the cancellation of its coroutine, and the
        value is True at once; `wait` tells when it has ended. A run that finishes first keeps its outcome.

        Args:
            force_after: seconds that a run has to end by itself before its process is ended, with a new start of the
                other tasks in it; None for TASKQUEUE["CANCEL_GRACE"].

        Raises:
            TaskResultDoesNotExist: the result has expired.
        """
        return run(connections.client(self.using), control.cancel(self.id, force_after))

    async def acancel(self, *, force_after: Seconds | None = None) -> bool:
        """See `cancel`."""
        return await arun(connections.aclient(self.using), control.cancel(self.id, force_after))

    def reschedule(self, run_after: datetime | Seconds) -> None:
        """Give a scheduled task (or one that waits for its next attempt) another time.

        Args:
            run_after: a datetime, or seconds or a timedelta from now.

        Raises:
            NotScheduled: it waits for no time.
            InvalidTask: `run_after` is no moment.
        """
        run(connections.client(self.using), control.move(self.id, _due(run_after)))

    async def areschedule(self, run_after: datetime | Seconds) -> None:
        """See `reschedule`."""
        await arun(connections.aclient(self.using), control.move(self.id, _due(run_after)))

    def run_now(self) -> None:
        """Let a scheduled task begin at once. See `reschedule`."""
        run(connections.client(self.using), control.move(self.id, ""))

    async def arun_now(self) -> None:
        """See `run_now`."""
        await arun(connections.aclient(self.using), control.move(self.id, ""))

    def accepted(self, reply: store.Reply, options: TaskOptions) -> None:
        """Note when Redis accepted it, or which task it found in its place.

        Args:
            options: those it was sent with.
        """
        if isinstance(reply, int):
            self._fields["e"] = str(reply).encode()
            due_ms = options.due_ms(reply)
            if due_ms is not None:
                self._fields["d"] = str(due_ms).encode()
            return
        other, pairs = reply
        self.id = other.decode()
        self.is_duplicate = True
        self.fill(store.fields_of(pairs), ())

    def became(self, fields: Mapping[str, bytes], failures: Sequence[bytes]) -> None:
        """Note how a run of it ended, in the process that runs it."""
        earlier, ids = self._workers()
        workers = ",".join([*([f"+{earlier}"] if earlier else []), *ids]).encode()
        self._fields |= {"w": workers, **fields}
        self._failures += failures

    def joined(self, flow_id: str, number: int, *, waits: bool) -> None:
        """Note that it is part of a flow, before it is sent."""
        self._fields["c"] = f"{flow_id}/{number}".encode()
        if waits:
            self._fields["s"] = b"waiting"

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


def _due(run_after: datetime | Seconds) -> str:
    if run_after is None:
        raise InvalidTask("run_after=None: expected a moment. run_now() lets the task begin at once.")
    return TaskOptions(run_after=run_after).due()


def _datetime(us: int) -> datetime:
    moment = datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)
    return moment if django_settings.USE_TZ else make_naive(moment)

"""A task's record: state, times, arguments, runs, errors, metadata and progress, as last read from Redis."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from django_redis_components.core import serialization
from django_redis_components.core.arguments import check_number, check_string, short_repr
from django_redis_components.core.leasing.holder import clean
from django_redis_components.core.units import moment_of, moment_of_ms
from django_redis_components.taskqueue.exceptions import TaskFailed, TaskNotFinished, TaskResultDoesNotExist
from django_redis_components.taskqueue.failure import TaskError
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.iteration import Cursor, decode_cursor
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.sealing import is_sealed, open_body
from django_redis_components.taskqueue.states import Outcome, State, is_final

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R_co = TypeVar("R_co", covariant=True, default=Any)
else:  # a type variable has no default before Python 3.13
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)

#: Maximum size of a task's metadata as JSON, in bytes. The field is written whole each time.
MAX_METADATA_BYTES = 64 * 1_024
#: Characters of a progress note that are stored.
MAX_PROGRESS_NOTE = 500
#: Key of the progress within the metadata field. Keys with a leading underscore are reserved.
_PROGRESS = "_progress"


class TaskResultStatus(StrEnum):
    """The statuses of Django's Tasks framework."""

    READY = "READY"
    RUNNING = "RUNNING"
    SUCCESSFUL = "SUCCESSFUL"
    FAILED = "FAILED"


#: What may enqueue a task, and characters of its name that are read.
ORIGINS, MAX_ORIGIN = ("task", "schedule", "request", "command"), 300
#: For the error message of a task that finished without running.
_FINISHED_UNRUN: dict[str, str] = {State.cancelled: "was cancelled", State.expired: "expired before it started"}


@dataclasses.dataclass(frozen=True, slots=True)
class TaskRun:
    """One run of a task, timed by the server's clock.

    Attributes:
        worker_id: the worker that ran it.
        started_at: when the worker leased the task; the function starts up to some milliseconds later.
        finished_at: when Redis received the outcome, or noticed that the worker had died; None while it runs.
        outcome: an `Outcome` (succeeded, failed, retried, delayed, interrupted, cancelled, unregistered, recovered), or
            running.
    """

    worker_id: str
    started_at: datetime
    finished_at: datetime | None
    outcome: str


class TaskOrigin(NamedTuple):
    """Who enqueued a task.

    Attributes:
        kind: task, schedule, request or command.
        name: id of the task, name of the schedule, method and path of the request, or name of the command.
        user: primary key of the request's user, with ``TASKQUEUE["RECORD_USER"]``; "" if unknown.
    """

    kind: str
    name: str
    user: str = ""

    @classmethod
    def parse(cls, stored: bytes | None) -> TaskOrigin | None:
        """Return the origin from a record; None without one, and for one that another client wrote."""
        kind, _, rest = (stored or b"").decode(errors="replace").partition(" ")
        if kind not in ORIGINS:
            return None
        name, _, user = rest.partition("\t")
        return cls(kind, clean(name, MAX_ORIGIN), clean(user, MAX_ORIGIN))


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """Progress that a running task has reported: `done` of `total` (None if unknown), and a note."""

    done: float
    total: float | None = None
    note: str = ""

    @property
    def fraction(self) -> float | None:
        """From 0 to 1; None without a total."""
        return None if self.total is None else max(0.0, min(1.0, self.done / self.total))


class TaskRecord(Generic[R_co]):
    """The record of a task as last read.

    Attributes:
        name: the task's name.
        id: the task's id.
    """

    __slots__ = ("_failures", "_fields", "_message", "id", "name")

    def __init__(self, name: str, task_id: str, fields: Mapping[str, bytes], failures: Sequence[bytes]) -> None:
        self.name = name
        self.id = task_id
        self._fields, self._failures = dict(fields), list(failures)  # as `_load` does, without a call: once per task
        self._message: Any = None

    @property
    def state(self) -> str:
        """scheduled, ready, waiting, retrying, unregistered, running, successful, failed, cancelled or expired."""
        state = self._decoded(Field.state)
        if state in ("", State.scheduled):
            due_ms = int(self._fields.get(Field.due_at_ms, 0))
            is_due = due_ms <= datetime.now(UTC).timestamp() * 1_000
            return State.ready.value if is_due else State.scheduled.value
        return state

    @property
    def status(self) -> TaskResultStatus:
        """READY, RUNNING, SUCCESSFUL or FAILED."""
        state = self.state
        if state == State.running:
            return TaskResultStatus.RUNNING
        if state == State.successful:
            return TaskResultStatus.SUCCESSFUL
        return TaskResultStatus.FAILED if is_final(state) else TaskResultStatus.READY

    @property
    def is_finished(self) -> bool:
        """Whether it has succeeded, failed, expired or been cancelled."""
        return is_final(self.state)

    @property
    def queue_name(self) -> str:
        """The queue it was enqueued on."""
        return self._decoded(Field.queue)

    @property
    def flow_id(self) -> str | None:
        """The id of its flow (see `get_flow`), or None."""
        return self._decoded(Field.flow_ref).rpartition("/")[0] or None

    @property
    def is_sealed(self) -> bool:
        """Whether the arguments are sealed; `args` and `kwargs` open them."""
        return is_sealed(self._stored(Field.body))

    @property
    def args(self) -> list[Any]:
        """Positional arguments, decoded from JSON.

        Raises:
            SealedArguments: they are sealed, and no key of this process opens them.
        """
        positional: list[Any] = self._decoded_message()[0]
        return positional

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments, decoded from JSON."""
        named: dict[str, Any] = self._decoded_message()[1]
        return named

    @property
    def origin(self) -> TaskOrigin | None:
        """Who enqueued it: a task, a schedule, a request or a command; None if that is unknown."""
        return TaskOrigin.parse(self._fields.get(Field.origin))

    @property
    def enqueued_at(self) -> datetime | None:
        """When Redis accepted the task; None until the surrounding transaction commits."""
        return self._time(Field.enqueued_at_us)

    @property
    def started_at(self) -> datetime | None:
        """When a worker first leased the task."""
        return self._time(Field.first_leased_at_us)

    @property
    def last_attempted_at(self) -> datetime | None:
        """When a worker last leased the task."""
        return self._time(Field.leased_at_us)

    @property
    def finished_at(self) -> datetime | None:
        """When the task succeeded or finally failed."""
        return self._time(Field.finished_at_us)

    @property
    def run_after(self) -> datetime | None:
        """When the task is or was due; None if it was due at once."""
        due_ms = self._fields.get(Field.due_at_ms)
        return moment_of_ms(due_ms) if due_ms else None

    @property
    def expires_at(self) -> datetime | None:
        """When the task expires unless it has started by then; None if it never does."""
        expires = self._decoded(Field.expiry)
        return moment_of(int(expires.partition(" ")[0]) * 1_000) if expires else None

    @property
    def worker_ids(self) -> list[str]:
        """The workers that ran it, in order, the current one included; at least the last 50."""
        return self._workers()[1]

    @property
    def dropped_worker_ids(self) -> int:
        """How many ids `worker_ids` does not have, because there were too many."""
        return self._workers()[0]

    @property
    def attempts(self) -> int:
        """How many attempts it has used, the current one included: runs that raised an exception, or succeeded.

        `max_attempts` limits them. Delays, lost workers and cancellations use none. A retry by an operator starts again
        at 0.
        """
        return self._count(Field.attempts)

    @property
    def runs(self) -> int:
        """How many times a worker has run it, the current run included, whatever the outcome."""
        return self._count(Field.runs)

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata given to `using(metadata=…)`, or saved since by the task: see `TaskContext`."""
        return decode_metadata(self._fields.get(Field.metadata))[0]

    @property
    def progress(self) -> Progress | None:
        """The last progress that the task reported (`TaskContext.progress`); it is kept between runs."""
        return decode_metadata(self._fields.get(Field.metadata))[1]

    @property
    def cursor(self) -> Cursor | None:
        """Where `TaskContext.iterate` continues in the next run, or its position in this one; None without one."""
        stored = self._fields.get(Field.cursor)
        return decode_cursor(stored) if stored else None

    @property
    def batch_size(self) -> int | None:
        """With how many calls of its task, itself among them, its latest run has started; None if in no batch."""
        return int(self._fields.get(Field.batch_calls, 0)) or None

    @property
    def timeline(self) -> list[TaskRun]:
        """Its runs, oldest first; at most about the last 50.

        Field ``h`` lists the runs that did not succeed. The successful or current run is read from the other
        fields, so that a task that succeeds at once stores no history.
        """
        lines = self._decoded(Field.history).splitlines()
        runs = [_parse_run(*line.split(" ", 3)) for line in lines]
        leased_at, state = moment_of(int(self._fields.get(Field.leased_at_us, 0))), self._decoded(Field.state)
        if state == State.running:
            runs.append(TaskRun(self._decoded(Field.lease).partition("/")[0], leased_at, None, State.running))
        elif state == State.successful:
            worker_id = self._decoded(Field.worker_ids).rpartition(",")[2]
            runs.append(TaskRun(worker_id, leased_at, self.finished_at, Outcome.succeeded))
        return runs

    @property
    def errors(self) -> list[TaskError]:
        """Its failures, oldest first; at most the last 50."""
        return [TaskError(**serialization.decode(data)) for data in self._failures]

    @property
    def return_value(self) -> R_co:
        """The value that the task returned.

        Raises:
            TaskNotFinished: it has not finished yet.
            TaskFailed: it failed, was cancelled or expired.
            TaskResultDoesNotExist: the result has expired, and the task comes from the list of finished ones.
        """
        if self.status is TaskResultStatus.SUCCESSFUL:
            value: R_co = unpack(self._stored(Field.return_value))
            return value
        if self.status is TaskResultStatus.FAILED:
            last = self.errors[-1:]
            why = f" Last error: {last[0].exception_class_path}: {last[0].message}" if last else ""
            how = _FINISHED_UNRUN.get(self.state, "failed")
            raise TaskFailed(f"Task {self.id} ({self.name}) {how}.{why}")
        raise TaskNotFinished(f"Task {self.id} ({self.name}) has not finished yet: it is {self.state}.")

    def _load(self, fields: Mapping[str, bytes], failures: Sequence[bytes]) -> None:
        """Replace the record by one that was just read."""
        self._fields = dict(fields)
        self._failures = list(failures)
        self._message = None

    def _workers(self) -> tuple[int, list[str]]:
        """The number of workers whose ids were dropped, and the ids of the later ones."""
        worker_ids, earlier = self._decoded(Field.worker_ids), 0
        if worker_ids.startswith("+"):
            count, _, worker_ids = worker_ids.partition(",")
            earlier = int(count)
        ids = [each for each in worker_ids.split(",") if each]
        if self._decoded(Field.state) == State.running:
            ids.append(self._decoded(Field.lease).partition("/")[0])
        return earlier, ids

    def _count(self, field: str) -> int:
        """Return the stored number, plus a current or successful run, which it does not include."""
        is_included = self._decoded(Field.state) not in (State.running, State.successful)
        return int(self._fields.get(field, 0)) + (not is_included)

    def _decoded_message(self) -> Any:
        if self._message is None:
            self._message = open_body(self._stored(Field.body))
        return self._message

    def _stored(self, field: str) -> bytes:
        """Return a field that every record has. The list of finished tasks has only a part of an expired one."""
        if field not in self._fields:
            raise TaskResultDoesNotExist(self.id)
        return self._fields[field]

    def _decoded(self, field: str) -> str:
        value = self._fields.get(field, b"")
        return value.decode() if isinstance(value, bytes) else str(value)

    def _time(self, field: str) -> datetime | None:
        value = self._fields.get(field)
        return moment_of(int(value)) if value else None


def check_progress(done: Any, total: Any, note: Any) -> Progress:
    """Validate the arguments of `TaskContext.progress`.

    Raises:
        TypeError, ValueError: done or total is not a finite number, total is not above 0, or note is not a string.
    """
    check_number(done, "done")
    if total is not None:
        check_number(total, "total", above=0)
    return Progress(done, total, check_string(note, "note")[:MAX_PROGRESS_NOTE])


def check_metadata(value: Any) -> dict[str, Any]:
    """Validate and copy metadata.

    Raises:
        TypeError, ValueError: it is not a dict of JSON values, is larger than 64 KiB, or has a key with a leading
            underscore.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"metadata={short_repr(value)}: expected a dict.")
    plain: dict[str, Any] = serialization.normalize(dict(value), "metadata")
    size = len(serialization.encode(plain, "metadata"))
    if size > MAX_METADATA_BYTES:
        raise ValueError(f"metadata is {size:,} bytes of JSON: at most {MAX_METADATA_BYTES:,} are stored.")
    for key in plain:
        if key.startswith("_"):
            raise ValueError(f"metadata has the key {key!r}: keys with a leading underscore are reserved.")
    return plain


def encode_metadata(metadata: dict[str, Any], progress: Progress | None = None) -> bytes:
    """The stored field: metadata and progress in one JSON object."""
    stored = metadata if progress is None else metadata | {_PROGRESS: dataclasses.astuple(progress)}
    return serialization.encode(stored)


def decode_metadata(stored: bytes | None) -> tuple[dict[str, Any], Progress | None]:
    """Metadata and progress from the stored field."""
    found = serialization.decode(stored) if stored else {}
    progress = found.get(_PROGRESS)
    return {key: value for key, value in found.items() if not key.startswith("_")}, progress and Progress(*progress)


def _parse_run(outcome: str, leased_us: str, duration_us: str, worker_id: str) -> TaskRun:
    started_us = int(leased_us)
    finished_at = moment_of(started_us + int(duration_us))
    return TaskRun(worker_id, moment_of(started_us), finished_at, outcome)

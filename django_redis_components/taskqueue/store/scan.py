"""Lists of the tasks in a state, by cursor and with filters: each read looks at a bounded number of tasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.core.text import encodable, has_part
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.fields import Field, Part
from django_redis_components.taskqueue.record import TaskRecord
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store import finished
from django_redis_components.taskqueue.store.scripts import FIND_SLOWEST, SCAN_TASKS
from django_redis_components.taskqueue.store.workers import MAX_VERSION

#: States whose tasks can be scanned. Limited tasks are ready or scheduled ones; retrying tasks are scheduled ones.
STATES = (
    *("ready", "scheduled", "retrying", "limited", "waiting", "running", "failed", "unregistered"),
    *finished.FINISHED,
)
#: States of tasks that wait for nothing but a worker, their time or a limit, which have no index of ids.
PENDING = ("ready", "scheduled", "retrying", "limited")
#: Tasks that one read looks at: about 5 ms of the server.
BUDGET = 2_000
#: Largest message that is read and searched, in bytes; as in listed_task.lua.
MAX_MESSAGE = 8_192
#: Fields of a row, in the order of the script.
FIELDS = (
    Field.queue,
    Field.task_name,
    Field.state,
    Field.enqueued_at_us,
    Field.due_at_ms,
    Field.priority,
    Field.flow_ref,
    Field.lease,
    Field.leased_at_us,
    Field.finished_at_us,
    Field.worker_ids,
    Field.attempts,
    Field.runs,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Filters:
    """What the listed tasks have in common; empty: any. The case of ASCII letters does not matter.

    Attributes:
        name: part of the task's name.
        text: part of the JSON of its arguments; tasks whose arguments are larger than 8 KiB do not match. Of
            finished tasks their first 256 bytes are searched.
        error: part of the class or the text of its last error.
        fingerprint: of its last error, whole.
        begin_ms, end_ms: bounds of the time of its state, in milliseconds since the epoch: of the failure, of
            the next run, of the acceptance of a waiting, ready, limited or running task; when it finished.
        any_text: part of the task's name, or of the class or the text of its last error; or `any_body` is part of the
            JSON of its arguments.
        version, host: of the worker that runs it, or has run it last, whole.
    """

    name: str = ""
    text: str = ""
    error: str = ""
    fingerprint: str = ""
    begin_ms: int | None = None
    end_ms: int | None = None
    any_text: str = ""
    any_body: str = ""
    version: str = ""
    host: str = ""

    @property
    def are_set(self) -> bool:
        """Whether there is any."""
        return any(value != "" for value in self.arguments().values())

    def arguments(self) -> dict[str, str | int]:
        """Return the arguments of the script."""
        return {
            "name": encodable(self.name),
            "body_part": encodable(self.text),
            "error": encodable(self.error),
            "fingerprint": encodable(self.fingerprint),
            "from_ms": "" if self.begin_ms is None else self.begin_ms,
            "until_ms": "" if self.end_ms is None else self.end_ms,
            "any_text": encodable(self.any_text),
            "any_body": encodable(self.any_body),
            "version": encodable(self.version),
            "host": encodable(self.host),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class ScannedTask:
    """A task in a list.

    Attributes:
        record: its record, without history and errors.
        size: of its message, in bytes; above `MAX_MESSAGE` the record has no arguments.
        error_class, error_text: of its last error, or "".
        cursor: of the task; the page after it is the rest of the list.
        scanned: how many tasks were looked at, this one included.
        is_clipped: whether the arguments are only the first ones. A finished task whose record has expired is still
            listed, with the start of its message.
        duration: of a finished task's run in seconds; None if it did not run.
        version: of the code that runs it, or has run it last; "" if it is not known.
    """

    record: TaskRecord[Any]
    size: int = 0
    error_class: str = ""
    error_text: str = ""
    cursor: str = ""
    scanned: int = 0
    is_clipped: bool = False
    duration: float | None = None
    version: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class TaskScan:
    """Tasks in a state, from a cursor on.

    Attributes:
        at_us: the server's time in microseconds.
        sequence: the highest number of a task with a priority.
        total: tasks in the state, cancelled ones that are still in a list among them.
        start: position of the first task that was looked at.
        scanned, matched: tasks that were looked at, and of these tasks that match.
        first, last: cursors of the first and the last task that was looked at.
        names: by task name, how many match, and when the oldest was accepted.
    """

    at_us: int
    sequence: int
    total: int
    start: int
    scanned: int
    matched: int
    first: str
    last: str
    tasks: list[ScannedTask]
    names: dict[str, tuple[int, datetime]]

    @property
    def has_more(self) -> bool:
        """Whether tasks after the last one were not looked at."""
        return self.start + self.scanned < self.total


@dataclasses.dataclass(frozen=True, slots=True)
class SlowestRuns:
    """The slowest runs of a task among the newest successful tasks of a queue.

    Attributes:
        scanned, matched: tasks that were looked at, and those of them that are of the task.
        tasks: slowest first.
    """

    scanned: int
    matched: int
    tasks: list[ScannedTask]


def scan_tasks(
    shard: Shard,
    queue: str,
    state: str,
    filters: Filters,
    *,
    cursor: str = "",
    direction: str = "after",
    limit: int = 50,
    budget: int = BUDGET,
    mode: str = "rows",
) -> Flow[TaskScan]:
    """Read the tasks in a state, newest first, or in the order of their due times.

    Args:
        cursor, direction: the page "after" this cursor, or "before" it; "": the first page.
        limit: most tasks that are returned.
        budget: most tasks that are looked at.
        mode: "rows"; "names": also count by name, within the budget; "ids": tasks have the id only, oldest first.
    """
    if state in finished.FINISHED:
        page = {"cursor": cursor, "direction": direction, "limit": limit, "budget": budget, "mode": mode}
        return (yield from _scan_finished(shard, queue, state, filters, page))
    reply = yield SCAN_TASKS(
        base=shard.base,
        queue=queue,
        state=state,
        cursor=cursor,
        direction=direction,
        limit=limit,
        budget=budget,
        mode=mode,
        **filters.arguments(),
    )
    at_us, sequence, total, start, scanned, matched, first, last, rows, names = reply
    return TaskScan(
        at_us=int(at_us),
        sequence=int(sequence),
        total=total,
        start=start,
        scanned=scanned,
        matched=matched,
        first=first.decode(errors="replace"),
        last=last.decode(errors="replace"),
        tasks=[_task(*row) for row in rows],
        names=_names(names),
    )


def _scan_finished(shard: Shard, queue: str, state: str, filters: Filters, page: dict[str, Any]) -> Flow[TaskScan]:
    """Read finished tasks, newest first. None of them matches a filter by error."""
    arguments = filters.arguments()
    has_error = bool(arguments.pop("error")) | bool(arguments.pop("fingerprint"))
    any_text, any_body = str(arguments.pop("any_text")), str(arguments.pop("any_body"))
    reply = yield finished.scan_call(shard, queue, state, **page, **arguments)
    at_us, total, start, scanned, matched, first, last, rows, names, versions, numbers = reply
    parsed = [
        (finished.parse_row(queue, state, row), *rest) for row, *rest in zip(rows, versions, numbers, strict=True)
    ]
    found = [
        (row, version, number)
        for row, version, number in ([] if has_error else parsed)
        if has_part(row.name, any_text) or has_part(row.fields.get(Field.body, b"").decode(errors="replace"), any_body)
    ]
    return TaskScan(
        at_us=int(at_us),
        sequence=0,
        total=total,
        start=start,
        scanned=scanned,
        matched=0 if has_error else matched,
        first=first.decode(errors="replace"),
        last=last.decode(errors="replace"),
        tasks=[_finished_task(row, state, number, version) for row, version, number in found],
        names={} if has_error else _names(names),
    )


def find_slowest(shard: Shard, queue: str, name: str, limit: int, budget: int = BUDGET) -> Flow[SlowestRuns]:
    """Find the slowest runs of a task by its whole name."""
    bounds = finished.finished_bounds()
    scanned, matched, rows, versions = yield FIND_SLOWEST(
        base=shard.base, queue=queue, name=name, limit=limit, budget=budget, **bounds
    )
    state = Part.successful
    found = [finished.parse_row(queue, state, row) for row in rows]
    tasks = [_finished_task(row, state, scanned, version) for row, version in zip(found, versions, strict=True)]
    return SlowestRuns(scanned, matched, tasks)


def _finished_task(row: finished.FinishedRow, state: str, scanned: int, version: bytes) -> ScannedTask:
    cursor = f"{state} {row.fields.get(Field.finished_at_us, b'0').decode()} {row.id}"
    record: TaskRecord[Any] = TaskRecord(row.name, row.id, row.fields, [])
    size = len(row.fields.get(Field.body, b""))
    return ScannedTask(
        record,
        size,
        is_clipped=row.is_clipped,
        duration=row.duration,
        cursor=cursor,
        scanned=scanned,
        version=_version(version),
    )


def _names(flat: Sequence[Any]) -> dict[str, tuple[int, datetime]]:
    """Return how many tasks match by name, and when the oldest of them was accepted."""
    return {
        name.decode(errors="replace"): (count, moment_of(int(oldest_us)))
        for name, count, oldest_us in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    }


def read_tasks(shard: Shard, queue: str, state: str, ids: Sequence[str]) -> Flow[tuple[int, list[ScannedTask]]]:
    """Return the server's time in microseconds, and those of the tasks that are in a state of a queue.

    Of the states in `PENDING`, between which a task changes by itself, each is as good as the other.
    """
    reads = [Read("HMGET", shard.record(task_id), Field.body, *FIELDS) for task_id in ids]
    index = [] if state in PENDING else [Read("ZMSCORE", shard.queue(queue, state), *ids)]
    time, *replies = yield Batch([Read("TIME", key=shard.base), *reads, *index])
    tasks = [
        _task(task_id.encode(), len(body or b""), body or b"", b"", fields)
        for task_id, (body, *fields) in zip(ids, replies, strict=False)
    ]
    scores = replies[-1] if index else [_is_pending(task) or None for task in tasks]
    found = [
        task for task, score in zip(tasks, scores, strict=True) if score is not None and task.record.queue_name == queue
    ]
    return int(time[0]) * 1_000_000 + int(time[1]), found


def _is_pending(task: ScannedTask) -> bool:
    try:
        return task.record.state in PENDING
    except ValueError:  # a record that another client wrote
        return False


def _task(
    task_id: bytes,
    size: int = 0,
    body: bytes = b"",
    error: bytes = b"",
    values: Sequence[Any] = (),
    cursor: bytes = b"",
    scanned: int = 0,
    version: bytes = b"",
) -> ScannedTask:
    fields = {name: value for name, value in zip(FIELDS, values, strict=False) if value is not None}
    if 0 < size <= MAX_MESSAGE:
        fields[Field.body] = body
    name = fields.get(Field.task_name, b"").decode(errors="replace")
    record: TaskRecord[Any] = TaskRecord(name, task_id.decode(errors="replace"), fields, [])
    return ScannedTask(
        record, size, *_error(error), cursor=cursor.decode(errors="replace"), scanned=scanned, version=_version(version)
    )


def _version(stored: bytes) -> str:
    return stored.decode(errors="replace")[:MAX_VERSION]


def _error(data: bytes) -> tuple[str, str]:
    try:
        found = serialization.decode(data)
        return encodable(str(found["exception_class_path"])), encodable(str(found["message"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return "", ""

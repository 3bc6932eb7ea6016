"""Tables and JSON of queues, schedules and tasks for `manage.py redis queues`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings as django_settings
from django.utils import timezone

from django_redis_components.core import serialization
from django_redis_components.core.units import aware
from django_redis_components.management.tables import TextTable
from django_redis_components.taskqueue.exceptions import TaskResultDoesNotExist
from django_redis_components.taskqueue.json_codec import pack
from django_redis_components.taskqueue.record import TaskRecord
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.schedules.status import ScheduleInfo, ScheduleSnapshot
from django_redis_components.taskqueue.shards import shards_of
from django_redis_components.taskqueue.stats.erlang import QueuePlan
from django_redis_components.taskqueue.stats.errors import ErrorGroup
from django_redis_components.taskqueue.stats.groups import GroupInfo
from django_redis_components.taskqueue.stats.metrics import Metrics
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, QueuePause

if TYPE_CHECKING:
    from django_redis_components.management.redis.tasks.selection import FoundTask


def of_queues(
    queues: Sequence[QueueInfo],
    done: Mapping[str, Metrics],
    now: datetime,
    shards: Mapping[str, Sequence[str]] | None = None,
) -> TextTable:
    """Return a table of queues.

    Args:
        done: the metrics of the last hour by queue.
        shards: the names of the shards of each queue, if there are several.
    """
    counts = ("READY", "SCHEDULED", "RETRYING", "LIMITED", "WAITING", "RUNNING", "FAILED", "UNREGISTERED")
    rows = [
        (
            queue.name,
            *(f"{getattr(queue, state.lower()):,}" for state in counts),
            "" if queue.oldest_age is None else age(queue.oldest_age),
            "" if queue.next_due_at is None else _until(queue.next_due_at, now),
            *_throughput(done.get(queue.name)),
            "" if queue.paused is None else _pause(queue.paused),
            *([] if shards is None else [", ".join(shards.get(queue.name, ()))]),
        )
        for queue in queues
    ]
    numbers = (*counts, "OLDEST", "NEXT DUE", "OUT/MIN 1H", "WAIT P95", "RUN P95")
    last = ("PAUSED",) if shards is None else ("PAUSED", "SHARD")
    return TextTable(("QUEUE", *numbers, *last), rows, frozenset(numbers))


def of_plans(plans: Sequence[QueuePlan]) -> TextTable:
    """Return a table of what queues need; empty cells without runs."""
    rows = [
        (
            plan.queue,
            *((_rate(plan.per_second * 60), short(plan.mean_run), f"{plan.load:.3g}") if plan.slots else ("", "", "")),
            f"{plan.slots:,}",
            f"{plan.workers:,}",
            f"{plan.busy:.0%}" if plan.slots else "",
        )
        for plan in plans
    ]
    numbers = ("RUNS/MIN", "MEAN RUN", "LOAD", "SLOTS", "WORKERS", "BUSY")
    return TextTable(("QUEUE", *numbers), rows, frozenset(numbers))


def of_groups(groups: Sequence[GroupInfo]) -> TextTable:
    """Return a table of the groups of a queue."""
    rows = [
        (
            group.name,
            f"{group.ready:,}",
            "" if group.oldest_age is None else age(group.oldest_age),
            "" if group.paused is None else _pause(group.paused),
        )
        for group in groups
    ]
    return TextTable(("GROUP", "READY", "OLDEST", "PAUSED"), rows, frozenset(["READY", "OLDEST"]))


def throughput_data(metrics: Metrics | None) -> dict[str, Any] | None:
    """Return the metrics of a queue as JSON; None if they were not read."""
    if metrics is None:
        return None
    return {
        "finished": metrics.totals.finished,
        "failed": metrics.totals.failed,
        "per_minute": round(metrics.per_minute(), 3),
        "wait_p95_s": metrics.wait_time.p95,
        "run_p95_s": metrics.run_time.p95,
    }


def _throughput(metrics: Metrics | None) -> tuple[str, str, str]:
    """Return throughput, p95 of wait and run time as text; empty without finished tasks."""
    if metrics is None or not metrics.totals.finished:
        return "", "", ""
    return _rate(metrics.per_minute()), short(metrics.wait_time.p95), short(metrics.run_time.p95)


def _rate(per_minute: float) -> str:
    if per_minute < 0.1:
        return "<0.1"
    return f"{per_minute:,.0f}" if per_minute >= 10 else f"{per_minute:.1f}"


#: The last columns by state: header, and the function that formats the cell.
_STATE_COLUMNS: dict[str, tuple[tuple[str, Callable[[TaskResult], str]], ...]] = {
    "ready": (("ENQUEUED", lambda task: clock(task.enqueued_at)),),
    "scheduled": (("DUE", lambda task: clock(task.run_after)), ("LAST ERROR", lambda task: _error_of(task))),
    "waiting": (("ENQUEUED", lambda task: clock(task.enqueued_at)), ("FLOW", lambda task: task.flow_id or "")),
    "running": (
        ("STARTED", lambda task: clock(task.last_attempted_at)),
        ("WORKER", lambda task: _worker_of(task)),
    ),
    "failed": (("FAILED", lambda task: clock(task.finished_at)), ("LAST ERROR", lambda task: _error_of(task))),
    "unregistered": (("ENQUEUED", lambda task: clock(task.enqueued_at)),),
    "successful": (
        ("STARTED", lambda task: clock(task.last_attempted_at)),
        ("FINISHED", lambda task: clock(task.finished_at)),
        ("WORKER", lambda task: _worker_of(task)),
    ),
    "cancelled": (
        ("ENQUEUED", lambda task: clock(task.enqueued_at)),
        ("CANCELLED", lambda task: clock(task.finished_at)),
    ),
    "expired": (("ENQUEUED", lambda task: clock(task.enqueued_at)), ("EXPIRED", lambda task: clock(task.finished_at))),
}


def of_tasks(results: Sequence[TaskResult], state: str, *, with_arguments: bool = False) -> TextTable:
    """Return a table of tasks; the columns of the state come last."""
    columns: list[tuple[str, Callable[[TaskResult], str]]] = [
        ("ID", lambda result: result.id),
        ("TASK", lambda result: result.name),
        ("ATTEMPTS", lambda result: f"{result.attempts:,}"),
        *([("SHARD", lambda result: result._shard.name)] if any(map(_is_of_several, results)) else []),
        *([("ARGUMENTS", arguments_of)] if with_arguments else []),
        *_STATE_COLUMNS[state],
    ]
    rows = [tuple(cell(result) for _, cell in columns) for result in results]
    return TextTable(tuple(header for header, _ in columns), rows, frozenset(["ATTEMPTS"]))


def _is_of_several(result: TaskResult) -> bool:
    """Return whether the queue has more than one shard."""
    return len(shards_of(result.using)) > 1


def of_matches(matches: Sequence[FoundTask], *, with_arguments: bool = False) -> TextTable:
    """Return a table of tasks of several queues and states."""
    rows: list[tuple[str, ...]] = [
        (
            match.task.record.id,
            match.task.record.name,
            match.queue,
            match.state,
            clock(match.task.record.enqueued_at),
            *([arguments_of(match.task.record)] if with_arguments else []),
            _short_error(match.task.error_class, match.task.error_text),
        )
        for match in matches
    ]
    arguments = ("ARGUMENTS",) if with_arguments else ()
    return TextTable(("ID", "TASK", "QUEUE", "STATE", "ENQUEUED", *arguments, "LAST ERROR"), rows, frozenset())


def of_errors(groups: Sequence[ErrorGroup]) -> TextTable:
    """Return a table of error groups."""
    rows: list[tuple[str, ...]] = [
        (
            f"{group.count:,}",
            f"{group.final:,}",
            clock(group.first_at),
            clock(group.last_at),
            next(iter(group.task_ids), ""),
            f"{group.exception_class_path.removeprefix('builtins.')}: {_message_of(group)} ({group.location})",
        )
        for group in groups
    ]
    return TextTable(("COUNT", "FINAL", "FIRST", "LAST", "LAST TASK", "ERROR"), rows, frozenset(["COUNT", "FINAL"]))


def _message_of(group: ErrorGroup) -> str:
    """Return the first line of the message of the group's sample; without one the normalized message."""
    return group.sample.message.strip().partition("\n")[0] if group.sample else group.message


def of_schedules(snapshot: ScheduleSnapshot) -> TextTable:
    """Return a table of schedules."""
    rows: list[tuple[str, ...]] = [
        (
            each.label,
            each.times,
            each.queue_name,
            "" if each.next_at is None else _until(each.next_at, snapshot.at),
            clock(each.last_sent_at),
            each.last_task_id or "",
            _note_of(each),
        )
        for each in snapshot.schedules
    ]
    return TextTable(
        ("NAME", "SCHEDULE", "QUEUE", "NEXT RUN", "LAST ENQUEUED", "LAST TASK", "NOTE"), rows, frozenset(["NEXT RUN"])
    )


#: Notes on a schedule by its state.
_NOTES = {
    "on": "",
    "off": "off",
    "new": "not registered by a poller yet",
    "late": "overdue: no poller enqueues it",
    "finished": "finished",
    "gone": "not declared in the active poller's code",
    "paused": "paused",
}


def _note_of(schedule: ScheduleInfo) -> str:
    """Return the state of a schedule, and how many of its limited tasks it has sent."""
    notes = [_NOTES[schedule.state]]
    if schedule.count is not None:
        notes.append(f"sent {schedule.sent:,} of {schedule.count:,}")
    return ", ".join(filter(None, notes))


def data_of(result: TaskResult, *, with_arguments: bool = False) -> dict[str, Any]:
    """Return a task as JSON; its times are aware datetimes."""
    last = result.errors[-1:]
    data: dict[str, Any] = {
        "id": result.id,
        "task": result.name,
        "queue": result.queue_name,
        "state": result.state,
        "attempts": result.attempts,
        "worker_ids": result.worker_ids,
        "flow_id": result.flow_id,
        "last_error": {"class": last[0].exception_class_path, "message": last[0].message} if last else None,
    }
    if _is_of_several(result):
        data["shard"] = result._shard.name
    for name in ("enqueued_at", "run_after", "last_attempted_at", "finished_at"):
        data[name] = _aware(getattr(result, name))
    if with_arguments:
        args, kwargs = (not is_sealed(result) and known_arguments(result)) or (None, None)
        data |= {"args": args, "kwargs": kwargs, "sealed": is_sealed(result)}
    return data


def age(seconds: float) -> str:
    """Format a duration in its two largest units."""
    whole = max(0, int(seconds))
    for size, name, part_size, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // part_size} {part}"
    return f"{max(0.0, seconds):.1f} s"


def short(seconds: float | None) -> str:
    """Format a duration with about two digits; "" for None."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms" if seconds > 0.001 else "<1 ms"
    return f"{seconds:.1f} s" if seconds < 10 else age(seconds)


def clock(at: datetime | None) -> str:
    """Format date and time in the site's zone, with the offset if USE_TZ; "" for None."""
    if at is None:
        return ""
    if timezone.is_aware(at):
        at = (
            timezone.localtime(at)
            if django_settings.USE_TZ
            else timezone.make_naive(at, timezone.get_default_timezone())
        )
    return at.isoformat(" ", "seconds")


def _until(moment: datetime, now: datetime) -> str:
    return f"in {age((moment - now).total_seconds())}" if moment > now else "now"


def _pause(pause: QueuePause) -> str:
    since = f"since {clock(pause.at)}"
    until = f"until {clock(pause.ends_at)}" if pause.ends_at else ""
    author = f"by {pause.author}" if pause.author else ""
    when = " ".join(filter(None, [since, until, author]))
    return f"{when}: {pause.reason}" if pause.reason else when


def _error_of(result: TaskResult) -> str:
    last = result.errors[-1:]
    return _short_error(last[0].exception_class_path, last[0].message) if last else ""


def _short_error(class_path: str, message: str) -> str:
    return f"{class_path.removeprefix('builtins.')}: {message}" if class_path else ""


def _worker_of(result: TaskResult) -> str:
    return result.worker_ids[-1] if result.worker_ids else ""


def known_arguments(result: TaskRecord[Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """Return the arguments of a task; None if its result has expired, and the list has only a part of them."""
    try:
        return result.args, result.kwargs
    except TaskResultDoesNotExist:
        return None


def is_sealed(result: TaskRecord[Any]) -> bool:
    """Return whether the arguments of a task are sealed, and are not shown; False if they are not known."""
    try:
        return result.is_sealed
    except TaskResultDoesNotExist:
        return False


def arguments_of(result: TaskRecord[Any]) -> str:
    """Return the arguments of a task as JSON."""
    if is_sealed(result):
        return "(sealed)"
    known = known_arguments(result)
    return "(expired)" if known is None else serialization.encode(pack([*known])).decode()


def _aware(at: datetime | None) -> datetime | None:
    return at if at is None else aware(at)

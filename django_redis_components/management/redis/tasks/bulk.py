"""The operations of `manage.py redis tasks` on many tasks: find, retry, run now, reschedule, move, cancel, delete."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from django_redis_components.core.protocol import Flow
from django_redis_components.core.text import counted
from django_redis_components.management.base import CommandResult
from django_redis_components.management.listings import task_listing
from django_redis_components.management.redis.queues.operations import count_of_tasks, unknown_names
from django_redis_components.management.redis.tasks.selection import (
    MAX_SELECTED,
    FoundTask,
    Search,
    Selected,
    TaskSelection,
)
from django_redis_components.taskqueue.options import check_queue
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.store import control, pending_tasks
from django_redis_components.taskqueue.store.scan import STATES, Filters
from django_redis_components.taskqueue.store.task_control import force_ms

#: States that list tasks of other states again.
OVERLAPPING = ("retrying", "limited")
#: Changes tasks of one queue: the shard, the queue, the ids, and what was selected.
Change = Callable[[Shard, str, Sequence[str], Selected], Flow[int]]


@dataclasses.dataclass(frozen=True, slots=True)
class BulkVerb:
    """A change of many tasks.

    Attributes:
        name: in questions: "Retry 3 failed tasks of 2 queues?".
        done: in results.
        states: whose tasks filters may select; the first is the default.
        change: makes the change.
    """

    name: str
    done: str
    states: tuple[str, ...]
    change: Change


def retry() -> BulkVerb:
    """Return the retry of failed tasks."""
    return BulkVerb(
        "Retry",
        "Retrying",
        ("failed",),
        lambda shard, queue, ids, selected: control.retry_failed(shard, queue, ids, selected.until_ms),
    )


def delete(state: str) -> BulkVerb:
    """Return the permanent deletion of failed or unregistered tasks."""
    return BulkVerb(
        "Delete",
        "Deleted",
        ("failed", "unregistered"),
        lambda shard, queue, ids, selected: control.delete_tasks(shard, queue, state, ids, selected.until_ms),
    )


def reschedule(due: str) -> BulkVerb:
    """Return the change of due times; `due` as `TaskOptions.due` returns it, empty: at once."""
    states = ("scheduled", "retrying", "ready", "limited") if due else ("scheduled", "retrying")
    return BulkVerb(
        "Reschedule" if due else "Run now",
        "Rescheduled" if due else "Made due",
        states,
        lambda shard, queue, ids, selected: pending_tasks.reschedule_tasks(
            shard, queue, ids, due, str(selected.until_us)
        ),
    )


def move(target: str) -> BulkVerb:
    """Return the move to another queue."""
    return BulkVerb(
        "Move",
        "Moved",
        ("ready", "scheduled", "retrying", "limited", "waiting", "unregistered"),
        lambda shard, queue, ids, selected: pending_tasks.move_tasks(shard, queue, ids, target, str(selected.until_us)),
    )


def cancel(force_after: float | None, *, with_running: bool) -> BulkVerb:
    """Return the cancellation.

    Args:
        with_running: whether running tasks are asked to stop; else those that have started meanwhile are left alone.
    """
    force = force_ms(force_after) if with_running else ""
    return BulkVerb(
        "Cancel",
        "Cancelled",
        ("ready", "scheduled", "retrying", "limited", "waiting", "running"),
        lambda shard, queue, ids, selected: pending_tasks.cancel_tasks(
            shard, queue, ids, force, str(selected.until_us)
        ),
    )


def apply(verb: BulkVerb, selection: TaskSelection) -> CommandResult:
    """Change tasks, queue after queue, in one shard after the other."""
    changed: dict[str, int] = {}
    for shard, selected in selection.parts.items():
        for queue, ids in selected.ids.items():
            changed[queue] = changed.get(queue, 0) + shard.run(verb.change(shard, queue, ids, selected))
    total = sum(changed.values())
    data = {"selected": selection.asked or selection.count, "changed": total, "queues": changed}
    text = f"{verb.done} {count_of_tasks(total)}"
    parts = [f"{queue} {count:,}" for queue, count in changed.items() if count]
    text += f" of {count_of_queues(len(parts))}: {', '.join(parts)}." if parts else "."
    problem = ""
    if selection.asked > total:
        left = f"{selection.asked - total:,} of {counted(selection.asked, 'id')}"
        problem = f"Not changed: {left}: no such task, or not its state."
    note = f"More than {MAX_SELECTED:,} tasks match. Repeat the command for the rest." if selection.is_cut else ""
    return CommandResult(data, text, note=note, problem=problem)


def find(
    filters: Filters, *, queue: str, state: str, limit: int, budget: int, with_arguments: bool, using: str
) -> CommandResult:
    """Return tasks of all queues and states that match."""
    states = [state] if state else [each for each in reversed(STATES) if each not in OVERLAPPING]
    matches: list[FoundTask] = []
    scanned = total = 0
    queues: set[str] = set()
    for shard in shards_of(using):
        search = Search(shard, queue, states, filters)
        matches += search.matches(limit - len(matches), budget - scanned)
        scanned, total, queues = scanned + search.searched, total + search.total, queues | set(search.queues)
    if queue and not total:
        check_queue(queue)  # one that is no longer declared may have tasks
    searched = f"Searched {scanned:,} of {count_of_tasks(total)} in {count_of_queues(len(queues))}"
    data = {
        "searched": scanned,
        "total": total,
        "queues": sorted(queues),
        "tasks": [_data(match, with_arguments=with_arguments) for match in matches],
    }
    more = "" if scanned >= total or len(matches) < limit else " Pass a larger --limit to see more."
    if not more and scanned < total:
        more = " Pass a larger --budget to search the rest."
    text = f"{searched}: {len(matches):,} {'matches' if len(matches) == 1 else 'match'}.{more}"
    table = task_listing.of_matches(matches, with_arguments=with_arguments) if matches else None
    return CommandResult(data, text, table, note=unknown_names(using, *([queue] if queue else [])))


def count_of_queues(count: int) -> str:
    """Return a number of queues as text."""
    return counted(count, "queue")


def _data(match: FoundTask, *, with_arguments: bool) -> dict[str, Any]:
    record, task = match.task.record, match.task
    data: dict[str, Any] = {
        "id": record.id,
        "task": record.name,
        "queue": match.queue,
        "state": match.state,
        "attempts": record.attempts,
        "enqueued_at": record.enqueued_at,
        "run_after": record.run_after,
        "finished_at": record.finished_at,
        "last_error": {"class": task.error_class, "message": task.error_text} if task.error_class else None,
    }
    if with_arguments:
        data["arguments"] = task_listing.arguments_of(record)
    return data

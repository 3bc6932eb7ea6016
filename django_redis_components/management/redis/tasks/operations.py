"""The operations of `manage.py redis tasks`, independent of argparse and of the terminal."""

from __future__ import annotations

from typing import Any

from django_redis_components.core.command_line import command_line
from django_redis_components.core.serialization import encode
from django_redis_components.management.base import CommandResult
from django_redis_components.management.listings import task_listing
from django_redis_components.management.redis.queues.operations import count_of_tasks, unknown_names
from django_redis_components.management.redis.tasks import task_text
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import TaskResultDoesNotExist
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.queue import Queue, get_queue
from django_redis_components.taskqueue.result import TaskResult, get_result
from django_redis_components.taskqueue.shard_clients import read_each, shard_with
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.explain import explain
from django_redis_components.taskqueue.store import task_control
from django_redis_components.taskqueue.store.finished import FINISHED, FinishedRow, count_finished, find_finished


def list_tasks(
    queue_name: str, state: str, *, limit: int = 50, offset: int = 0, with_arguments: bool = False, using: str
) -> CommandResult:
    """Return one page of the tasks of a queue in a state."""
    queue = get_queue(queue_name, using=using)
    results, total = queue.tasks(state, limit=limit, offset=offset), _count(queue, state)
    data = {"queue": queue_name, "state": state, "total": total, "limit": limit, "offset": offset}
    data |= {"tasks": [task_listing.data_of(result, with_arguments=with_arguments) for result in results]}
    if not results:
        text = f"Queue {queue_name!r} has no {state} tasks."
        if total:
            last = _page_command(queue_name, state, limit, (total - 1) // limit * limit, with_arguments, using)
            beyond = f"{count_of_tasks(total, state)}, none from offset {offset:,} on"
            text = f"Queue {queue_name!r} has {beyond}. The last: {last}"
        return CommandResult(data, text, note=unknown_names(using, queue_name))
    text = f"{count_of_tasks(total, state)} in queue {queue_name!r}; listed from offset {offset:,}."
    if offset + limit < total:
        text += f" More: {_page_command(queue_name, state, limit, offset + limit, with_arguments, using)}"
    return CommandResult(data, text, task_listing.of_tasks(results, state, with_arguments=with_arguments))


def _page_command(queue_name: str, state: str, limit: int, offset: int, with_arguments: bool, using: str) -> str:
    options = ("--limit", str(limit), "--offset", str(offset), *(["--args"] if with_arguments else []))
    return command_line("redis", "tasks", "list", arguments=[queue_name, state], options=options, using=using)


def show_task(task_id: str, *, with_arguments: bool = False, using: str) -> CommandResult:
    """Return a task with its runs, its last error, and why it does not run; or the options of a registered one.

    Args:
        task_id: its id, or the name or an alias of a registered task.

    Raises:
        TaskResultDoesNotExist: no task has this id, or its result has expired; and no registered task has this name.
    """
    try:
        result = get_result(task_id, using=using)
        why = result._shard.run(explain(result._shard, task_id))
    except TaskResultDoesNotExist:
        rows, _ = read_each(using, lambda shard: find_finished(shard, task_id))
        for shard, row in rows.items():
            if row is not None:
                return _listed_task(row, shard, with_arguments=with_arguments)
        registry.autodiscover()
        if (task := registry.find(task_id)) is not None:
            return CommandResult(task_text.options_data(task), task_text.describe_options(task))
        raise
    text = task_text.describe(result, why, with_arguments=with_arguments)
    if result.state == "failed":
        retry = command_line("redis", "queues", "retry", arguments=[result.queue_name, task_id], using=using)
        text += f"\nTo retry it: {retry}"
    return CommandResult(task_text.details(result, why, with_arguments=with_arguments), text)


def _count(queue: Queue, state: str) -> int:
    if state not in FINISHED:
        return int(getattr(queue.info(), state))
    counts, _ = read_each(queue.using, lambda shard: count_finished(shard, queue.name))
    return sum(each[state] for each in counts.values())


def _listed_task(row: FinishedRow, shard: Shard, *, with_arguments: bool) -> CommandResult:
    """Return the row in the list of finished tasks of a task whose record has expired."""
    result: TaskResult = TaskResult(registry.find(row.name), row.name, row.id, shard, row.fields_of_record)
    data = task_listing.data_of(result, with_arguments=with_arguments)
    listed = task_listing.of_tasks([result], result.state, with_arguments=with_arguments)
    note = f"Its result has expired. This is what the list of {result.state} tasks of queue {result.queue_name!r} has."
    return CommandResult(data, note, listed)


def cancel_task(task_id: str, force_after: float | None = None, *, using: str) -> CommandResult:
    """Cancel a pending task, or stop a running one."""
    shard = shard_with(task_id, using)
    done = shard.run(task_control.try_cancel(shard, task_id, force_after))
    data = {"id": task_id, "cancelled": done == 1, "asked": done == 2}
    if done == 2:
        return CommandResult(data, f"Task {task_id} is running; cancellation requested.")
    if done:
        return CommandResult(data, f"Task {task_id} is cancelled.")
    return CommandResult(data, problem=f"Task {task_id} has already finished.")


def run_task_now(task_id: str, *, using: str) -> CommandResult:
    """Make a scheduled task due at once."""
    shard = shard_with(task_id, using)
    shard.run(task_control.reschedule(shard, task_id, ""))
    return CommandResult({"id": task_id, "due": True}, f"Task {task_id} is due now.")


def update_task(task_id: str, changes: dict[str, Any], *, using: str) -> CommandResult:
    """Change a pending task.

    Args:
        changes: see `TaskResult.update`; the arguments as plain JSON values.
    """
    registry.autodiscover()
    changes |= {name: unpack(encode(changes[name])) for name in ("args", "kwargs") if name in changes}
    result = get_result(task_id, using=using)
    try:
        result.update(**changes)
    except TypeError as exc:  # the function does not accept the arguments
        return CommandResult({"id": task_id, "updated": False}, problem=str(exc))
    return CommandResult({"id": task_id, "updated": True}, f"Task {task_id} was updated: {', '.join(changes)}.")

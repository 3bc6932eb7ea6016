"""Changes of one task: which apply to its state, and how they are made."""

from __future__ import annotations

from collections.abc import Callable

from django_redis_components.core.protocol import run
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.queues.changes import client
from django_redis_components.dashboard.verb import Verb
from django_redis_components.taskqueue import registry, task_update
from django_redis_components.taskqueue.exceptions import NotScheduled, TaskResultDoesNotExist
from django_redis_components.taskqueue.stats.explain import Explanation
from django_redis_components.taskqueue.store import control, task_control
from django_redis_components.taskqueue.task_update import TaskChanges

#: Verbs of one task. The entries in the admin's log link to the task.
RETRY = Verb("retry", "retry_task", MODELS["task"])
RUN_NOW = Verb("run_now", "run_task", MODELS["task"])
RESCHEDULE = Verb("reschedule", "reschedule_task", MODELS["task"])
EDIT = Verb("edit", "change_task", MODELS["task"])
CANCEL = Verb("cancel", "cancel_task", MODELS["task"])
DELETE = Verb("delete", "delete_task", MODELS["task"])
SHOW_ARGUMENTS = Verb("arguments", "view_task_arguments", MODELS["task"])
SHOW_STACK = Verb("stack", "view_task_stack", MODELS["task"])


def applies(verb: Verb, task: Explanation) -> bool:
    """Return whether a verb can change a task in its state."""
    return not task.is_deleted and _APPLIES[verb](task)


def retry(task: Explanation) -> bool:
    """Retry a failed task. Return False if it is not failed any more, or another task has its unique key."""
    return run(client(), control.retry_failed(queue_shard(), task.queue, [task.record.id])) > 0


def reschedule(task_id: str, due: str) -> bool:
    """Change the due time of a task; empty: now. Return False if it is not scheduled any more."""
    try:
        run(client(), task_control.reschedule(queue_shard(), task_id, due))
    except (NotScheduled, TaskResultDoesNotExist):
        return False
    return True


def update(task: Explanation, options: TaskChanges) -> None:
    """Change a pending task. Raises what `TaskResult.update` does."""
    run(client(), task_update.update(queue_shard(), registry.find(task.record.name), task.record.id, options))


def cancel(task_id: str, *, is_running: bool) -> int:
    """Cancel a pending task, or ask a running one to stop.

    Args:
        is_running: whether the operator has confirmed to stop a running task.

    Returns:
        1: cancelled; 2: it runs, and was asked to stop; 0: it has finished; -1: it does not exist; -2: it has started
        since, and was left alone.
    """
    call = task_control.cancel_call(queue_shard(), task_id, task_control.force_ms(None) if is_running else "")
    return int(client().execute(call))


def delete(queue: str, state: str, task_id: str, until_ms: str, trash: str) -> bool:
    """Move a failed or unregistered task into trash. Return False if it is not in this state since before a moment."""
    return run(client(), control.delete_tasks(queue_shard(), queue, state, [task_id], until_ms, trash)) > 0


def _is_scheduled(task: Explanation) -> bool:
    return task.place in ("scheduled", "rate")


_APPLIES: dict[Verb, Callable[[Explanation], bool]] = {
    RETRY: lambda task: task.place == "failed",
    RUN_NOW: _is_scheduled,
    RESCHEDULE: _is_scheduled,
    EDIT: lambda task: not task.is_finished and task.state != "running",
    CANCEL: lambda task: not task.is_finished,
    DELETE: lambda task: task.place in ("failed", "unregistered"),
    SHOW_ARGUMENTS: lambda task: True,
    SHOW_STACK: lambda task: task.state == "running",
}

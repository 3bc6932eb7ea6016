"""The operations of `manage.py queues`, independent of argparse and of the terminal."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from typing import TypeVar

from django_redis_components.core.protocol import Flow, Read
from django_redis_components.management import task_listing, task_text
from django_redis_components.management.base import CommandResult
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.queue import Queue, get_queue
from django_redis_components.taskqueue.result import get_result
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats import metrics, queue_stats
from django_redis_components.taskqueue.stats.explain import explain
from django_redis_components.taskqueue.store import task_control

T = TypeVar("T")


class QueueCommands:
    """Operations on the queues of one connection. Errors of Redis and of the task queue are raised."""

    def __init__(self, *, using: str = "default", author: str = "") -> None:
        """Args: author: name recorded with a pause."""
        self._using = using
        self._shard = home(using)
        self._author = author

    def status(self, names: Sequence[str] = ()) -> CommandResult:
        """Return depths and throughput of these queues, or of all, with workers and poller."""
        wanted = [self._queue(name).name for name in names]
        overview = self._run(queue_stats.read_overview(self._shard))
        queues, done = overview.queues, overview.metrics
        if wanted:
            queues = self._run(queue_stats.read_depths(self._shard, *wanted))
            done = self._run(metrics.read_recent(self._shard, wanted, queue_stats.OVERVIEW_MINUTES))
        workers = overview.live_count
        data = {
            "at": overview.at,
            "queues": [
                {**dataclasses.asdict(queue), "last_hour": task_listing.throughput_data(done.get(queue.name))}
                for queue in queues
            ],
            "workers": workers,
            "poller": overview.poller,
        }
        summary = f"Workers: {workers or 'none'}. Poller: {'active' if overview.poller else 'none'}."
        if not queues:
            return CommandResult(data, f"No queues yet. A queue appears when its first task is enqueued. {summary}")
        note = self._unknown_names(*wanted)
        if not wanted and len(queues) >= queue_stats.MAX_QUEUES:
            note = f"Only the first {queue_stats.MAX_QUEUES:,} queues are listed. Pass the names of others to see them."
        return CommandResult(data, summary, task_listing.of_queues(queues, done, overview.at), note)

    def pause(self, name: str, *, reason: str = "", until: float | None = None) -> CommandResult:
        """Pause a queue; it resumes `until` seconds from now."""
        queue = self._queue(name)
        queue.pause(reason, author=self._author, until=until)
        paused = queue.info().paused
        ends = f" until {task_listing.clock(paused.ends_at)}" if paused and paused.ends_at else ""
        data = {"queue": name, "paused": dataclasses.asdict(paused) if paused else None}
        text = f"Queue {name!r} is paused{ends}. To resume it: {self._command('resume', name)}"
        return CommandResult(data, text, note=self._unknown_names(name))

    def resume(self, name: str) -> CommandResult:
        """Resume a queue."""
        was_paused = self._queue(name).resume()
        text = f"Queue {name!r} is resumed." if was_paused else f"Queue {name!r} was not paused."
        return CommandResult({"queue": name, "was_paused": was_paused}, text)

    def purgeable(self, name: str) -> int:
        """Return the number of tasks that a purge would remove."""
        depth = self._queue(name).info()
        return depth.ready + depth.scheduled

    def purge(self, name: str) -> CommandResult:
        """Remove all pending tasks of a queue, and print the command that restores them."""
        purge = self._queue(name).purge()
        data = {
            "queue": name,
            "purged": purge.count,
            "purge_id": purge.id if purge.count else None,
            "waiting": purge.waiting,
        }
        note = f"Kept: {_tasks(purge.waiting)} that depend on other tasks of their flow." if purge.waiting else ""
        if not purge.count:
            return CommandResult(data, f"Queue {name!r} has no pending tasks.", note=note)
        restore = self._command("restore", name, purge.id)
        text = f"Purged {_tasks(purge.count)} of queue {name!r}. To restore them within 24 h: {restore}"
        return CommandResult(data, text, note=note)

    def restore(self, name: str, purge_id: str) -> CommandResult:
        """Restore the tasks of a purge."""
        restored = self._queue(name).restore(purge_id)
        data = {"queue": name, "purge_id": purge_id, "restored": restored}
        if restored:
            return CommandResult(data, f"Restored {_tasks(restored)} to queue {name!r}.")
        why = "it was restored before, is older than 24 hours, or belongs to another queue."
        return CommandResult(data, problem=f"Purge {purge_id!r} of queue {name!r} has nothing to restore: {why}")

    def retry(self, name: str, ids: Sequence[str] = ()) -> CommandResult:
        """Retry these failed tasks, or all."""
        done = self._queue(name).retry_failed(ids or None)
        text = f"{_tasks(done, 'failed')} of queue {name!r} will be retried."
        return CommandResult({"queue": name, "retried": done}, text, problem=_missing(name, "failed", done, ids))

    def deletable(self, name: str, *, unregistered: bool = False) -> int:
        """Return the number of tasks that `delete` without ids would delete."""
        depth = self._queue(name).info()
        return depth.unregistered if unregistered else depth.failed

    def delete(self, name: str, ids: Sequence[str] = (), *, unregistered: bool = False) -> CommandResult:
        """Delete these failed (or unregistered) tasks permanently, or all."""
        queue, state = self._queue(name), "unregistered" if unregistered else "failed"
        done = (queue.delete_unregistered if unregistered else queue.delete_failed)(ids or None)
        text = f"Deleted {_tasks(done, state)} of queue {name!r}."
        return CommandResult({"queue": name, "deleted": done}, text, problem=_missing(name, state, done, ids))

    def tasks(
        self, name: str, state: str, *, limit: int = 50, offset: int = 0, with_arguments: bool = False
    ) -> CommandResult:
        """Return one page of the tasks in a state."""
        queue = self._queue(name)
        results, total = queue.tasks(state, limit=limit, offset=offset), int(getattr(queue.info(), state))
        data = {"queue": name, "state": state, "total": total, "limit": limit, "offset": offset}
        data |= {"tasks": [task_listing.data_of(result, with_arguments=with_arguments) for result in results]}
        if not results:
            text = f"Queue {name!r} has {_tasks(total, state)}; none from offset {offset:,}."
            return CommandResult(data, text, note=self._unknown_names(name))
        text = f"{_tasks(total, state)} in queue {name!r}; listed from offset {offset:,}."
        if offset + limit < total:
            further = ("--limit", str(limit), "--offset", str(offset + limit))
            options = (*further, "--args") if with_arguments else further
            text += f" More: {self._command('tasks', name, state, options=options)}"
        return CommandResult(data, text, task_listing.of_tasks(results, state, with_arguments=with_arguments))

    def cancel(self, task_id: str, force_after: float | None = None) -> CommandResult:
        """Cancel a pending task, or stop a running one."""
        done = self._run(task_control.try_cancel(self._shard, task_id, force_after))
        data = {"id": task_id, "cancelled": done == 1, "asked": done == 2}
        if done == 2:
            return CommandResult(data, f"Task {task_id} is running; cancellation requested.")
        if done:
            return CommandResult(data, f"Task {task_id} is cancelled.")
        return CommandResult(data, problem=f"Task {task_id} has already finished.")

    def run_now(self, task_id: str) -> CommandResult:
        """Make a scheduled task due at once."""
        self._run(task_control.reschedule(self._shard, task_id, ""))
        return CommandResult({"id": task_id, "due": True}, f"Task {task_id} is due now.")

    def show(self, task_id: str, *, with_arguments: bool = False) -> CommandResult:
        """Return a task with its runs, its last error, and why it does not run."""
        result, why = get_result(task_id, using=self._using), self._run(explain(self._shard, task_id))
        text = task_text.describe(result, why, with_arguments=with_arguments)
        if result.state == "failed":
            text += f"\nTo retry it: {self._command('retry', result.queue_name, task_id)}"
        return CommandResult(task_text.details(result, why, with_arguments=with_arguments), text)

    def errors(self, name: str, limit: int) -> CommandResult:
        """Return the error groups of a queue."""
        groups = self._queue(name).errors(limit=limit)
        data = {"queue": name, "errors": [dataclasses.asdict(group) for group in groups]}
        if not groups:
            return CommandResult(data, f"Queue {name!r} has no errors.", note=self._unknown_names(name))
        last = next(iter(groups[0].task_ids), "ID")
        text = f"To see the traceback of the latest: {self._command('show', last)}"
        return CommandResult(data, text, task_listing.of_errors(groups))

    def _queue(self, name: str) -> Queue:
        return get_queue(name, using=self._using)

    def _run(self, flow: Flow[T]) -> T:
        return self._shard.run(flow)

    def _unknown_names(self, *names: str) -> str:
        """Return a note about names that may be misspelled; "" if all are known."""
        if not names:
            return ""
        known = self._shard.client().execute(Read("ZMSCORE", self._shard.key(Key.queues), *names))
        return " ".join(
            f"Queue {name!r} has had no task for at least a day."
            for name, score in zip(names, known, strict=True)
            if score is None
        )

    def _command(self, verb: str, *words: str, options: Sequence[str] = ()) -> str:
        """Return a command line, quoted for a shell."""
        using = () if self._using == "default" else ("--using", self._using)
        dashes = ("--",) if any(word.startswith("-") for word in words) else ()
        return shlex.join(["python", "manage.py", "queues", verb, *using, *options, *dashes, *words])


def _tasks(count: int, state: str = "") -> str:
    return " ".join(filter(None, [f"{count:,}", state, "task" if count == 1 else "tasks"]))


def _missing(name: str, state: str, done: int, ids: Sequence[str]) -> str:
    """Return a message about task ids that were not found; "" if all were."""
    asked = len(set(ids))
    if done >= asked:
        return ""
    return f"{asked - done:,} of {asked:,} ids are not {state} tasks of queue {name!r}."

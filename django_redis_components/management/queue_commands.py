"""The operator's desk: what `manage.py queues` does, and says. Knows neither arguments nor terminals."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from typing import Any, TypeVar

from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, Read, run
from django_redis_components.management import task_listing as listing
from django_redis_components.management.task_listing import Table
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.queue import Queue, get_queue
from django_redis_components.taskqueue.schedules import status as timetable
from django_redis_components.taskqueue.stats import metrics
from django_redis_components.taskqueue.stats import overview as stats
from django_redis_components.taskqueue.store import queues as control
from django_redis_components.taskqueue.store.fields import base_key

#: Most queues that a status without names lists.
MAX_QUEUES = 200

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What was done.

    Attributes:
        data: for programs; JSON but for its datetimes.
        text, table: for people.
        note: what somebody should know besides.
        problem: why it was not done, or not wholly; a script should stop.
    """

    data: dict[str, Any]
    text: str = ""
    table: Table | None = None
    note: str = ""
    problem: str = ""


class Desk:
    """Does to queues what an operator asks for. Errors of Redis and of the task queue are the caller's to tell."""

    def __init__(self, *, using: str = "default", author: str = "") -> None:
        """Args: author: who pauses, for the note that others see."""
        self._using = using
        self._author = author

    def status(self, names: Sequence[str] = ()) -> Answer:
        """Depths of these queues, or of all, and what they have done in the last hour, with workers and poller."""
        wanted = [self._queue(name).name for name in names]
        overview = self._run(stats.read_overview())
        queues, done = overview.queues, overview.metrics
        if wanted:
            queues = self._run(stats.read_depths(*wanted))
            done = self._run(metrics.read_recent(wanted, stats.OVERVIEW_MINUTES))
        lease_s = conf.settings().taskqueue.lease_s
        workers = sum(worker.heartbeat_age <= lease_s for worker in overview.workers)
        data = {
            "at": overview.at,
            "queues": [
                {**dataclasses.asdict(queue), "last_hour": listing.pace_of(done.get(queue.name))} for queue in queues
            ],
            "workers": workers,
            "poller": overview.poller,
        }
        staff = f"Workers: {workers or 'none'}. Poller: {'active' if overview.poller else 'none'}."
        if not queues:
            return Answer(data, f"No queues yet: a queue appears with its first task. {staff}")
        note = self._strangers(*wanted)
        if not wanted and len(queues) >= MAX_QUEUES:
            note = f"{MAX_QUEUES} queues are listed at most; name others to see them."
        return Answer(data, staff, listing.of_queues(queues, done, overview.at), note)

    def schedules(self) -> Answer:
        """The periodic tasks: when they come next, and what they have sent last."""
        registry.autodiscover()
        found = self._run(timetable.listed(self._using))
        data = {"at": found.at, "schedules": [dataclasses.asdict(each) for each in found.schedules]}
        if not found.schedules:
            return Answer(data, "No schedules: @every and @cron make one of a task.")
        return Answer(data, table=listing.of_schedules(found))

    def pause(self, name: str, *, reason: str = "", until: float | None = None) -> Answer:
        """Pause a queue; `until` in seconds from now."""
        queue = self._queue(name)
        queue.pause(reason, author=self._author, until=until)
        paused = queue.depths().paused
        ends = f" until {listing.clock(paused.until)}" if paused and paused.until else ""
        data = {"queue": name, "paused": dataclasses.asdict(paused) if paused else None}
        text = f"Queue {name!r} is paused{ends}. To resume it: {self._command('resume', name)}"
        return Answer(data, text, note=self._strangers(name))

    def resume(self, name: str) -> Answer:
        """Resume a queue."""
        was_paused = self._queue(name).resume()
        text = f"Queue {name!r} is resumed." if was_paused else f"Queue {name!r} was not paused."
        return Answer({"queue": name, "was_paused": was_paused}, text)

    def waiting(self, name: str) -> int:
        """How many tasks a purge would take away."""
        depth = self._queue(name).depths()
        return depth.ready + depth.scheduled

    def purge(self, name: str) -> Answer:
        """Remove all pending tasks of a queue, and print the command that restores them."""
        purge = self._queue(name).purge()
        data = {
            "queue": name,
            "purged": purge.count,
            "purge_id": purge.id if purge.count else None,
            "waiting": purge.waiting,
        }
        note = f"Left alone: {_tasks(purge.waiting)} of flows, which wait for others." if purge.waiting else ""
        if not purge.count:
            return Answer(data, f"Nothing waits in queue {name!r}.", note=note)
        restore = self._command("restore", name, purge.id)
        text = f"Purged {_tasks(purge.count)} of queue {name!r}. To restore them within 24 h: {restore}"
        return Answer(data, text, note=note)

    def restore(self, name: str, purge_id: str) -> Answer:
        """Restore the tasks of a purge."""
        restored = self._queue(name).restore(purge_id)
        data = {"queue": name, "purge_id": purge_id, "restored": restored}
        if restored:
            return Answer(data, f"Restored {_tasks(restored)} to queue {name!r}.")
        why = "it was restored before, is older than 24 hours, or belongs to another queue."
        return Answer(data, problem=f"Purge {purge_id!r} of queue {name!r} has nothing to restore: {why}")

    def retry(self, name: str, ids: Sequence[str] = ()) -> Answer:
        """Let these failed tasks run again, or all."""
        done = self._queue(name).retry_failed(ids or None)
        text = f"{_tasks(done, 'failed')} of queue {name!r} will run again."
        return Answer({"queue": name, "retried": done}, text, problem=_missed(name, "failed", done, ids))

    def deletable(self, name: str, *, unregistered: bool = False) -> int:
        """How many tasks `delete` without ids would delete."""
        depth = self._queue(name).depths()
        return depth.unregistered if unregistered else depth.failed

    def delete(self, name: str, ids: Sequence[str] = (), *, unregistered: bool = False) -> Answer:
        """Delete these failed (or unregistered) tasks for good, or all."""
        queue, shelf = self._queue(name), "unregistered" if unregistered else "failed"
        done = (queue.delete_unregistered if unregistered else queue.delete_failed)(ids or None)
        text = f"Deleted {_tasks(done, shelf)} of queue {name!r}."
        return Answer({"queue": name, "deleted": done}, text, problem=_missed(name, shelf, done, ids))

    def tasks(self, name: str, state: str, *, limit: int = 50, offset: int = 0, with_arguments: bool = False) -> Answer:
        """One page of the tasks in a state."""
        queue = self._queue(name)
        results, total = queue.tasks(state, limit=limit, offset=offset), int(getattr(queue.depths(), state))
        data = {"queue": name, "state": state, "total": total, "limit": limit, "offset": offset}
        data |= {"tasks": [listing.data_of(result, with_arguments=with_arguments) for result in results]}
        if not results:
            text = f"Queue {name!r} has {_tasks(total, state)}; none from {offset:,} on."
            return Answer(data, text, note=self._strangers(name))
        text = f"{_tasks(total, state)} in queue {name!r}; shown from {offset:,} on."
        if offset + limit < total:
            further = ("--limit", str(limit), "--offset", str(offset + limit))
            options = (*further, "--args") if with_arguments else further
            text += f" More: {self._command('tasks', name, state, options=options)}"
        return Answer(data, text, listing.of_tasks(results, state, with_arguments=with_arguments))

    def cancel(self, task_id: str, force_after: float | None = None) -> Answer:
        """Cancel a task that waits, or ask one that runs to end."""
        done = self._run(control.try_cancel(task_id, force_after))
        data = {"id": task_id, "cancelled": done == 1, "asked": done == 2}
        if done == 2:
            return Answer(data, f"Task {task_id} runs, and was asked to end.")
        if done:
            return Answer(data, f"Task {task_id} is cancelled.")
        return Answer(data, problem=f"Task {task_id} has finished already.")

    def _queue(self, name: str) -> Queue:
        return get_queue(name, using=self._using)

    def _run(self, flow: Flow[T]) -> T:
        return run(connections.client(self._using), flow)

    def _strangers(self, *names: str) -> str:
        """What to say of names that may be typing errors; empty when all are known."""
        if not names:
            return ""
        known = connections.client(self._using).execute(Read("ZMSCORE", f"{base_key()}:queues", *names))
        return " ".join(
            f"Queue {name!r} has had no task for a day, if ever."
            for name, score in zip(names, known, strict=True)
            if score is None
        )

    def _command(self, verb: str, *words: str, options: Sequence[str] = ()) -> str:
        """A command to type, quoted for a shell."""
        using = () if self._using == "default" else ("--using", self._using)
        dashes = ("--",) if any(word.startswith("-") for word in words) else ()
        return shlex.join(["python", "manage.py", "queues", verb, *using, *options, *dashes, *words])


def _tasks(count: int, state: str = "") -> str:
    return " ".join(filter(None, [f"{count:,}", state, "task" if count == 1 else "tasks"]))


def _missed(name: str, state: str, done: int, ids: Sequence[str]) -> str:
    """What to say of named tasks that were not there; empty when all were."""
    asked = len(set(ids))
    if done >= asked:
        return ""
    return f"Not among the {state} tasks of queue {name!r}: {asked - done:,} of the {asked:,} named."

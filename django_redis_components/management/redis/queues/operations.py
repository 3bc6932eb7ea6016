"""The operations of `manage.py redis queues`, independent of argparse and of the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django_redis_components.core.chunks import chunks
from django_redis_components.core.command_line import command_line
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.text import counted
from django_redis_components.management.base import CommandResult
from django_redis_components.management.listings import task_listing
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.queue import Queue, get_queue
from django_redis_components.taskqueue.shard_clients import read_each, run_over
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.stats import erlang, metrics, queue_stats
from django_redis_components.taskqueue.stats.merging import merged_metrics, merged_overview, shards_by_queue
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview
from django_redis_components.taskqueue.store.control import check_group


class QueueOperations:
    """Operations on the queues of one connection. Errors of Redis and of the task queue are raised."""

    def __init__(self, *, using: str = "default", author: str = "") -> None:
        """Args: author: name recorded with a pause."""
        self._using = using
        self._author = author

    def status(self, names: Sequence[str] = ()) -> CommandResult:
        """Return depths and throughput of these queues, or of all, with workers and poller."""
        wanted = [self._queue(name).name for name in names]
        overviews, away = read_each(self._using, queue_stats.read_overview)
        if wanted:
            overviews, away = read_each(self._using, partial(_read_queues, names=wanted))
        overview = merged_overview(list(overviews.values()))
        queues, done = overview.queues, overview.metrics
        workers = overview.live_count
        data: dict[str, Any] = {
            "at": overview.at,
            "queues": [
                {**dataclasses.asdict(queue), "last_hour": task_listing.throughput_data(done.get(queue.name))}
                for queue in queues
            ],
            "workers": workers,
            "poller": overview.poller,
        }
        shards = None
        if len(shards_of(self._using)) > 1:
            shards = shards_by_queue(overviews)
            data["shards"] = shards_data(overviews, away)
            data["queues"] = [{**queue, "shards": shards[queue["name"]]} for queue in data["queues"]]
        summary = f"Workers: {workers or 'none'}. Poller: {'active' if overview.poller else 'none'}."
        if not queues:
            return CommandResult(data, f"No queues yet. A queue appears when its first task is enqueued. {summary}")
        note = " ".join(filter(None, [unknown_names(self._using, *wanted), away_note(away)]))
        table = task_listing.of_queues(queues, done, overview.at, shards)
        if not wanted and len(queues) >= queue_stats.MAX_QUEUES:
            note = f"Only the first {queue_stats.MAX_QUEUES:,} queues are listed. Pass the names of others to see them."
        return CommandResult(data, summary, table, note)

    def plan(
        self, names: Sequence[str] = (), *, minutes: int, wait_s: float, share: float, threads: int
    ) -> CommandResult:
        """Return how many slots and workers these queues, or all, need in the busiest of the last minutes.

        Args:
            wait_s, share: this share of the tasks should start within this time.
        """
        wanted = [self._queue(name).name for name in names]
        found, away = read_each(self._using, partial(read_recent, names=wanted, minutes=minutes))
        known = wanted or list(dict.fromkeys(name for part in found.values() for name in part))
        done = {name: merged_metrics([part[name] for part in found.values() if name in part]) for name in known}
        plans = [erlang.plan(done[name], wait_s=wait_s, share=share, threads=threads) for name in known]
        rows = [dataclasses.asdict(each) for each in plans]
        data = {"minutes": minutes, "wait": wait_s, "share": share, "threads": threads, "queues": rows}
        text = (
            f"Slots with which {share:.0%} of the tasks start within {task_listing.short(wait_s)} in the busiest of the"
            f" last {minutes} minutes, in workers of {threads} threads. Tasks that arrive in bursts wait longer."
        )
        note = " ".join(filter(None, [unknown_names(self._using, *wanted), away_note(away)]))
        return CommandResult(data, text, task_listing.of_plans(plans), note)

    def pause(self, name: str, *, reason: str = "", until: float | None = None) -> CommandResult:
        """Pause a queue; it resumes `until` seconds from now."""
        queue = self._queue(name)
        queue.pause(reason, author=self._author, until=until)
        paused = queue.info().paused
        ends = f" until {task_listing.clock(paused.ends_at)}" if paused and paused.ends_at else ""
        data = {"queue": name, "paused": dataclasses.asdict(paused) if paused else None}
        text = f"Queue {name!r} is paused{ends}. To resume it: {self._command('queues', 'resume', name)}"
        return CommandResult(data, text, note=unknown_names(self._using, name))

    def resume(self, name: str) -> CommandResult:
        """Resume a queue."""
        was_paused = self._queue(name).resume()
        text = f"Queue {name!r} is resumed." if was_paused else f"Queue {name!r} was not paused."
        return CommandResult({"queue": name, "was_paused": was_paused}, text)

    def groups(self, name: str, limit: int) -> CommandResult:
        """Return the groups of a queue with most ready tasks, and all paused ones."""
        queue = self._queue(name)
        found = run_over(self._using, queue._groups(limit))
        data = {"queue": name, **dataclasses.asdict(found)}
        if not found.groups:
            note = unknown_names(self._using, name)
            return CommandResult(data, f"Queue {name!r} has no groups with ready tasks.", note=note)
        text = f"Groups of queue {name!r} that are served in turn: {found.count:,}."
        note = "Not all groups were looked at: small ones may be missing." if found.is_partial else ""
        return CommandResult(data, text, task_listing.of_groups(found.groups), note)

    def pause_group(self, name: str, group: str, *, reason: str = "") -> CommandResult:
        """Pause a group of a queue."""
        check_group(group)
        try:
            self._queue(name).pause_group(group, reason, author=self._author)
        except ValueError as exc:
            return CommandResult({"queue": name, "group": group, "paused": False}, problem=str(exc))
        options = [f"--group={group}"]
        resume = command_line("redis", "queues", "resume", arguments=[name], options=options, using=self._using)
        text = f"Group {group!r} of queue {name!r} is paused. To resume it: {resume}"
        return CommandResult({"queue": name, "group": group, "paused": True}, text)

    def resume_group(self, name: str, group: str) -> CommandResult:
        """Resume a group of a queue."""
        was_paused = self._queue(name).resume_group(group)
        text = f"Group {group!r} of queue {name!r} {'is resumed' if was_paused else 'was not paused'}."
        return CommandResult({"queue": name, "group": group, "was_paused": was_paused}, text)

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
        note = (
            f"Kept: {count_of_tasks(purge.waiting)} that depend on other tasks of their flow." if purge.waiting else ""
        )
        if not purge.count:
            return CommandResult(data, f"Queue {name!r} has no pending tasks.", note=note)
        restore = self._command("queues", "restore", name, purge.id)
        text = f"Purged {count_of_tasks(purge.count)} of queue {name!r}. To restore them within 24 h: {restore}"
        return CommandResult(data, text, note=note)

    def restore(self, name: str, purge_id: str) -> CommandResult:
        """Restore the tasks of a purge."""
        restored = self._queue(name).restore(purge_id)
        data = {"queue": name, "purge_id": purge_id, "restored": restored}
        if restored:
            return CommandResult(data, f"Restored {count_of_tasks(restored)} to queue {name!r}.")
        why = "it was restored before, is older than 24 hours, or belongs to another queue."
        return CommandResult(data, problem=f"Purge {purge_id!r} of queue {name!r} has nothing to restore: {why}")

    def retry(self, name: str, ids: Sequence[str] = ()) -> CommandResult:
        """Retry these failed tasks, or all."""
        done = self._queue(name).retry_failed(ids or None)
        text = f"{count_of_tasks(done, 'failed')} of queue {name!r} will be retried."
        return CommandResult({"queue": name, "retried": done}, text, problem=_missing(name, "failed", done, ids))

    def deletable(self, name: str, *, unregistered: bool = False) -> int:
        """Return the number of tasks that `delete` without ids would delete."""
        depth = self._queue(name).info()
        return depth.unregistered if unregistered else depth.failed

    def delete(self, name: str, ids: Sequence[str] = (), *, unregistered: bool = False) -> CommandResult:
        """Delete these failed (or unregistered) tasks permanently, or all."""
        queue, state = self._queue(name), "unregistered" if unregistered else "failed"
        done = (queue.delete_unregistered if unregistered else queue.delete_failed)(ids or None)
        text = f"Deleted {count_of_tasks(done, state)} of queue {name!r}."
        return CommandResult({"queue": name, "deleted": done}, text, problem=_missing(name, state, done, ids))

    def errors(self, name: str, limit: int) -> CommandResult:
        """Return the error groups of a queue."""
        groups = self._queue(name).errors(limit=limit)
        data = {"queue": name, "errors": [dataclasses.asdict(group) for group in groups]}
        if not groups:
            return CommandResult(data, f"Queue {name!r} has no errors.", note=unknown_names(self._using, name))
        last = next(iter(groups[0].task_ids), "ID")
        text = f"To see the traceback of the latest: {self._command('tasks', 'show', last)}"
        return CommandResult(data, text, task_listing.of_errors(groups))

    def _queue(self, name: str) -> Queue:
        return get_queue(name, using=self._using)

    def _command(self, group: str, verb: str, *arguments: str) -> str:
        return command_line("redis", group, verb, arguments=arguments, using=self._using)


def unknown_names(using: str, *names: str) -> str:
    """Return a note about names that may be misspelled; "" if all are known, or a shard is away."""
    if not names:
        return ""

    def known(shard: Shard) -> Flow[list[Any]]:
        scores: list[Any] = yield Read("ZMSCORE", shard.key(Key.queues), *names)
        return scores

    found, away = read_each(using, known)
    return " ".join(
        f"Queue {name!r} has no task, and had none in the last day: check the name."
        for name, *scores in zip(names, *found.values(), strict=True)
        if not away and all(score is None for score in scores)
    )


def away_note(away: Mapping[Shard, Exception]) -> str:
    """Return a note about shards that do not answer."""
    return " ".join(f"Shard {shard.name} is missing: {error}" for shard, error in away.items())


def shards_data(found: Mapping[Shard, TaskQueueOverview], away: Mapping[Shard, Exception]) -> list[dict[str, Any]]:
    """Return what `--json` says of each shard."""
    answering = [
        {"name": shard.name, "using": shard.alias, "poller": overview.poller, "error": None}
        for shard, overview in found.items()
    ]
    missing = [
        {"name": shard.name, "using": shard.alias, "poller": None, "error": str(error)} for shard, error in away.items()
    ]
    return [*answering, *missing]


def _read_queues(shard: Shard, names: Sequence[str]) -> Flow[TaskQueueOverview]:
    """Read these queues, and the workers."""
    overview = yield from queue_stats.read_overview(shard, with_metrics=False)
    queues = yield from queue_stats.read_depths(shard, *names)
    done = yield from metrics.read_recent(shard, names, queue_stats.OVERVIEW_MINUTES)
    return dataclasses.replace(overview, queues=queues, metrics=done)


def read_recent(shard: Shard, names: Sequence[str], minutes: int) -> Flow[dict[str, metrics.Metrics]]:
    """Read the figures of these queues, or of all, in the last minutes."""
    known = names or [queue.name for queue in (yield from queue_stats.read_depths(shard))]
    done: dict[str, metrics.Metrics] = {}
    for some in chunks(known, metrics.MAX_QUEUES):
        done |= yield from metrics.read_recent(shard, some, minutes)
    return done


def count_of_tasks(count: int, state: str = "") -> str:
    """Return a number of tasks as text."""
    return counted(count, f"{state} task".strip())


def _missing(name: str, state: str, done: int, ids: Sequence[str]) -> str:
    """Return a message about task ids that were not found; "" if all were."""
    asked = len(set(ids))
    if done >= asked:
        return ""
    return f"Not {state} tasks of queue {name!r}: {asked - done:,} of {counted(asked, 'id')}."

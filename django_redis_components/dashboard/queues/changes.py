"""Changes of queues and of selected tasks: what they apply to, how they are confirmed, and how they are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.gather import gather_values
from django_redis_components.core.names import validate_name
from django_redis_components.core.protocol import Batch, Flow, Read, run
from django_redis_components.core.settings import conf
from django_redis_components.core.units import moment_of
from django_redis_components.dashboard import clients, formats, verbs
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.elements import TaskLine
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.queues.new_names import new_names
from django_redis_components.dashboard.queues.task_list import TaskUrl, sample, state_labels
from django_redis_components.dashboard.queues.task_query import FILTERS, TaskQuery
from django_redis_components.dashboard.queues.task_verbs import (
    CANCEL,
    DELETE,
    MOVE,
    RENAME,
    RESCHEDULE,
    RETRY,
    RUN_NOW,
)
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import NameCount
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.defaults import options_to_show
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, read_depths
from django_redis_components.taskqueue.store import control, pending_tasks
from django_redis_components.taskqueue.store.scan import BUDGET, TaskScan, read_tasks, scan_tasks
from django_redis_components.taskqueue.store.task_control import force_ms
from django_redis_components.taskqueue.store.unregistered import rename_tasks

#: Verbs of queues. The entries in the admin's log link to the queue.
PAUSE = Verb("pause", "pause_queue", MODELS["queues"])
RESUME = Verb("resume", "pause_queue", MODELS["queues"])
PAUSE_GROUP = Verb("pause_group", "pause_queue", MODELS["queues"])
RESUME_GROUP = Verb("resume_group", "pause_queue", MODELS["queues"])
PURGE = Verb("purge", "purge_queue", MODELS["queues"])
RESTORE = Verb("restore", "restore_task", MODELS["queues"])

#: Most tasks that a form may tick.
MAX_TICKED = 200
#: Tasks that one preview looks at, in all of its queues and states: about 50 ms of the server.
MAX_COUNTED = 10_000
#: Tasks that a preview shows.
SAMPLE = 10
#: Tasks that one change of due times collects: their ids are 20 MB.
MAX_COLLECTED = 200_000
#: Most queues that a form offers.
MAX_QUEUE_NAMES = 500
#: Most task names that a preview lists.
MAX_NAMES = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Preview:
    """What a change would apply to.

    Attributes:
        at: the server's time: the watermark.
        count: tasks; with `is_partial` there are more, which were not counted.
        error_class: of the last error of the first task, or "".
    """

    at: datetime
    count: int
    counts: list[NameCount]
    sample: list[TaskLine]
    is_partial: bool = False
    error_class: str = ""

    @property
    def count_text(self) -> str:
        """The count, or the least that it is."""
        return f"≥ {number(self.count)}" if self.is_partial else number(self.count)


@dataclasses.dataclass(frozen=True, slots=True)
class PurgePreview:
    """What a purge would remove and keep. `selection` is its watermark."""

    preview: Preview
    depth: QueueInfo
    selection: dict[str, Any]


def client() -> SyncClient:
    """Return the client of the dashboard's connection."""
    return clients.client(conf.settings().dashboard.using)


def preview_ticked(queue: str, state: str, ids: list[str], url_of: TaskUrl) -> tuple[Preview, dict[str, Any]]:
    """Return what a change of these tasks applies to, and the selection for its ticket."""
    at_us, tasks = run(client(), read_tasks(queue_shard(), queue, state, ids))
    at = _time(at_us)
    oldest: dict[str, tuple[int, datetime]] = {}
    for task in tasks:
        count, first = oldest.get(task.record.name, (0, at))
        oldest[task.record.name] = (count + 1, min(first, task.record.enqueued_at or at))
    preview = Preview(at, len(tasks), _counts(oldest, at), sample(tasks, at, url_of))
    selection = {"queue": queue, "state": state, "ids": [task.record.id for task in tasks]}
    return preview, {**selection, **_watermark(at_us)}


def preview_matching(queues: Sequence[str], query: TaskQuery, url_of: TaskUrl) -> list[tuple[Preview, dict[str, Any]]]:
    """Return, for each queue, what a change of all tasks that match applies to, and the selection for its ticket."""
    counts = run(client(), gather_values([_count(queue, query, MAX_COUNTED // len(queues)) for queue in queues]))
    return [_preview(queue, query, scan, url_of) for queue, scan in zip(queues, counts, strict=True)]


def _preview(queue: str, query: TaskQuery, scan: TaskScan, url_of: TaskUrl) -> tuple[Preview, dict[str, Any]]:
    at, counted = _time(scan.at_us), _counted(scan)
    count = counted if query.filters.are_set else scan.total
    preview = Preview(
        at,
        count,
        _counts(scan.names, at, rest=count - counted),
        sample(scan.tasks[:SAMPLE], at, url_of),
        is_partial=query.filters.are_set and scan.has_more,
        error_class=next((task.error_class for task in scan.tasks), "").removeprefix("builtins."),
    )
    filters = {name: getattr(query, name) for name in FILTERS}
    return preview, {"queue": queue, "state": query.state, "filters": filters, **_watermark(scan.at_us)}


def preview_purge(queue: str, trash: str, url_of: TaskUrl) -> PurgePreview:
    """Return what a purge of the pending tasks into this trash removes."""
    flows = [_count(queue, TaskQuery(state), MAX_COUNTED // 2) for state in ("ready", "scheduled")]
    *scans, [depth] = run(client(), gather_values([*flows, read_depths(queue_shard(), queue)]))
    at, count = _time(scans[0].at_us), depth.ready + depth.scheduled
    names: dict[str, tuple[int, datetime]] = {}
    for scan in scans:
        for name, (some, oldest) in scan.names.items():
            before, first = names.get(name, (0, oldest))
            names[name] = (before + some, min(first, oldest))
    rest = count - sum(_counted(scan) for scan in scans)
    tasks = [*scans[0].tasks, *scans[1].tasks]
    preview = Preview(at, count, _counts(names, at, rest=rest), sample(tasks, at, url_of))
    selection = {"queue": queue, "typed": queue, "trash": trash, "sequence": scans[0].sequence}
    return PurgePreview(preview, depth, {**selection, **_watermark(scans[0].at_us)})


def change_tasks(
    verb: Verb, selection: Mapping[str, Any], argument: str, budget_s: float | None = None
) -> tuple[int, bool]:
    """Change the selected tasks. Return how many, and whether some are left after the time that is allowed.

    Args:
        argument: of a deletion the id of the trash, of a rescheduling the new time, of a move the other queue.
    """
    change = partial(_apply, verb, selection, argument)
    if "ids" in selection:
        return change(selection["ids"]), False
    if verb not in (RUN_NOW, RESCHEDULE):
        return verbs.in_chunks(_Matching(selection, change).step, budget_s)
    collected = _Collected(selection, change)
    done, is_left = verbs.in_chunks(collected.step, budget_s)
    return done, is_left or collected.is_full


def purge(selection: Mapping[str, Any], budget_s: float | None = None) -> tuple[int, bool]:
    """Purge the tasks that entered the queue until the watermark. Return how many, and whether some are left."""
    place = [1, 0]

    def step() -> tuple[int, bool]:
        watermark = (int(selection["until_us"]), int(selection["sequence"]))
        flow = control.purge_until(queue_shard(), selection["queue"], selection["trash"], *watermark, *place)
        moved, *place[:] = run(client(), flow)
        return moved, place[0] > 0

    return verbs.in_chunks(step, budget_s)


def restore(queue: str, trash: str, budget_s: float | None = None) -> tuple[int, bool]:
    """Restore the tasks of a purge or a deletion. Return how many, and whether some are left."""
    return verbs.in_chunks(lambda: run(client(), control.restore_chunk(queue_shard(), queue, trash)), budget_s)


def count_of_trash(queue: str, trash: str) -> control.TrashEntry | None:
    """Return an entry of the trash; None if it has expired, was restored, or belongs to another queue."""
    found = run(client(), control.read_trash(queue_shard(), queue, control.MAX_TRASH))
    return next((each for each in found if each.id == trash), None)


def undo_until(at: datetime) -> str:
    """Format the end of an undo that begins at a time."""
    return formats.timestamp(at + timedelta(milliseconds=control.TRASH_TTL_MS), at).text


def kept_text(depth: QueueInfo) -> str:
    """Return which tasks a purge keeps."""
    labels = state_labels()
    states = ("running", "failed", "waiting", "unregistered")
    kept = [f"{labels[state]} {number(getattr(depth, state))}" for state in states]
    return _("Kept: %(states)s.") % {"states": " · ".join(kept)}


class _Matching:
    """Changes the tasks that match filters, oldest first; each step looks at a bounded number of them."""

    def __init__(self, selection: Mapping[str, Any], apply: Any) -> None:
        self._queue, self._apply, self._cursor = selection["queue"], apply, ""
        self._query = TaskQuery(selection["state"], **selection["filters"])

    def step(self) -> tuple[int, bool]:
        """Change the next tasks. Return how many, and whether others were not looked at."""
        ids, has_more = self._next_ids()
        return self._apply(ids) if ids else 0, has_more

    def _next_ids(self) -> tuple[list[str], bool]:
        query = self._query
        # Only rows have what `accepts` looks at: masked values must not match.
        mode = "rows" if query.needs_rows else "ids"
        scan = run(
            client(),
            scan_tasks(
                queue_shard(),
                self._queue,
                query.state,
                query.filters,
                cursor=self._cursor,
                limit=control.CHUNK,
                budget=BUDGET,
                mode=mode,
            ),
        )
        self._cursor = scan.last
        return [task.record.id for task in scan.tasks if query.accepts(task)], scan.has_more


class _Collected(_Matching):
    """Collects the tasks that match before it changes any: one with another due time has another place in the list.

    Attributes:
        is_full: whether others may match that were not looked at.
    """

    is_full = False

    def __init__(self, selection: Mapping[str, Any], apply: Any) -> None:
        super().__init__(selection, apply)
        self._ids: list[str] = []
        self._has_more = True

    def step(self) -> tuple[int, bool]:
        """Look for the next tasks; change some when all were looked at."""
        if self._has_more and not self.is_full:
            ids, self._has_more = self._next_ids()
            self._ids += ids
            self.is_full = self._has_more and len(self._ids) >= MAX_COLLECTED
            return 0, True
        some, self._ids = self._ids[: control.CHUNK], self._ids[control.CHUNK :]
        return self._apply(some) if some else 0, bool(self._ids)


def _count(queue: str, query: TaskQuery, budget: int) -> Flow[TaskScan]:
    """Count the tasks that match by name, among the first `budget` tasks in the state; the first ones are a sample."""
    if not query.needs_rows:
        return (
            yield from scan_tasks(
                queue_shard(), queue, query.state, query.filters, limit=SAMPLE, budget=budget, mode="names"
            )
        )
    budget = min(budget, BUDGET)
    scan = yield from scan_tasks(queue_shard(), queue, query.state, query.filters, limit=budget, budget=budget)
    tasks = [task for task in scan.tasks if query.accepts(task)]
    names: dict[str, tuple[int, datetime]] = {}
    for task in tasks:
        enqueued_at = task.record.enqueued_at or _time(scan.at_us)
        count, oldest = names.get(task.record.name, (0, enqueued_at))
        names[task.record.name] = (count + 1, min(oldest, enqueued_at))
    return dataclasses.replace(scan, tasks=tasks, names=names)


def _counted(scan: TaskScan) -> int:
    return sum(count for count, _oldest in scan.names.values())


def _apply(verb: Verb, selection: Mapping[str, Any], argument: str, ids: list[str]) -> int:
    return run(client(), _FLOWS[verb.name](queue_shard(), selection, argument, ids))


def _cancel(shard: Shard, selection: Mapping[str, Any], _: str, ids: list[str]) -> Flow[int]:
    """Cancel tasks. Those that have started meanwhile are left alone, unless the list is that of running tasks."""
    force = force_ms(None) if selection["state"] == "running" else ""
    return pending_tasks.cancel_tasks(shard, selection["queue"], ids, force, selection["until_us"])


def _rename(shard: Shard, selection: Mapping[str, Any], _: str, ids: list[str]) -> Flow[int]:
    """Requeue those of the tasks that have a new name, each under that."""
    _at_us, tasks = yield from read_tasks(shard, selection["queue"], "unregistered", ids)
    by_name: dict[str, list[str]] = {}
    for task_id, name in new_names(tasks).items():
        by_name.setdefault(name, []).append(task_id)
    done = 0
    for name, renamed in by_name.items():
        done += yield from rename_tasks(shard, selection["queue"], renamed, name, selection["until_ms"])
    return done


#: What applies a verb to tasks: of a shard, a selection, its argument and ids.
_FLOWS: dict[str, Callable[[Shard, Mapping[str, Any], str, list[str]], Flow[int]]] = {
    RETRY.name: lambda shard, each, _, ids: control.retry_failed(shard, each["queue"], ids, each["until_ms"]),
    DELETE.name: lambda shard, each, trash, ids: control.delete_tasks(
        shard, each["queue"], each["state"], ids, each["until_ms"], trash
    ),
    RUN_NOW.name: lambda shard, each, _, ids: pending_tasks.reschedule_tasks(
        shard, each["queue"], ids, "", each["until_us"]
    ),
    RESCHEDULE.name: lambda shard, each, due, ids: pending_tasks.reschedule_tasks(
        shard, each["queue"], ids, due, each["until_us"]
    ),
    MOVE.name: lambda shard, each, target, ids: pending_tasks.move_tasks(
        shard, each["queue"], ids, target, each["until_us"]
    ),
    CANCEL.name: _cancel,
    RENAME.name: _rename,
}


def _counts(names: Mapping[str, tuple[int, datetime]], at: datetime, rest: int = 0) -> list[NameCount]:
    """Return rows by name, the most frequent first, and one of the tasks that were not counted by name."""
    ordered = sorted(names.items(), key=lambda item: (-item[1][0], item[0]))
    rows = [
        NameCount(name, number(count), formats.age((at - oldest).total_seconds()))
        for name, (count, oldest) in ordered[:MAX_NAMES]
    ]
    rest += sum(count for _name, (count, _oldest) in ordered[MAX_NAMES:])
    if rest > 0:
        rows.append(NameCount(_("not counted by name"), number(rest)))
    return rows


def _watermark(at_us: int) -> dict[str, str]:
    return {"until_us": str(at_us), "until_ms": f"{at_us // 1_000}.{at_us % 1_000:03}"}


def read_queue_names(shard: Shard) -> Flow[tuple[list[str], int]]:
    """Return the names of queues in order, and how many there are, in one round trip.

    They are those that the site declares; else the first `MAX_QUEUE_NAMES` that are used, and those of its tasks.
    """
    declared = conf.settings().taskqueue.queues
    if declared:
        return sorted(declared), len(declared)
    key, own = shard.key(Key.queues), sorted({options_to_show(task).queue_name for task in registry.all_tasks()})
    used, count, *scores = yield Batch(
        [
            Read("ZRANGE", key, 0, MAX_QUEUE_NAMES - 1),
            Read("ZCARD", key),
            *(Read("ZSCORE", key, name) for name in own),
        ]
    )
    names = {name.decode(errors="replace") for name in used} | set(own)
    return sorted(names), count + scores.count(None)


def is_target(source: str, name: str) -> bool:
    """Return whether tasks of a queue can be moved to the queue of a name that was typed: another one that is used."""
    try:
        validate_name(name)
    except ValueError:
        return False
    return name != source and client().execute(Read("ZSCORE", queue_shard().key(Key.queues), name)) is not None


def _time(at_us: int) -> datetime:
    return moment_of(at_us)

"""The tasks that a search finds: each page looks at a bounded number of them, in one state after the other."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.core.units import moment_of
from django_redis_components.dashboard.gather import gather_values
from django_redis_components.dashboard.task_search.counts import read_counts
from django_redis_components.dashboard.task_search.query import SearchQuery
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.options import is_id
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.deploys import Deploy, read_deploys
from django_redis_components.taskqueue.stats.queue_stats import MAX_QUEUES, QueueInfo, read_depths
from django_redis_components.taskqueue.stats.workers import read_hosts
from django_redis_components.taskqueue.store.finished import find_finished
from django_redis_components.taskqueue.store.scan import BUDGET, ScannedTask, TaskScan, scan_tasks
from django_redis_components.taskqueue.store.task_records import is_generated_id

#: Tasks on a page.
PAGE_SIZE = 50
#: Most round trips of one page, each of which looks at `BUDGET` tasks, in `MAX_PARTS` states of queues at most.
MAX_TRIPS, MAX_PARTS = 5, 30


@dataclasses.dataclass(frozen=True, slots=True)
class SearchPart:
    """The tasks of a queue in a state."""

    state: str
    queue: str
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class SearchHit:
    """A task that was found."""

    state: str
    queue: str
    task: ScannedTask


@dataclasses.dataclass(slots=True)
class SearchSnapshot:
    """What a page of a search has found.

    Attributes:
        at: the server's time.
        task_id: the text, if a task has it as its id, or "".
        finished_in: queue whose list of finished tasks has the task, if its record has expired, or "".
        queues: names of all queues, or of the one that is searched.
        total: tasks in all parts.
        searched: how many tasks this page and the earlier ones have looked at.
        after: where the next page continues: state, queue and cursor; None at the end.
        is_cut: whether there are more queues than are searched.
        deploys: versions of the code, oldest first.
        hosts: of the workers with the latest heartbeats.
    """

    at: datetime
    query: SearchQuery
    task_id: str = ""
    finished_in: str = ""
    queues: list[str] = dataclasses.field(default_factory=list)
    hits: list[SearchHit] = dataclasses.field(default_factory=list)
    total: int = 0
    searched: int = 0
    after: tuple[str, str, str] | None = None
    is_cut: bool = False
    deploys: list[Deploy] = dataclasses.field(default_factory=list)
    hosts: list[str] = dataclasses.field(default_factory=list)


def search(shard: Shard, query: SearchQuery) -> Flow[SearchSnapshot]:
    """Search in one round trip for the numbers of tasks, and in up to five for the tasks themselves.

    A text that may be an id is looked for among finished tasks, too, in up to `finished.SEARCH_CALLS` round trips:
    before the search if it has the form of a generated id, which may stand in arguments of other tasks; otherwise if
    no task matches, since most such texts are words.
    """
    queue = query.values.get("queue", "")
    (at_us, has_id), depths, deploys, hosts = yield from gather_values(
        [
            _read_id(shard, query.task_id),
            read_depths(shard, *([queue] if queue else [])),
            read_deploys(shard),
            read_hosts(shard),
        ]
    )
    depths = sorted(depths, key=lambda depth: depth.name)
    found_id = query.task_id if has_id else ""
    snapshot = SearchSnapshot(moment_of(at_us), query, task_id=found_id, deploys=deploys, hosts=hosts)
    snapshot.queues = [depth.name for depth in depths]
    snapshot.is_cut = len(depths) >= MAX_QUEUES
    if query.is_empty or query.problem or snapshot.task_id:
        return snapshot
    if is_generated_id(query.task_id) and (yield from _find_finished(shard, snapshot)):
        return snapshot
    yield from _search_parts(shard, snapshot, depths)
    if not snapshot.hits and not is_generated_id(query.task_id):
        yield from _find_finished(shard, snapshot)
    return snapshot


def _find_finished(shard: Shard, snapshot: SearchSnapshot) -> Flow[bool]:
    """Look for the text among the ids of finished tasks whose records have expired. Return whether it was found."""
    text = snapshot.query.task_id
    row = (yield from find_finished(shard, text)) if is_id(text) else None
    if row is not None:
        snapshot.task_id, snapshot.finished_in = row.id, row.fields[Field.queue].decode()
    return row is not None


def _search_parts(shard: Shard, snapshot: SearchSnapshot, depths: list[QueueInfo]) -> Flow[None]:
    """Search the tasks in all states of the queues."""
    query = snapshot.query
    counts = yield from read_counts(shard, depths, query.states)
    parts = [SearchPart(*each) for each in counts]
    snapshot.total, snapshot.searched = sum(part.count for part in parts), query.searched
    if query.after:
        parts, snapshot.after = _rest(query, parts, query.after), query.after
    elif parts:
        snapshot.after = (parts[0].state, parts[0].queue, "")
    for _ in range(MAX_TRIPS):
        if not snapshot.after or len(snapshot.hits) >= PAGE_SIZE:
            break
        parts = yield from _read_parts(shard, snapshot, parts)
    snapshot.searched = min(snapshot.searched, max(snapshot.total, query.searched))


def _read_id(shard: Shard, task_id: str) -> Flow[tuple[int, bool]]:
    requests = [Read("TIME", key=shard.base), Read("HMGET", shard.record(task_id or "-"), Field.queue)]
    time, fields = yield Batch(requests, return_exceptions=True)  # the text may name another key of a task: WRONGTYPE
    if isinstance(time, Exception):
        raise time
    is_found = bool(task_id) and not isinstance(fields, Exception) and fields[0] is not None
    return int(time[0]) * 1_000_000 + int(time[1]), is_found


def _rest(query: SearchQuery, parts: list[SearchPart], after: tuple[str, str, str]) -> list[SearchPart]:
    """Return the parts from the one on in which an earlier page has ended; it may be empty by now."""
    order = {state: place for place, state in enumerate(query.states)}
    place = (order.get(after[0], len(order)), after[1])
    return [part for part in parts if (order[part.state], part.queue) >= place]


def _read_parts(shard: Shard, snapshot: SearchSnapshot, parts: list[SearchPart]) -> Flow[list[SearchPart]]:
    """Search the next parts in one round trip. Return the parts that are left."""
    chosen = _chosen(parts)
    state, queue, cursor = snapshot.after or ("", "", "")
    flows = [
        scan_tasks(
            shard,
            part.queue,
            part.state,
            snapshot.query.filters,
            cursor=cursor if (part.state, part.queue) == (state, queue) else "",
            # The place where a page ends must not tell whether masked values match.
            limit=budget if snapshot.query.needs_rows else PAGE_SIZE,
            budget=budget,
        )
        for part, budget in chosen
    ]
    scans = (yield from gather_values(flows)) if flows else []
    left = parts
    for (part, _), scan in zip(chosen, scans, strict=True):
        is_whole = _add(snapshot, part, scan)
        if not is_whole:
            return left
        left = left[1:]
        snapshot.after = (left[0].state, left[0].queue, "") if left else None
        if len(snapshot.hits) >= PAGE_SIZE:
            break
    if not chosen:
        snapshot.after = None
    return left


def _chosen(parts: list[SearchPart]) -> list[tuple[SearchPart, int]]:
    """Return the parts that one round trip searches, each with the number of tasks to look at."""
    chosen, left = [], BUDGET
    for part in parts[:MAX_PARTS]:
        if left <= 0:
            break
        chosen.append((part, min(part.count + 1, left)))
        left -= part.count
    return chosen


def _add(snapshot: SearchSnapshot, part: SearchPart, scan: TaskScan) -> bool:
    """Add what was found in a part. Return whether the part was searched to its end."""
    found = [task for task in scan.tasks if snapshot.query.accepts(task)]
    room = PAGE_SIZE - len(snapshot.hits)
    snapshot.hits += [SearchHit(part.state, part.queue, task) for task in found[:room]]
    last = found[room - 1] if len(found) > room else None
    if last is not None:
        snapshot.searched += last.scanned
        snapshot.after = (part.state, part.queue, last.cursor)
        return False
    snapshot.searched += scan.scanned
    if scan.has_more:
        snapshot.after = (part.state, part.queue, scan.last)
    return not scan.has_more

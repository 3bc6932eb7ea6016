"""The tasks that a search finds: each page looks at a bounded number of them, in one state after the other."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.core.units import moment_of
from django_redis_components.dashboard.clients import shown_shards
from django_redis_components.dashboard.shard_choice import name_in_urls
from django_redis_components.dashboard.shard_reads import of_shards
from django_redis_components.dashboard.task_search.counts import read_counts
from django_redis_components.dashboard.task_search.query import After, SearchQuery
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
    """The tasks of a queue in a state, in a shard."""

    state: str
    queue: str
    count: int
    shard: Shard


@dataclasses.dataclass(frozen=True, slots=True)
class SearchHit:
    """A task that was found."""

    state: str
    queue: str
    task: ScannedTask
    shard: Shard


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
        after: where the next page continues; None at the end.
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
    after: After | None = None
    is_cut: bool = False
    deploys: list[Deploy] = dataclasses.field(default_factory=list)
    hosts: list[str] = dataclasses.field(default_factory=list)


def search(query: SearchQuery) -> Flow[SearchSnapshot]:
    """Search the shards that the page shows, in one round trip for the numbers of tasks, and in up to five for tasks.

    A text that may be an id is looked for among finished tasks, too, in up to `finished.SEARCH_CALLS` round trips:
    before the search if it has the form of a generated id, which arguments of other tasks may contain; otherwise if
    no task matches, since most such texts are words.
    """
    queue = query.values.get("queue", "")
    found = yield from of_shards(
        lambda shard: gather_values(
            [
                _read_id(shard, query.task_id),
                read_depths(shard, *([queue] if queue else [])),
                read_deploys(shard),
                read_hosts(shard),
            ]
        )
    )
    (at_us, _has_id), _depths, deploys, hosts = next(iter(found.values()))
    by_shard = {shard: sorted(depths, key=lambda depth: depth.name) for shard, (_, depths, _, _) in found.items()}
    found_id = query.task_id if any(has_id for (_, has_id), *_ in found.values()) else ""
    snapshot = SearchSnapshot(moment_of(at_us), query, task_id=found_id, deploys=deploys, hosts=hosts)
    snapshot.queues = sorted({depth.name for depths in by_shard.values() for depth in depths})
    snapshot.is_cut = any(len(depths) >= MAX_QUEUES for depths in by_shard.values())
    if query.is_empty or query.problem or snapshot.task_id:
        return snapshot
    if is_generated_id(query.task_id) and (yield from _find_finished(snapshot)):
        return snapshot
    yield from _search_parts(snapshot, by_shard)
    if not snapshot.hits and not is_generated_id(query.task_id):
        yield from _find_finished(snapshot)
    return snapshot


def _find_finished(snapshot: SearchSnapshot) -> Flow[bool]:
    """Look for the text among the ids of finished tasks whose records have expired. Return whether it was found."""
    text = snapshot.query.task_id
    found = (yield from of_shards(lambda shard: find_finished(shard, text))) if is_id(text) else {}
    row = next((each for each in found.values() if each is not None), None)
    if row is not None:
        snapshot.task_id, snapshot.finished_in = row.id, row.fields[Field.queue].decode()
    return row is not None


def _search_parts(snapshot: SearchSnapshot, depths: dict[Shard, list[QueueInfo]]) -> Flow[None]:
    """Search the tasks in all states of the queues."""
    query = snapshot.query
    counts = yield from of_shards(lambda shard: read_counts(shard, depths.get(shard, []), query.states))
    parts = [SearchPart(*each, shard) for shard, found in counts.items() for each in found]
    if len(counts) > 1:
        parts.sort(key=lambda part: _place(query, part))
    snapshot.total, snapshot.searched = sum(part.count for part in parts), query.searched
    if query.after:
        parts, snapshot.after = _rest(query, parts, query.after), query.after
    elif parts:
        snapshot.after = _start_of(parts[0])
    for _ in range(MAX_TRIPS):
        if not snapshot.after or len(snapshot.hits) >= PAGE_SIZE:
            break
        parts = yield from _read_parts(snapshot, parts)
    snapshot.searched = min(snapshot.searched, max(snapshot.total, query.searched))


def _read_id(shard: Shard, task_id: str) -> Flow[tuple[int, bool]]:
    requests = [Read("TIME", key=shard.base), Read("HMGET", shard.record(task_id or "-"), Field.queue)]
    time, fields = yield Batch(requests, return_exceptions=True)  # the text may name another key of a task: WRONGTYPE
    if isinstance(time, Exception):
        raise time
    is_found = bool(task_id) and not isinstance(fields, Exception) and fields[0] is not None
    return int(time[0]) * 1_000_000 + int(time[1]), is_found


def _start_of(part: SearchPart) -> After:
    """Return where a search begins in a part."""
    return After(part.state, part.queue, "", name_in_urls([part.shard]))


def _place(query: SearchQuery, part: SearchPart | After) -> tuple[int, str, int]:
    """Return the position of a part in the order of the search: by state, queue and shard."""
    order = {state: place for place, state in enumerate(query.states)}
    names = [shard.name for shard in shown_shards().shards]
    name = part.shard if isinstance(part, After) else part.shard.name
    return order.get(part.state, len(order)), part.queue, names.index(name) if name in names else 0


def _rest(query: SearchQuery, parts: list[SearchPart], after: After) -> list[SearchPart]:
    """Return the parts from the one on in which an earlier page has ended; it may be empty by now."""
    place = _place(query, after)
    return [part for part in parts if _place(query, part) >= place]


def _read_parts(snapshot: SearchSnapshot, parts: list[SearchPart]) -> Flow[list[SearchPart]]:
    """Search the next parts in one round trip. Return the parts that are left."""
    chosen = _chosen(parts)
    begun, cursor = snapshot.after, snapshot.after.cursor if snapshot.after else ""
    flows = [
        scan_tasks(
            part.shard,
            part.queue,
            part.state,
            snapshot.query.filters,
            cursor=cursor if begun and _start_of(part) == begun._replace(cursor="") else "",
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
        snapshot.after = _start_of(left[0]) if left else None
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
    snapshot.hits += [SearchHit(part.state, part.queue, task, part.shard) for task in found[:room]]
    last = found[room - 1] if len(found) > room else None
    if last is not None:
        snapshot.searched += last.scanned
        snapshot.after = _start_of(part)._replace(cursor=last.cursor)
        return False
    snapshot.searched += scan.scanned
    if scan.has_more:
        snapshot.after = _start_of(part)._replace(cursor=scan.last)
    return not scan.has_more

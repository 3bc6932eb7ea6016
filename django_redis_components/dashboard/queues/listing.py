"""A page of the list of a queue's tasks: of one shard, or of several in one order.

The page of several shards has as many tasks as that of one, of those that each shard lists next. Each shard has its
own cursor; that of the page names all of them (`TaskQuery.cursor_in`).
"""

from __future__ import annotations

import dataclasses
import heapq
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow
from django_redis_components.core.units import moment_of
from django_redis_components.dashboard.queues.task_query import PAGE_SIZE, TaskQuery
from django_redis_components.taskqueue.record import TaskRecord
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.finished import FINISHED
from django_redis_components.taskqueue.store.scan import BUDGET, ScannedTask, TaskScan, scan_tasks

#: States whose tasks are listed in the order in which they are due; others are listed from the newest.
BY_DUE_TIME = ("scheduled", "retrying", "limited")


@dataclasses.dataclass(frozen=True, slots=True)
class ShardList:
    """What a page lists of one shard.

    Attributes:
        begin: the cursor after which it begins, or "".
        tasks: those on the page.
        has_cut: whether more tasks were found that are on the next page.
    """

    scan: TaskScan
    begin: str
    tasks: list[ScannedTask]
    has_cut: bool = False

    @property
    def has_more(self) -> bool:
        """Whether there are tasks for a page after this one."""
        return self.has_cut or self.scan.has_more

    @property
    def last(self) -> str:
        """The cursor of the last task that was looked at for this page."""
        if self.has_cut:
            return self.tasks[-1].cursor if self.tasks else self.begin
        return self.scan.last or self.begin

    @property
    def scanned(self) -> int:
        """How many tasks were looked at for this page."""
        if self.has_cut:
            return self.tasks[-1].scanned if self.tasks else 0
        return self.scan.scanned

    @property
    def at(self) -> datetime:
        """The time of its server."""
        return moment_of(self.scan.at_us)


@dataclasses.dataclass(frozen=True, slots=True)
class TaskListing:
    """A page of the list of tasks.

    Attributes:
        lists: what it has of each shard that has answered.
        rows: the tasks in order, each with its shard. They match the filters, also when masked.
        is_merged: whether it is of several shards.
        begins: the cursors after which it begins, by the name of the shard, if it is of several. A shard that does not
            answer keeps its cursor.
    """

    lists: Mapping[Shard, ShardList]
    rows: Sequence[tuple[Shard, ScannedTask]]
    is_search: bool
    is_merged: bool = False
    begins: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def tasks(self) -> list[ScannedTask]:
        """The tasks in order."""
        return [task for _shard, task in self.rows]

    @property
    def has_more(self) -> bool:
        """Whether there is a page after this one."""
        return any(each.has_more for each in self.lists.values())

    @property
    def last(self) -> str:
        """The cursor after which the next page begins."""
        if not self.is_merged:
            return next(iter(self.lists.values())).last
        ends = {shard.name: each.last for shard, each in self.lists.items() if each.last}
        return json.dumps({**self.begins, **ends})

    @property
    def first(self) -> str:
        """The cursor before which the previous page ends; "" for the first page, and for one of several shards."""
        scan = next(iter(self.lists.values())).scan
        return scan.first if scan.start > 0 and not self.is_merged else ""

    @property
    def total(self) -> int:
        """How many tasks are in the state."""
        return sum(each.scan.total for each in self.lists.values())

    @property
    def start(self) -> int:
        """How many tasks are before the first one that was looked at."""
        return sum(each.scan.start for each in self.lists.values())

    @property
    def scanned(self) -> int:
        """How many tasks were looked at for this page."""
        return sum(each.scanned for each in self.lists.values())


def scan_list(shard: Shard, name: str, query: TaskQuery, state: str, *, shards: int = 1) -> Flow[TaskScan]:
    """Read the list of a state.

    Args:
        shards: how many of them are read, which together look at as many tasks as one.
    """
    budget = max(BUDGET // shards, PAGE_SIZE)
    # The place where a page ends must not tell whether masked values match.
    limit = budget if query.needs_rows and query.direction == "after" else PAGE_SIZE
    cursor, direction = query.cursor_in(shard.name), query.direction
    return scan_tasks(shard, name, state, query.filters, cursor=cursor, direction=direction, limit=limit, budget=budget)


def read_merged(shards: Sequence[Shard], name: str, query: TaskQuery) -> Flow[TaskListing]:
    """Read a page of several shards. Those that do not answer are missing in it.

    Raises:
        redis.exceptions.RedisError: none answers.
    """
    query = dataclasses.replace(query, direction="after")
    scans = yield from gather_values([_scan_or_error(shard, name, query, len(shards)) for shard in shards])
    found = {shard: scan for shard, scan in zip(shards, scans, strict=True) if isinstance(scan, TaskScan)}
    if not found:
        raise next(scan for scan in scans if isinstance(scan, RedisError))
    return merged_listing(found, query)


def listing_of(shard: Shard, scan: TaskScan, query: TaskQuery) -> TaskListing:
    """Return the page of one shard."""
    tasks = [task for task in scan.tasks if query.accepts(task)]
    page = tasks[:PAGE_SIZE]
    part = ShardList(scan, query.cursor_in(shard.name), page, has_cut=len(page) < len(tasks))
    return TaskListing({shard: part}, [(shard, task) for task in page], query.filters.are_set)


def merged_listing(scans: Mapping[Shard, TaskScan], query: TaskQuery) -> TaskListing:
    """Return the page of several shards: each keeps its order, and those next in turn are ordered by their times."""
    tasks = {shard: [task for task in scan.tasks if query.accepts(task)] for shard, scan in scans.items()}
    heads = [(_place(found[0], query.state), number) for number, found in enumerate(tasks.values()) if found]
    heapq.heapify(heads)
    rows: list[tuple[Shard, ScannedTask]] = []
    taken = dict.fromkeys(tasks, 0)
    shards = list(tasks)
    while heads and len(rows) < PAGE_SIZE:
        _, number = heapq.heappop(heads)
        shard = shards[number]
        rows.append((shard, tasks[shard][taken[shard]]))
        taken[shard] += 1
        if taken[shard] < len(tasks[shard]):
            heapq.heappush(heads, (_place(tasks[shard][taken[shard]], query.state), number))
    lists = {}
    for shard, scan in scans.items():
        found, count = tasks[shard], taken[shard]
        lists[shard] = ShardList(scan, query.cursor_in(shard.name), found[:count], has_cut=count < len(found))
    return TaskListing(lists, rows, query.filters.are_set, is_merged=True, begins=query.cursors())


def time_of(record: TaskRecord[Any], name: str) -> datetime | None:
    """Return a time of a record; None if it has none, or a corrupt one."""
    try:
        found: datetime | None = getattr(record, name)
    except (ValueError, OverflowError, OSError):
        return None
    return found


def _scan_or_error(shard: Shard, name: str, query: TaskQuery, shards: int) -> Flow[TaskScan | RedisError]:
    try:
        return (yield from scan_list(shard, name, query, query.state, shards=shards))
    except RedisError as exc:
        return exc


def _place(task: ScannedTask, state: str) -> float:
    """Return a number by which the next tasks of the shards are ordered."""
    if state in BY_DUE_TIME:
        moment = time_of(task.record, "run_after")
    else:
        name = "finished_at" if state in (*FINISHED, "failed") else "last_attempted_at" if state == "running" else ""
        moment = (time_of(task.record, name) if name else None) or time_of(task.record, "enqueued_at")
    at = moment.timestamp() if moment else 0.0
    return at if state in BY_DUE_TIME else -at

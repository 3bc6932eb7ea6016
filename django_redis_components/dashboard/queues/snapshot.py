"""The data of one queue's page, read in one round trip."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from django_redis_components.core.protocol import Flow, Read
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.gather import gather_values
from django_redis_components.dashboard.queues.task_query import PAGE_SIZE, TaskQuery
from django_redis_components.taskqueue import ErrorGroup, Metrics, registry
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats import errors, metrics
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, read_depths
from django_redis_components.taskqueue.store import control
from django_redis_components.taskqueue.store.control import TrashEntry
from django_redis_components.taskqueue.store.finished import count_finished
from django_redis_components.taskqueue.store.scan import ScannedTask, TaskScan, scan_tasks

#: Minutes, hours, error groups and restorable purges that the page shows.
MINUTES, HOURS, ERRORS, TRASH = 60, 24, 50, 5


@dataclasses.dataclass(frozen=True, slots=True)
class TaskListing:
    """A page of the list of tasks.

    Attributes:
        tasks: those that match the filters, also when masked.
    """

    scan: TaskScan
    tasks: list[ScannedTask]
    is_search: bool

    @property
    def has_more(self) -> bool:
        """Whether there is a page after this one."""
        return self.scan.has_more

    @property
    def last(self) -> str:
        """The cursor of the last task that was looked at."""
        return self.scan.last


@dataclasses.dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """The state and the metrics of a queue.

    Attributes:
        at: the server's time.
        listing: the list of tasks; None in a fragment, which has none.
        trash: what can be restored.
        finished: by state, how many finished tasks are listed.
        is_known: whether it has or had tasks lately, is paused, or is the queue of a task of this process.
    """

    at: datetime
    query: TaskQuery
    depth: QueueInfo
    listing: TaskListing | None
    trash: list[TrashEntry]
    minutes: Metrics
    hours: Metrics
    errors: list[ErrorGroup]
    finished: dict[str, int]
    is_known: bool


def read_queue(name: str, query: TaskQuery, *, with_list: bool = True) -> Flow[QueueSnapshot]:
    """Read the snapshot of a queue in one round trip, two if there is trash."""
    flows: list[Flow[Any]] = [
        read_depths(queue_shard(), name),
        metrics.read_minutes(queue_shard(), name, MINUTES),
        metrics.read_hours(queue_shard(), name, HOURS),
        errors.read_errors(queue_shard(), name, ERRORS),
        control.read_trash(queue_shard(), name, TRASH),
        _read_index(queue_shard(), name),
        count_finished(queue_shard(), name),
    ]
    if with_list:
        cursor, direction = query.cursor, query.direction
        page = scan_tasks(
            queue_shard(), name, query.state, query.filters, cursor=cursor, direction=direction, limit=PAGE_SIZE
        )
        flows.append(page)
    [depth], minutes, hours, groups, trash, is_indexed, finished, *scans = yield from gather_values(flows)
    return QueueSnapshot(
        at=minutes.at,
        query=query,
        depth=depth,
        listing=_listing(query, scans[0]) if scans else None,
        trash=trash,
        minutes=minutes,
        hours=hours,
        errors=groups,
        finished=finished,
        is_known=is_indexed or depth.paused is not None or bool(groups or trash) or _has_task(name),
    )


def _read_index(shard: Shard, name: str) -> Flow[bool]:
    """Return whether the queue is in the index, where it stays for a day after its last task."""
    score = yield Read("ZSCORE", shard.key(Key.queues), name)
    return score is not None


def _has_task(name: str) -> bool:
    """Return whether a task that this process has imported is enqueued there by default."""
    return any(task.options.queue_name == name for task in registry.all_tasks())


def _listing(query: TaskQuery, scan: TaskScan) -> TaskListing:
    return TaskListing(scan, [task for task in scan.tasks if query.accepts(task)], query.filters.are_set)

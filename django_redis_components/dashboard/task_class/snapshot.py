"""The data of the page of a task class, read in two round trips, and one more for each further 500 queues."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from django_redis_components.core.arguments import check_choice
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.taskqueue import ScheduleInfo
from django_redis_components.taskqueue.registry import find
from django_redis_components.taskqueue.schedules.status import read_first
from django_redis_components.taskqueue.stats.class_history import (
    CLASS_RANGES,
    ClassHours,
    class_history,
    counters_by_hour,
    read_hours,
)
from django_redis_components.taskqueue.stats.deploys import Deploy, read_deploys
from django_redis_components.taskqueue.stats.history import History
from django_redis_components.taskqueue.stats.task_class import RunCounts, TaskClass, read_task_class, split_by_deploy
from django_redis_components.taskqueue.store.scan import Filters, ScannedTask, SlowestRuns, find_slowest, scan_tasks

#: Queues whose failed tasks are looked at, tasks that are read of each, and tasks that are shown.
SCANNED_QUEUES, READ_TASKS, SHOWN_TASKS = 5, 30, 10
#: The range of the minutes that are kept, which the page has by default.
MINUTES_RANGE = "3h"
#: The ranges by name.
RANGES = (MINUTES_RANGE, *CLASS_RANGES)


@dataclasses.dataclass(frozen=True, slots=True)
class FailedTasks:
    """The newest failed tasks of a class in one queue: of how many it was looked, and of how many there are."""

    queue: str
    scanned: int
    total: int
    tasks: list[ScannedTask]


@dataclasses.dataclass(frozen=True, slots=True)
class TaskClassSnapshot:
    """A task class.

    Attributes:
        at: the server's time.
        deploys: all that are kept, oldest first.
        schedules: those of the task.
        failed, slowest: by queue; empty in a fragment.
        range: name of the range that is shown.
        hours: of a longer range than the minutes; else None.
    """

    at: datetime
    task: TaskClass
    deploys: list[Deploy]
    schedules: list[ScheduleInfo]
    failed: list[FailedTasks]
    slowest: list[SlowestRuns]
    range: str = MINUTES_RANGE
    hours: ClassHours | None = None

    @property
    def history(self) -> History | None:
        """The history by hour; None in the range of the minutes."""
        return class_history(self.task, self.hours, self.range) if self.hours else None

    @property
    def counts(self) -> RunCounts:
        """What was counted in the range."""
        history = self.history
        return RunCounts(history.totals, history.wait_time, history.run_time) if history else self.task.counts

    @property
    def by_deploy(self) -> list[tuple[Deploy | None, RunCounts]]:
        """What was counted in the range from each deploy to the next one."""
        if self.hours is None:
            return split_by_deploy(self.task.minutes, 60, self.deploys)
        return split_by_deploy(counters_by_hour(self.task, self.hours, self.range), 3_600, self.deploys)


def parse(request: PageRequest) -> str:
    """Return the name of the range.

    Raises:
        ValueError: there is no such range.
    """
    return check_choice(request.http.GET.get("range", MINUTES_RANGE), "range", RANGES)


def read(request: PageRequest) -> Snapshot[TaskClassSnapshot]:
    """Read the task class. A fragment has no lists of tasks."""
    return read_snapshot(read_class(request.object_id, request.query, with_tasks=not request.is_fragment))


def read_class(name: str, range_name: str = MINUTES_RANGE, *, with_tasks: bool = True) -> Flow[TaskClassSnapshot]:
    """Read a task class, then failed tasks and slowest runs in the queues that ran it, and in that of its decorator."""
    shard, using = queue_shard(), conf.settings().dashboard.using
    with_hours: list[Flow[Any]] = [read_hours(shard, name, range_name)] if range_name in CLASS_RANGES else []
    task, deploys, schedules, *hours = yield from gather_values(
        [read_task_class(shard, name), read_deploys(shard), read_first(using), *with_hours]
    )
    own = [each for each in schedules.schedules if each.task == name]
    queues = [queue for queue, _ in task.by_queue]
    registered = find(name)
    if registered is not None and registered.options.queue_name not in queues:
        queues.append(registered.options.queue_name)
    scanned = queues[:SCANNED_QUEUES] if with_tasks else []
    scans: list[Flow[Any]] = [
        scan_tasks(shard, queue, "failed", Filters(name=name), limit=READ_TASKS) for queue in scanned
    ]
    values = yield from gather_values([*scans, *(find_slowest(shard, queue, name, SHOWN_TASKS) for queue in scanned)])
    failed = [
        FailedTasks(queue, scan.scanned, scan.total, [each for each in scan.tasks if each.record.name == name])
        for queue, scan in zip(scanned, values, strict=False)
    ]
    slowest = values[len(scanned) :]
    return TaskClassSnapshot(task.at, task, deploys, own, failed, slowest, range_name, hours[0] if hours else None)


def slowest_tasks(snapshot: TaskClassSnapshot) -> list[ScannedTask]:
    """Return the slowest runs of all queues that were looked at, slowest first."""
    found = [task for each in snapshot.slowest for task in each.tasks]
    return sorted(found, key=lambda task: task.duration or 0.0, reverse=True)[:SHOWN_TASKS]

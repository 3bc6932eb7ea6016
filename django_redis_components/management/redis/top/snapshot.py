"""The data of one refresh: queues, workers and running tasks, in four round trips."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from django_redis_components.core.gather import gather
from django_redis_components.core.protocol import Flow
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.merging import merged_overview
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview, read_overview
from django_redis_components.taskqueue.store.control import Row, list_tasks

#: Most queues whose running tasks are read, those with the most running tasks first.
MAX_QUEUES = 20
#: Most running tasks that are read of a queue: those whose leases end first.
MAX_RUNNING = 50


@dataclasses.dataclass(frozen=True, slots=True)
class RunningTask:
    """A running task. `elapsed_s` is the time since a worker leased it, in seconds."""

    id: str
    name: str
    queue: str
    worker: str
    elapsed_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class TopSnapshot:
    """One refresh.

    Attributes:
        running: of at most 20 queues and 50 tasks of each, longest first.
        missing: the errors of shards that do not answer, by their names.
    """

    overview: TaskQueueOverview
    running: list[RunningTask]
    missing: dict[str, str] = dataclasses.field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """Return the snapshot for JSON."""
        overview = self.overview
        return {
            "at": overview.at,
            "poller": overview.poller,
            "queues": overview.queues,
            "workers": overview.workers,
            "running": self.running,
            **({"missing": self.missing} if self.missing else {}),
        }


def read_top(shard: Shard) -> Flow[TopSnapshot]:
    """Read queues, workers and running tasks."""
    overview = yield from read_overview(shard)
    busiest = sorted(overview.queues, key=lambda queue: -queue.running)
    names = [queue.name for queue in busiest[:MAX_QUEUES] if queue.running]
    outcomes = yield from gather([list_tasks(shard, name, "running", MAX_RUNNING, 0) for name in names])
    tasks = []
    for name, outcome in zip(names, outcomes, strict=True):
        if outcome.error is not None:
            raise outcome.error
        tasks += [_task(name, row, overview.at.timestamp()) for row in outcome.value]
    return TopSnapshot(overview, sorted(tasks, key=lambda task: -task.elapsed_s))


def merged_top(found: Mapping[Shard, TopSnapshot], away: Mapping[Shard, Exception]) -> TopSnapshot:
    """Return what was read from all shards."""
    overview = merged_overview([snapshot.overview for snapshot in found.values()])
    running = [task for snapshot in found.values() for task in snapshot.running]
    missing = {shard.name: str(error) for shard, error in away.items()}
    return TopSnapshot(overview, sorted(running, key=lambda task: -task.elapsed_s), missing)


def _task(queue: str, row: Row, now_s: float) -> RunningTask:
    task_id, fields, _ = row
    leased_us = int(fields.get(Field.leased_at_us, 0))
    return RunningTask(
        task_id,
        fields.get(Field.task_name, b"").decode(errors="replace"),
        queue,
        fields.get(Field.lease, b"").decode(errors="replace").partition("/")[0],
        max(0.0, now_s - leased_us / 1e6) if leased_us else 0.0,
    )

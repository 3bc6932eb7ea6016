"""Rows of the overview's tables: queues, throughput, schedules, workers."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from django.contrib.admin.utils import quote
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import NO_VALUE, Cell, count_cell, pause_note
from django_redis_components.dashboard.formats import Timestamp, number
from django_redis_components.dashboard.overview.problems import live_workers, worker_name
from django_redis_components.dashboard.queues.throughput import Sparkline, drain_time, quantile_cells, sparkline
from django_redis_components.taskqueue import Metrics
from django_redis_components.taskqueue.schedules.status import ScheduleInfo
from django_redis_components.taskqueue.stats.overview import QueueDepth, TaskQueueOverview, WorkerInfo


@dataclasses.dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue. `cells` are in the order of the columns after the name.

    Attributes:
        slug: the name in the URL of the queue's page; "" for the row of totals.
    """

    name: str
    slug: str
    paused: str
    cells: list[Cell]


@dataclasses.dataclass(frozen=True, slots=True)
class ThroughputRow:
    """The metrics of a queue in the last hour. `cells` are in the order of the columns after the sparkline."""

    name: str
    slug: str
    spark: Sparkline
    cells: list[Cell]


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker process."""

    id: str
    name: str
    alive: bool
    state: str
    seen: str
    queues: str
    busy: str
    finished: str
    started: Timestamp | None


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule.

    Attributes:
        name: the task; `title` is the full name, with the times.
        alarming: whether it is overdue.
    """

    name: str
    title: str
    times: str
    queue: str
    next: Cell
    sent: Timestamp | None
    task_id: str
    state: str
    alarming: bool


def queue_row(queue: QueueDepth, overview: TaskQueueOverview) -> QueueRow:
    """Return the row of a queue."""
    live = live_workers(queue.name, overview)
    row = _depth_row(queue, live, overview.at, unserved=queue.ready > 0 and not live and not queue.paused)
    return dataclasses.replace(row, slug=quote(queue.name))


def total_row(overview: TaskQueueOverview) -> QueueRow:
    """Return the row of totals."""
    queues = overview.queues
    total = QueueDepth(
        name=_("All queues"),
        ready=sum(queue.ready for queue in queues),
        scheduled=sum(queue.scheduled for queue in queues),
        running=sum(queue.running for queue in queues),
        failed=sum(queue.failed for queue in queues),
        unregistered=sum(queue.unregistered for queue in queues),
        oldest_age=max((queue.oldest_age for queue in queues if queue.oldest_age is not None), default=None),
        limited=sum(queue.limited for queue in queues),
        waiting=sum(queue.waiting for queue in queues),
        next_due_at=min((queue.next_due_at for queue in queues if queue.next_due_at), default=None),
    )
    return _depth_row(total, sum(1 for worker in overview.workers if worker.is_alive), overview.at)


def throughput_row(queue: QueueDepth, metrics: Metrics) -> ThroughputRow:
    """Return the metrics of a queue in the last hour."""
    totals, rate = metrics.totals, metrics.per_minute()
    cells = [
        count_cell(totals.finished),
        Cell(formats.decimal(rate) if rate < 10 else number(round(rate)), "" if rate else "zero"),
        count_cell(totals.failed, alarming=totals.failed > 0),
        *quantile_cells(metrics.wait_time),
        *quantile_cells(metrics.run_time),
        Cell(drain_time(queue, metrics)),
    ]
    return ThroughputRow(queue.name, quote(queue.name), sparkline(metrics.intervals), cells)


def schedule_row(schedule: ScheduleInfo, now: datetime) -> ScheduleRow:
    """Return the row of a schedule."""
    return ScheduleRow(
        name=schedule.label,
        title=schedule.name,
        times=schedule.times,
        queue=schedule.queue_name or NO_VALUE,
        next=Cell(_time_until(schedule.next_at, now), at=_timestamp(schedule.next_at, now)),
        sent=_timestamp(schedule.last_sent_at, now),
        task_id=schedule.last_task_id or NO_VALUE,
        state=schedule_state(schedule),
        alarming=schedule.state == "late",
    )


def worker_row(worker: WorkerInfo, now: datetime) -> WorkerRow:
    """Return the row of a worker."""
    alive = worker.is_alive
    return WorkerRow(
        id=worker.id,
        name=worker_name(worker),
        alive=alive,
        state=pgettext("worker", "alive") if alive else pgettext("worker", "lost"),
        seen=_("%(age)s ago") % {"age": formats.age(worker.heartbeat_age)},
        queues=", ".join(worker.queues) or NO_VALUE,
        busy=_("%(busy)s of %(threads)s") % {"busy": number(worker.busy), "threads": number(worker.threads)},
        finished=number(worker.finished),
        started=_timestamp(worker.started_at, now),
    )


def schedule_state(schedule: ScheduleInfo) -> str:
    """Return the label of a schedule's state."""
    labels = {
        "on": pgettext("schedule", "on"),
        "off": pgettext("schedule", "off"),
        "paused": pgettext("schedule", "paused"),
        "late": pgettext("schedule", "overdue"),
        "gone": pgettext("schedule", "not declared"),
        "new": pgettext("schedule", "not registered"),
    }
    return labels[schedule.state]


def _depth_row(queue: QueueDepth, live: int, now: datetime, *, unserved: bool = False) -> QueueRow:
    cells = [
        count_cell(queue.ready),
        Cell(NO_VALUE if queue.oldest_age is None else formats.age(queue.oldest_age)),
        count_cell(queue.scheduled),
        Cell(_time_until(queue.next_due_at, now), at=_timestamp(queue.next_due_at, now)),
        count_cell(queue.limited),
        count_cell(queue.waiting),
        count_cell(queue.running),
        count_cell(queue.failed),
        count_cell(queue.unregistered, alarming=queue.unregistered > 0),
        count_cell(live, alarming=unserved),
    ]
    return QueueRow(queue.name, "", pause_note(queue.paused, now) if queue.paused else "", cells)


def _time_until(due: datetime | None, now: datetime) -> str:
    if due is None:
        return NO_VALUE
    return _("in %(age)s") % {"age": formats.age((due - now).total_seconds())} if due > now else pgettext("due", "now")


def _timestamp(at: datetime | None, now: datetime) -> Timestamp | None:
    return formats.timestamp(at, now) if at else None

"""The rows of the tables: queues, schedules, workers."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from django.contrib.admin.utils import quote
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.dashboard import wording
from django_redis_components.dashboard.health import is_alive, pause_words, serving, worker_name
from django_redis_components.dashboard.wording import Moment, number
from django_redis_components.taskqueue.schedules.status import ScheduleInfo
from django_redis_components.taskqueue.stats.overview import Overview, QueueDepth, WorkerInfo

#: What a cell without a value shows.
NOTHING = "–"


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A value in a table.

    Attributes:
        kind: "zero" for a quiet one, "alarming" for one that is marked, or "".
        at: the moment that the text tells of, if it does.
    """

    text: str
    kind: str = ""
    at: Moment | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue; `cells` are in the order of the table's columns, without the name's.

    Attributes:
        slug: names it in the address of its page; "" for the row of all queues.
    """

    name: str
    slug: str
    paused: str
    cells: list[Cell]


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker process."""

    id: str
    name: str
    alive: bool
    state: str
    seen: str
    queues: str
    busy: str
    finished: str
    started: Moment | None


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One schedule.

    Attributes:
        name: without the times; `title` is the whole.
        alarming: whether somebody should look at it.
    """

    name: str
    title: str
    times: str
    queue: str
    next: Cell
    sent: Moment | None
    task_id: str
    state: str
    alarming: bool


def queue_row(queue: QueueDepth, overview: Overview) -> QueueRow:
    """The row of a queue."""
    live = serving(queue.name, overview)
    row = _row(queue, live, overview.at, unserved=queue.ready > 0 and not live and not queue.paused)
    return dataclasses.replace(row, slug=quote(queue.name))


def total_row(overview: Overview) -> QueueRow:
    """The last row: all queues together."""
    queues = overview.queues
    total = QueueDepth(
        name=_("All queues"),
        ready=sum(queue.ready for queue in queues),
        scheduled=sum(queue.scheduled for queue in queues),
        running=sum(queue.running for queue in queues),
        failed=sum(queue.failed for queue in queues),
        unregistered=sum(queue.unregistered for queue in queues),
        oldest_age_s=max((queue.oldest_age_s for queue in queues if queue.oldest_age_s is not None), default=None),
        limited=sum(queue.limited for queue in queues),
        waiting=sum(queue.waiting for queue in queues),
        next_due_at=min((queue.next_due_at for queue in queues if queue.next_due_at), default=None),
    )
    return _row(total, sum(1 for worker in overview.workers if is_alive(worker)), overview.at)


def schedule_row(schedule: ScheduleInfo, now: datetime) -> ScheduleRow:
    """The row of a schedule."""
    return ScheduleRow(
        name=schedule.label,
        title=schedule.name,
        times=schedule.times,
        queue=schedule.queue_name or NOTHING,
        next=Cell(_until(schedule.next_at, now), at=_moment(schedule.next_at, now)),
        sent=_moment(schedule.last_sent_at, now),
        task_id=schedule.last_task_id or NOTHING,
        state=_state_of(schedule),
        alarming=schedule.state == "late",
    )


def _state_of(schedule: ScheduleInfo) -> str:
    words = {
        "on": pgettext("schedule", "on"),
        "off": pgettext("schedule", "off"),
        "late": pgettext("schedule", "late"),
        "gone": pgettext("schedule", "not in the code any more"),
    }
    return words[schedule.state]


def worker_row(worker: WorkerInfo, now: datetime) -> WorkerRow:
    """The row of a worker."""
    alive = is_alive(worker)
    return WorkerRow(
        id=worker.id,
        name=worker_name(worker),
        alive=alive,
        state=pgettext("worker", "alive") if alive else pgettext("worker", "lost"),
        seen=_("%(age)s ago") % {"age": wording.age(worker.seen_s)},
        queues=", ".join(worker.queues) or NOTHING,
        busy=_("%(busy)s of %(threads)s") % {"busy": number(worker.busy), "threads": number(worker.threads)},
        finished=number(worker.finished),
        started=_moment(worker.started_at, now),
    )


def _row(queue: QueueDepth, live: int, now: datetime, *, unserved: bool = False) -> QueueRow:
    cells = [
        _count(queue.ready),
        Cell(NOTHING if queue.oldest_age_s is None else wording.age(queue.oldest_age_s)),
        _count(queue.scheduled),
        Cell(_until(queue.next_due_at, now), at=_moment(queue.next_due_at, now)),
        _count(queue.limited),
        _count(queue.waiting),
        _count(queue.running),
        _count(queue.failed),
        _count(queue.unregistered, alarming=queue.unregistered > 0),
        _count(live, alarming=unserved),
    ]
    return QueueRow(queue.name, "", pause_words(queue.paused, now) if queue.paused else "", cells)


def _count(value: int, *, alarming: bool = False) -> Cell:
    return Cell(number(value), "alarming" if alarming else "" if value else "zero")


def _until(due: datetime | None, now: datetime) -> str:
    if due is None:
        return NOTHING
    return _("in %(age)s") % {"age": wording.age((due - now).total_seconds())} if due > now else pgettext("due", "now")


def _moment(at: datetime | None, now: datetime) -> Moment | None:
    return wording.moment(at, now) if at else None

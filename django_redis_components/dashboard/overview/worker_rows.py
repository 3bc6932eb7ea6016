"""Rows of the overview's table of workers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import NO_VALUE
from django_redis_components.dashboard.formats import Timestamp, number
from django_redis_components.dashboard.overview.problems import worker_name
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo

#: Most workers that the table shows.
MAX_ROWS = 20


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


def worker_rows(workers: Sequence[WorkerInfo], now: datetime) -> list[WorkerRow]:
    """Return the rows of the first workers, lost ones first."""
    return [worker_row(worker, now) for worker in sorted(workers, key=lambda worker: worker.is_alive)[:MAX_ROWS]]


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
        started=formats.timestamp(worker.started_at, now) if worker.started_at else None,
    )

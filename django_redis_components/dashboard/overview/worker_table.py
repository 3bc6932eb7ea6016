"""The overview's table of workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import Cell, moment_cell
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.workers import worker_name
from django_redis_components.dashboard.table import Column, ShownTable, Table
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo

#: Most workers that the table shows.
MAX_ROWS = 20


def worker_table(workers: Sequence[WorkerInfo], now: datetime) -> ShownTable:
    """Return the table of the first workers, lost ones first."""
    shown = sorted(workers, key=lambda worker: worker.is_alive)[:MAX_ROWS]
    table: ShownTable = _TABLE.context((worker, now) for worker in shown)["table"]
    return table


def _state(row: tuple[WorkerInfo, datetime]) -> Cell:
    if row[0].is_alive:
        return Cell(pgettext("worker", "alive"), badge="alive")
    return Cell(pgettext("worker", "lost"), badge="lost")


def _busy(row: tuple[WorkerInfo, datetime]) -> str:
    return _("%(busy)s of %(threads)s") % {"busy": number(row[0].busy), "threads": number(row[0].threads)}


#: The rows are workers, each with the time at which they were read.
_TABLE: Table[tuple[WorkerInfo, datetime]] = Table(
    [
        Column("name", gettext_lazy("Worker"), lambda row: Cell(worker_name(row[0]), title=row[0].id), "name"),
        Column("state", gettext_lazy("State"), _state, "", has_label=False),
        Column(
            "seen",
            gettext_lazy("Last seen"),
            lambda row: _("%(age)s ago") % {"age": formats.age(row[0].heartbeat_age)},
        ),
        Column("queues", gettext_lazy("Queues, in order"), lambda row: ", ".join(row[0].queues) or None, "whole"),
        Column("busy", gettext_lazy("Busy"), _busy),
        Column("finished", gettext_lazy("Finished"), lambda row: row[0].finished),
        Column(
            "started",
            gettext_lazy("Started"),
            lambda row: moment_cell(row[0].started_at, row[1]),
            optional=True,
            has_label=False,
        ),
    ]
)

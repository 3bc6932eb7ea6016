"""The tables of a task class: its counts by queue and by deploy."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy, pgettext_lazy

from django_redis_components.dashboard.elements import Cell, count_cell
from django_redis_components.dashboard.queues.throughput import quantile_text
from django_redis_components.dashboard.table import Column, Table
from django_redis_components.taskqueue import Histogram
from django_redis_components.taskqueue.stats.task_class import RunCounts

#: A row of a table: its heading, and what was counted.
CountRow = tuple[Cell, RunCounts]


def _failed(row: CountRow) -> Cell:
    failed = row[1].totals.failed
    return count_cell(failed, alarming=failed > 0)


def _quantiles(histogram: Histogram) -> Cell:
    """Return the cell of p50, p95 and p99."""
    if not histogram.count:
        return Cell(quantile_text(None))
    return Cell(" · ".join(quantile_text(each) for each in (histogram.p50, histogram.p95, histogram.p99)))


def _columns(heading: Any) -> list[Column[CountRow]]:
    wait, run = pgettext_lazy("tasks", "Wait"), gettext_lazy("Run time")
    return [
        Column("name", heading, lambda row: row[0], kind="name"),
        Column("finished", gettext_lazy("Finished"), lambda row: count_cell(row[1].totals.finished)),
        Column("failed", pgettext_lazy("tasks", "Failed"), _failed),
        Column("retried", gettext_lazy("Retries"), lambda row: count_cell(row[1].totals.retried), optional=True),
        Column("wait", wait, lambda row: _quantiles(row[1].wait_time), optional=True),
        Column("run", run, lambda row: _quantiles(row[1].run_time)),
    ]


BY_QUEUE: Table[CountRow] = Table(_columns(gettext_lazy("Queue")))
BY_DEPLOY: Table[CountRow] = Table(_columns(gettext_lazy("Version")))

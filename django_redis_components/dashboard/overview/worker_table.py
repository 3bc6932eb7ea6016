"""The overview's table of workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.clients import shown_shards
from django_redis_components.dashboard.elements import Cell, moment_cell
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.workers import worker_name
from django_redis_components.dashboard.table import Column, ShownTable, Table
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo

#: A worker, when it was read, and the shards in which it is alive.
_Row = tuple[WorkerInfo, datetime, str]
#: Most workers that the table shows.
MAX_ROWS = 20


def worker_table(
    workers: Sequence[WorkerInfo], now: datetime, by_shard: Mapping[Shard, TaskQueueOverview]
) -> ShownTable:
    """Return the table of the first workers, lost ones first.

    Args:
        by_shard: the parts of the overview. If there are several, the table says in which shards a worker is alive.
    """
    shown = sorted(workers, key=lambda worker: worker.is_alive)[:MAX_ROWS]
    alive = shards_with_worker({shard: overview.workers for shard, overview in by_shard.items()})
    table: ShownTable = _TABLE.context((worker, now, alive.get(worker.id, "")) for worker in shown)["table"]
    return table


def shards_with_worker(found: Mapping[Shard, Iterable[WorkerInfo]]) -> dict[str, str]:
    """Return the shards in which each worker is alive, as text by id; none if there is one shard only."""
    if not found or len(shards_of(next(iter(found)).using)) == 1:
        return {}
    names: dict[str, list[str]] = {}
    for shard, workers in found.items():
        for worker in workers:
            names.setdefault(worker.id, []).extend([shard.name] if worker.is_alive else [])
    return {worker: shards_text(alive) for worker, alive in names.items()}


def shards_text(names: Sequence[str]) -> str:
    """Return the shards in which a worker is alive."""
    if len(names) == len(shown_shards().shards) > 1:
        return pgettext("shards", "all")
    return ", ".join(names) or pgettext("shards", "none")


def _state(row: _Row) -> Cell:
    if row[0].is_alive:
        return Cell(pgettext("worker", "alive"), badge="alive")
    return Cell(pgettext("worker", "lost"), badge="lost")


def _busy(row: _Row) -> str:
    return _("%(busy)s of %(threads)s") % {"busy": number(row[0].busy_threads), "threads": number(row[0].threads)}


_TABLE: Table[_Row] = Table(
    [
        Column("name", gettext_lazy("Worker"), lambda row: Cell(worker_name(row[0]), title=row[0].id), "name"),
        Column("state", gettext_lazy("State"), _state, "", has_label=False),
        Column("shards", gettext_lazy("Shard"), lambda row: row[2], "", skip_empty=True),
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

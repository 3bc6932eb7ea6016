"""The overview's table of queues: sorted and filtered by the query string, collapsed when it is long."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from django.contrib.admin.utils import quote
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.charts import Sparkline
from django_redis_components.dashboard.elements import NO_VALUE, Cell, count_cell, pause_note
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.queues.throughput import (
    drain_time,
    is_growing,
    quantile_text,
    recent_rate,
    sparkline,
)
from django_redis_components.taskqueue import Metrics
from django_redis_components.taskqueue.stats.queue_stats import QueueDepth, TaskQueueOverview

#: Queues that are shown before "Show all".
COLLAPSED = 12
#: Most queues that are shown after "Show all".
MAX_ROWS = 500
#: Longest text that names are filtered by.
MAX_TEXT = 200
#: Age in seconds from which the oldest ready task is highlighted.
OLD_S = 600.0


@dataclasses.dataclass(frozen=True, slots=True)
class QueueQuery:
    """Which queues are shown in which order.

    Attributes:
        sort: key of a column; "" sorts by name, or by ready tasks when the table is collapsed.
        text: part of the names, in any case.
        is_whole: whether all queues are shown.
    """

    sort: str = ""
    text: str = ""
    is_whole: bool = False

    @classmethod
    def parse(cls, query: QueryDict) -> QueueQuery:
        """Return the query of a URL.

        Raises:
            ValueError: no column has this key.
        """
        sort = query.get("sort", "")
        if sort and sort not in SORTS:
            raise ValueError(f"sort={sort[:40]!r}: expected one of {', '.join(SORTS)}.")
        return cls(sort, query.get("queue", "")[:MAX_TEXT].strip(), query.get("queues") == "all")


@dataclasses.dataclass(frozen=True, slots=True)
class Column:
    """A column. `key` is what `sort` sorts by; "" if it cannot be sorted by."""

    label: str
    key: str
    is_current: bool
    is_optional: bool


@dataclasses.dataclass(frozen=True, slots=True)
class QueueState:
    """A state of a queue and the CSS class of its badge."""

    label: str
    kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue.

    Attributes:
        slug: the name in the URL of the queue's page; "" for the row of totals.
        state: None for the row of totals.
        note: the pause, or "".
        spark: the finished tasks of the last hour; None without metrics.
        cells: of the columns after the name and the ready tasks.
    """

    name: str
    slug: str
    state: QueueState | None
    note: str
    ready: Cell
    spark: Sparkline | None
    cells: list[tuple[Column, Cell]]


@dataclasses.dataclass(frozen=True, slots=True)
class QueueTable:
    """The table.

    Attributes:
        total: the sums of all queues, shown or not; None for one queue.
        note: how many queues are not shown, or "".
        is_cut: whether a link may show the others.
    """

    columns: list[Column]
    rows: list[QueueRow]
    total: QueueRow | None
    note: str
    is_cut: bool


@dataclasses.dataclass(frozen=True, slots=True)
class _Line:
    """A queue with what its row and its order are made of."""

    depth: QueueDepth
    metrics: Metrics | None
    live: int

    @property
    def finished(self) -> float:
        return recent_rate(self.metrics) if self.metrics else 0.0

    @property
    def wait_p95(self) -> float | None:
        return self.metrics.wait_time.p95 if self.metrics else None

    @property
    def is_unserved(self) -> bool:
        return self.depth.ready > 0 and not self.live and not self.depth.paused


#: How the rows are ordered, by the key of a column: largest first, the name first in the alphabet.
SORTS: Mapping[str, Callable[[_Line], float]] = {
    "name": lambda line: 0,
    "ready": lambda line: line.depth.ready,
    "oldest": lambda line: line.depth.oldest_age or 0.0,
    "scheduled": lambda line: line.depth.scheduled,
    "retrying": lambda line: line.depth.retrying,
    "running": lambda line: line.depth.running,
    "failed": lambda line: line.depth.failed,
    "in": lambda line: line.depth.arrival_rate or 0.0,
    "out": lambda line: line.finished,
    "wait": lambda line: line.wait_p95 or 0.0,
    "workers": lambda line: line.live,
}


def queue_table(overview: TaskQueueOverview, query: QueueQuery) -> QueueTable:
    """Return the table of an overview."""
    lines = [_Line(queue, overview.metrics.get(queue.name), queue.live_workers) for queue in overview.queues]
    found = [line for line in lines if query.text.lower() in line.depth.name.lower()]
    is_long = len(found) > COLLAPSED and not query.is_whole
    sort = query.sort or ("ready" if is_long else "name")
    found.sort(key=lambda line: (-SORTS[sort](line), line.depth.name))
    shown = found[: COLLAPSED if is_long else MAX_ROWS]
    columns = _columns(sort)
    return QueueTable(
        columns=columns,
        rows=[_row(line, columns, overview.at) for line in shown],
        total=_total_row(lines, columns, overview) if len(lines) > 1 else None,
        note=_note(len(lines), len(found), len(shown)),
        is_cut=is_long,
    )


def _columns(sort: str) -> list[Column]:
    labels = {
        "name": _("Queue"),
        "ready": pgettext("tasks", "Ready"),
        "oldest": _("Oldest"),
        "scheduled": pgettext("tasks", "Scheduled"),
        "retrying": pgettext("tasks", "Retrying"),
        "running": pgettext("tasks", "Running"),
        "failed": pgettext("tasks", "Failed"),
        "in": _("In/min"),
        "out": _("Out/min"),
        "wait": _("Wait p95"),
        "eta": _("ETA"),
        "workers": _("Workers"),
    }
    optional = ("running", "in", "out")
    return [Column(label, key if key in SORTS else "", key == sort, key in optional) for key, label in labels.items()]


def _row(line: _Line, columns: Sequence[Column], now: datetime) -> QueueRow:
    pause = line.depth.paused
    return QueueRow(
        name=line.depth.name,
        slug=quote(line.depth.name),
        state=_state(line),
        note=pause_note(pause, now) if pause else "",
        ready=count_cell(line.depth.ready),
        spark=sparkline(line.metrics.intervals) if line.metrics else None,
        cells=[*zip(columns[2:], _cells(line), strict=True)],
    )


def _state(line: _Line) -> QueueState:
    depth = line.depth
    if depth.paused:
        return QueueState(pgettext("queue", "Paused"), "state-paused")
    if line.is_unserved:
        return QueueState(_("No worker"), "lost")
    if line.metrics and is_growing(depth, line.metrics):
        return QueueState(pgettext("queue", "Growing"), "state-growing")
    if depth.ready or depth.running or line.finished:
        return QueueState(pgettext("queue", "Active"), "alive")
    return QueueState(pgettext("queue", "Idle"), "state-idle")


def _cells(line: _Line) -> Iterable[Cell]:
    depth = line.depth
    yield _age_cell(depth.oldest_age)
    yield count_cell(depth.scheduled)
    yield count_cell(depth.retrying)
    yield count_cell(depth.running)
    yield count_cell(depth.failed)
    yield _rate_cell(depth.arrival_rate)
    yield _rate_cell(line.finished if line.metrics else None)
    yield _empty_cell(quantile_text(line.wait_p95))
    yield _empty_cell(drain_time(depth, line.metrics) if line.metrics else NO_VALUE)
    yield count_cell(line.live, alarming=line.is_unserved)


def _total_row(lines: Sequence[_Line], columns: Sequence[Column], overview: TaskQueueOverview) -> QueueRow:
    depths = [line.depth for line in lines]
    cells = [
        _age_cell(max((depth.oldest_age for depth in depths if depth.oldest_age is not None), default=None)),
        count_cell(sum(depth.scheduled for depth in depths)),
        count_cell(sum(depth.retrying for depth in depths)),
        count_cell(sum(depth.running for depth in depths)),
        count_cell(sum(depth.failed for depth in depths)),
        _rate_cell(sum(depth.arrival_rate or 0.0 for depth in depths)),
        _rate_cell(sum(line.finished for line in lines)),
        Cell(""),
        Cell(""),
        count_cell(overview.live_count),
    ]
    ready = count_cell(sum(depth.ready for depth in depths))
    return QueueRow(_("All queues"), "", None, "", ready, None, [*zip(columns[2:], cells, strict=True)])


def _age_cell(seconds: float | None) -> Cell:
    if seconds is None:
        return Cell(NO_VALUE, "zero")
    return Cell(formats.age(seconds), "caution" if seconds >= OLD_S else "")


def _rate_cell(per_minute: float | None) -> Cell:
    if per_minute is None:
        return Cell(NO_VALUE, "zero")
    return Cell(formats.rate(per_minute), "" if per_minute else "zero")


def _empty_cell(text: str) -> Cell:
    return Cell(text, "zero" if text == NO_VALUE else "")


def _note(count: int, found: int, shown: int) -> str:
    if shown < found:
        return _("%(shown)s of %(count)s queues") % {"shown": number(shown), "count": number(found)}
    if found < count:
        return _("%(found)s of %(count)s queues match") % {"found": number(found), "count": number(count)}
    return ""

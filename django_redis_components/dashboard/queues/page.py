"""The template context of one queue's page, formatted in the active language."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.charts import ChartPanel
from django_redis_components.dashboard.elements import NO_VALUE, Tile, cost_note, pause_note
from django_redis_components.dashboard.error_text import group_line
from django_redis_components.dashboard.formats import Timestamp, number
from django_redis_components.dashboard.queues.snapshot import QueueSnapshot
from django_redis_components.dashboard.queues.task_list import StateTab, TaskList, TaskUrl, state_tabs, task_list
from django_redis_components.dashboard.queues.throughput import (
    TaskMetricsRow,
    drain_time,
    hours_chart,
    minutes_chart,
    quantile_text,
    task_row,
)
from django_redis_components.taskqueue import ErrorGroup
from django_redis_components.taskqueue.store.control import TRASH_TTL_MS, TrashEntry


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorRow:
    """An error group. `task_id` is its latest task; `query` that of the link to its failed tasks."""

    kind: str
    message: str
    location: str
    count: str
    final: str
    first: Timestamp
    last: Timestamp
    task_id: str
    query: str


@dataclasses.dataclass(frozen=True, slots=True)
class TrashRow:
    """Tasks that can be restored. `query` is that of the link to the undo."""

    text: str
    query: str


@dataclasses.dataclass(frozen=True, slots=True)
class QueuePage:
    """The content of the page."""

    name: str
    paused: str
    is_paused: bool
    states: list[StateTab]
    listing: TaskList | None
    trash: list[TrashRow]
    throughput: list[Tile]
    charts: list[ChartPanel]
    tasks: list[TaskMetricsRow]
    errors: list[ErrorRow]
    read_at: Timestamp
    zone: str
    cost: str


def build_page(snapshot: QueueSnapshot, *, url_of: TaskUrl) -> QueuePage:
    """Return the page of a snapshot.

    Args:
        url_of: returns the URL of a task's page, or "".
    """
    depth, at = snapshot.depth, snapshot.at
    return QueuePage(
        name=depth.name,
        paused=pause_note(depth.paused, at) if depth.paused else "",
        is_paused=depth.paused is not None,
        states=state_tabs(snapshot),
        listing=task_list(snapshot, snapshot.listing, url_of) if snapshot.listing else None,
        trash=[_trash_row(entry, at) for entry in snapshot.trash],
        throughput=[*_throughput_tiles(snapshot)],
        charts=[*_charts(snapshot)],
        tasks=[task_row(task) for task in snapshot.minutes.tasks],
        errors=[_error_row(group, at) for group in snapshot.errors],
        read_at=formats.timestamp(at, at),
        zone=formats.zone(),
        cost=cost_note(snapshot.cost, per_node=snapshot.is_cluster),
    )


def _charts(snapshot: QueueSnapshot) -> Iterable[ChartPanel]:
    minutes, hours = minutes_chart(snapshot.minutes), hours_chart(snapshot.hours)
    labels = {
        "value_label": _("Finished"),
        "bad_label": pgettext("tasks", "Failed"),
        "note": _("Failed tasks are marked at the foot of each bar."),
    }
    yield ChartPanel("minutes", _("Throughput per minute, last hour"), _("Minute"), chart=minutes, **labels)
    yield ChartPanel("hours", _("Throughput per hour, last 24 hours"), _("Hour"), chart=hours, **labels)


def _throughput_tiles(snapshot: QueueSnapshot) -> Iterable[Tile]:
    metrics, age = snapshot.minutes, snapshot.depth.oldest_age
    yield Tile(_("Oldest"), NO_VALUE if age is None else formats.age(age))
    yield Tile(_("Throughput"), formats.decimal(metrics.per_minute()), _("per minute, last hour"))
    for label, histogram in ((_("Wait p50"), metrics.wait_time), (_("Run time p50"), metrics.run_time)):
        quantiles = {"p95": quantile_text(histogram.p95), "p99": quantile_text(histogram.p99)}
        note = _("p95 %(p95)s, p99 %(p99)s") % quantiles if histogram.count else ""
        yield Tile(label, quantile_text(histogram.p50), note)
    yield Tile(_("ETA"), drain_time(snapshot.depth, metrics))


def _trash_row(entry: TrashEntry, at: datetime) -> TrashRow:
    text = ngettext(
        "%(count)s task purged or deleted %(age)s ago. It can be restored until %(time)s.",
        "%(count)s tasks purged or deleted %(age)s ago. They can be restored until %(time)s.",
        entry.count,
    ) % {
        "count": number(entry.count),
        "age": formats.age((at - entry.at).total_seconds()),
        "time": formats.timestamp(entry.at + timedelta(milliseconds=TRASH_TTL_MS), at).text,
    }
    return TrashRow(text, urlencode({"trash": entry.id}))


def _error_row(group: ErrorGroup, at: datetime) -> ErrorRow:
    return ErrorRow(
        kind=group.exception_class_path.removeprefix("builtins."),
        message=group_line(group),
        location=group.location,
        count=number(group.count),
        final=number(group.final),
        first=formats.timestamp(group.first_at, at),
        last=formats.timestamp(group.last_at, at),
        task_id=group.task_ids[0] if group.task_ids else "",
        query=urlencode({"state": "failed", "error": group.fingerprint}),
    )

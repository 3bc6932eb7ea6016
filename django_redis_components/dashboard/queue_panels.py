"""The page of one queue as the template shows it: every word and number ready, in the active language."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.dashboard import charts, wording
from django_redis_components.dashboard.health import pause_words
from django_redis_components.dashboard.pace import TaskRow, empty_in, hours_chart, minutes_chart, task_row, time_text
from django_redis_components.dashboard.panels import Tile, cost_words
from django_redis_components.dashboard.queue_reading import QueueSnapshot
from django_redis_components.dashboard.wording import Moment, number
from django_redis_components.taskqueue import ErrorGroup
from django_redis_components.taskqueue.stats.overview import QueueDepth


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorRow:
    """Failures that are the same error; `task_id` is the newest."""

    kind: str
    message: str
    place: str
    times: str
    final: str
    first: Moment
    last: Moment
    task_id: str


@dataclasses.dataclass(frozen=True, slots=True)
class SpanChart:
    """A chart of minutes or hours; `chart` is None when nothing has finished."""

    id: str
    title: str
    header: str
    chart: charts.Chart | None


@dataclasses.dataclass(frozen=True, slots=True)
class QueuePage:
    """Everything on the page."""

    name: str
    paused: str
    tiles: list[Tile]
    pace: list[Tile]
    charts: list[SpanChart]
    tasks: list[TaskRow]
    errors: list[ErrorRow]
    read_at: Moment
    zone: str
    cost: str


def page(snapshot: QueueSnapshot) -> QueuePage:
    """The page of a snapshot."""
    depth, at = snapshot.depth, snapshot.at
    return QueuePage(
        name=depth.name,
        paused=pause_words(depth.paused, at) if depth.paused else "",
        tiles=[*_depth_tiles(depth)],
        pace=[*_pace_tiles(snapshot)],
        charts=[*_charts(snapshot)],
        tasks=[task_row(task) for task in snapshot.minutes.tasks],
        errors=[_error_row(group, at) for group in snapshot.errors],
        read_at=wording.moment(at, at),
        zone=wording.zone(),
        cost=cost_words(snapshot.cost, nodes=snapshot.nodes),
    )


def _charts(snapshot: QueueSnapshot) -> Iterable[SpanChart]:
    minutes, hours = minutes_chart(snapshot.minutes), hours_chart(snapshot.hours)
    yield SpanChart("minutes", _("Finished in the last hour, by minute"), _("Minute"), minutes)
    yield SpanChart("hours", _("Finished in the last 24 hours, by hour"), _("Hour"), hours)


def _depth_tiles(depth: QueueDepth) -> Iterable[Tile]:
    waits = "" if depth.oldest_age_s is None else _("oldest: %(age)s") % {"age": wording.age(depth.oldest_age_s)}
    yield Tile(pgettext("tasks", "Ready"), number(depth.ready), waits)
    yield Tile(pgettext("tasks", "Scheduled"), number(depth.scheduled))
    yield Tile(
        pgettext("tasks", "Limited"), number(depth.limited), _("of the ready and scheduled") if depth.limited else ""
    )
    yield Tile(
        pgettext("tasks", "Waiting"), number(depth.waiting), _("for others of their flows") if depth.waiting else ""
    )
    yield Tile(pgettext("tasks", "Running"), number(depth.running))
    yield Tile(pgettext("tasks", "Failed"), number(depth.failed))
    yield Tile(pgettext("tasks", "Unregistered"), number(depth.unregistered))


def _pace_tiles(snapshot: QueueSnapshot) -> Iterable[Tile]:
    metrics = snapshot.minutes
    spreads = ((_("Waited, half of them under"), metrics.waited), (_("Ran, half of them under"), metrics.ran))
    for label, spread in spreads:
        note = _("95 %%: %(p95)s, 99 %%: %(p99)s") % {"p95": time_text(spread.p95), "p99": time_text(spread.p99)}
        yield Tile(label, time_text(spread.p50), note if spread.count else "")
    yield Tile(_("Finished in a minute"), wording.decimal(metrics.per_minute()), _("mean of the last hour"))
    yield Tile(_("Empty in"), empty_in(snapshot.depth, metrics), _("if no others come"))


def _error_row(group: ErrorGroup, at: datetime) -> ErrorRow:
    return ErrorRow(
        kind=group.exception_class_path.removeprefix("builtins."),
        message=group.message,
        place=group.place,
        times=number(group.times),
        final=number(group.final),
        first=wording.moment(group.first_at, at),
        last=wording.moment(group.last_at, at),
        task_id=group.task_ids[0] if group.task_ids else "",
    )

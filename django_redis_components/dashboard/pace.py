"""How fast queues work: the last hour as a line of a table, and minutes and hours as charts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from django.contrib.admin.utils import quote
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.dashboard import charts, wording
from django_redis_components.dashboard.rows import NOTHING, Cell
from django_redis_components.dashboard.wording import number
from django_redis_components.taskqueue import Metrics, Span, Spread, TaskMetrics
from django_redis_components.taskqueue.stats.overview import Overview, QueueDepth

#: Size of the small drawing in its own units: two for each of 60 minutes.
SPARK_WIDTH, SPARK_HEIGHT = 120, 24
#: Minutes, and hours, between two that are named on the axis of a chart.
MINUTES_APART, HOURS_APART = 10, 4
#: Seconds from which the last bucket of a histogram counts; it has no end.
ENDLESS_S = 8_388.0
#: Seconds after which "how long until it is empty" is not worth telling.
LONGEST_S = 30 * 86_400


@dataclasses.dataclass(frozen=True, slots=True)
class Spark:
    """A small drawing of minutes: paths of all that finished and of what failed, and the same in words."""

    view_box: str
    done: str
    failed: str
    finding: str


@dataclasses.dataclass(frozen=True, slots=True)
class PaceRow:
    """What a queue has done in the last hour. `slug` names it in the address of its page."""

    name: str
    slug: str
    spark: Spark
    cells: list[Cell]


@dataclasses.dataclass(frozen=True, slots=True)
class TaskRow:
    """What one task has done in the last hour."""

    name: str
    cells: list[Cell]


def pace_rows(overview: Overview) -> list[PaceRow]:
    """A row for each queue whose metrics were read."""
    return [
        _pace_row(queue, overview.metrics[queue.name]) for queue in overview.queues if queue.name in overview.metrics
    ]


def task_row(task: TaskMetrics) -> TaskRow:
    """The row of a task."""
    totals = task.totals
    cells = [_count(totals.finished), _count(totals.failed, alarming=totals.failed > 0), _count(totals.retried)]
    return TaskRow(task.name or _("all other tasks"), [*cells, *_times(task.waited), *_times(task.ran)])


def spark(spans: Sequence[Span]) -> Spark:
    """The drawing of some minutes."""
    top = max(max(span.counts.finished for span in spans), 1)
    return Spark(
        f"0 0 {SPARK_WIDTH} {SPARK_HEIGHT}",
        _path([span.counts.finished for span in spans], top),
        _path([span.counts.failed for span in spans], top),
        finding(spans, wording.clock_short),
    )


def finding(spans: Sequence[Span], clock: charts.Clock) -> str:
    """What a chart of finished tasks shows, in words."""
    most = max(spans, key=lambda span: span.counts.finished)
    if not most.counts.finished:
        return _("No task has finished.")
    failed = sum(span.counts.failed for span in spans)
    told = _("Most: %(most)s from %(time)s on.") % {"most": number(most.counts.finished), "time": clock(most.at)}
    return f"{told} " + ngettext("%(count)s failed.", "%(count)s failed.", failed) % {"count": number(failed)}


def minutes_chart(metrics: Metrics) -> charts.Chart | None:
    """The chart of minutes; None when nothing has finished."""
    return _chart(metrics, wording.clock_short, wording.clock_short, MINUTES_APART)


def hours_chart(metrics: Metrics) -> charts.Chart | None:
    """The chart of hours; None when nothing has finished."""
    return _chart(metrics, _day_and_clock, wording.clock_short, HOURS_APART)


def time_text(seconds: float | None) -> str:
    """A quantile in words."""
    if seconds is None:
        return NOTHING
    told = wording.duration(seconds)
    return _("over %(age)s") % {"age": told} if seconds >= ENDLESS_S else told


def empty_in(queue: QueueDepth, metrics: Metrics) -> str:
    """How long the ready tasks take at the rate of the last hour, if no others come."""
    rate = metrics.per_minute()
    if not queue.ready or not rate or queue.paused:
        return NOTHING
    seconds = queue.ready / rate * 60
    return _("over 30 days") if seconds > LONGEST_S else wording.age(seconds)


def _pace_row(queue: QueueDepth, metrics: Metrics) -> PaceRow:
    totals = metrics.totals
    rate = metrics.per_minute()
    cells = [
        _count(totals.finished),
        Cell(wording.decimal(rate) if rate < 10 else number(round(rate)), "" if rate else "zero"),
        _count(totals.failed, alarming=totals.failed > 0),
        *_times(metrics.waited),
        *_times(metrics.ran),
        Cell(empty_in(queue, metrics)),
    ]
    return PaceRow(queue.name, quote(queue.name), spark(metrics.spans), cells)


def _times(spread: Spread) -> list[Cell]:
    return [Cell(time_text(spread.p50)), Cell(time_text(spread.p95))]


def _count(value: int, *, alarming: bool = False) -> Cell:
    return Cell(number(value), "alarming" if alarming else "" if value else "zero")


def _path(values: Sequence[int], top: int) -> str:
    """Bars as one path; what is not zero can be seen."""
    width = SPARK_WIDTH / len(values)
    parts = []
    for at, value in enumerate(values):
        if value:
            y = min(SPARK_HEIGHT * (1 - value / top), SPARK_HEIGHT - 1)
            parts.append(f"M{at * width:.4g},{SPARK_HEIGHT}V{y:.1f}h{width * 0.8:.2g}V{SPARK_HEIGHT}z")
    return "".join(parts)


def _chart(metrics: Metrics, long: charts.Clock, short: charts.Clock, every: int) -> charts.Chart | None:
    if not metrics.totals.finished:
        return None
    points = [
        charts.Point(
            span.at.isoformat(timespec="minutes"),
            long(span.at),
            short(span.at),
            span.counts.finished,
            span.counts.failed,
        )
        for span in metrics.spans
    ]
    return charts.chart_of(points, finding(metrics.spans, long), every)


def _day_and_clock(at: datetime) -> str:
    return pgettext("a day and the time of day", "%(day)s, %(time)s") % {
        "day": wording.day_short(wording.local(at).date()),
        "time": wording.clock_short(at),
    }

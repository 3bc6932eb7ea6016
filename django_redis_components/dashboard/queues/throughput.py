"""Throughput of a queue: sparkline, charts, quantiles, and the time to drain the queue."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.dashboard import charts, formats
from django_redis_components.dashboard.elements import NO_VALUE, Cell, count_cell
from django_redis_components.dashboard.formats import number
from django_redis_components.taskqueue import Histogram, Interval, Metrics, TaskMetrics
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo

#: Size of a sparkline in SVG units: two per minute.
SPARK_WIDTH, SPARK_HEIGHT = 120, 24
#: Least width of a bar of a sparkline without neighbors.
LONE_BAR = 5
#: Intervals between two labels on the axis: minutes, and hours.
MINUTES_PER_LABEL, HOURS_PER_LABEL = 10, 4
#: Lower bound of a histogram's last bucket in seconds; it has no upper bound.
LAST_BUCKET_S = 8_388.0
#: Full minutes from which the rate of completions is computed.
RATE_MINUTES = 5
#: Arrivals per completion above which a queue grows: below it the difference may be chance.
GROWTH = 1.1
#: Age in seconds of the oldest task below which the arrivals are a burst, not a rate.
BURST_S = 60.0
#: Longest drain time that is shown, in seconds.
MAX_DRAIN_S = 30 * 86_400


@dataclasses.dataclass(frozen=True, slots=True)
class TaskMetricsRow:
    """The metrics of one task name in the last hour: labels and cells. `task_name` is "" for the other tasks."""

    name: str
    task_name: str
    cells: list[tuple[str, Cell]]


def task_row(task: TaskMetrics) -> TaskMetricsRow:
    """Return the row of a task name."""
    totals = task.totals
    counts = [count_cell(totals.finished), count_cell(totals.failed, alarming=totals.failed > 0)]
    quantiles = [*quantile_cells(task.wait_time), *quantile_cells(task.run_time)]
    cells = [*counts, count_cell(totals.retried), *quantiles]
    return TaskMetricsRow(task.name or _("Other tasks"), task.name, [*zip(_labels(), cells, strict=True)])


def _labels() -> tuple[str, ...]:
    """Return the labels of the cells of a task name, for narrow pages."""
    counts = (_("Finished"), pgettext("tasks", "Failed"), _("Retries"))
    return (*counts, _("Wait p50"), _("Wait p95"), _("Run time p50"), _("Run time p95"))


def sparkline(intervals: Sequence[Interval]) -> charts.Sparkline:
    """Return the sparkline of intervals."""
    top = max(max(interval.counts.finished for interval in intervals), 1)
    return charts.Sparkline(
        f"0 0 {SPARK_WIDTH} {SPARK_HEIGHT}",
        spark_path([interval.counts.finished for interval in intervals], top),
        spark_path([interval.counts.failed for interval in intervals], top),
        finding(intervals, formats.clock_short),
    )


def spark_path(values: Sequence[int], top: int) -> str:
    """Return bars as one SVG path; a value above zero has at least one unit of height, and a lone one `LONE_BAR`."""
    width, padded = SPARK_WIDTH / len(values), [0, *values, 0]
    parts = []
    for index, value in enumerate(values):
        if value:
            y = min(SPARK_HEIGHT * (1 - value / top), SPARK_HEIGHT - 1)
            wide = width * 0.8 if padded[index] or padded[index + 2] else max(width * 0.8, LONE_BAR)
            x = min(index * width, SPARK_WIDTH - wide)
            parts.append(f"M{x:.4g},{SPARK_HEIGHT}V{y:.1f}h{wide:.2g}V{SPARK_HEIGHT}z")
    return "".join(parts)


def finding(intervals: Sequence[Interval], clock: charts.Clock) -> str:
    """Return the text alternative of a throughput chart."""
    peak = max(intervals, key=lambda interval: interval.counts.finished)
    if not peak.counts.finished:
        return _("No finished tasks.")
    failed = sum(interval.counts.failed for interval in intervals)
    peak_text = _("Peak: %(peak)s (%(time)s)") % {"peak": number(peak.counts.finished), "time": clock(peak.at)}
    failed_text = ngettext("%(count)s failed", "%(count)s failed", failed) % {"count": number(failed)}
    return f"{peak_text} · {failed_text}"


def minutes_chart(metrics: Metrics) -> charts.Chart | None:
    """Return the chart of minutes; None without finished tasks."""
    return _chart(metrics, formats.clock_short, MINUTES_PER_LABEL)


def hours_chart(metrics: Metrics) -> charts.Chart | None:
    """Return the chart of hours; None without finished tasks."""
    return _chart(metrics, formats.day_and_clock, HOURS_PER_LABEL)


def quantile_cells(histogram: Histogram) -> list[Cell]:
    """Return the cells of p50 and p95."""
    return [Cell(quantile_text(histogram.p50)), Cell(quantile_text(histogram.p95))]


def quantile_text(seconds: float | None) -> str:
    """Format a quantile."""
    if seconds is None:
        return NO_VALUE
    text = formats.duration(seconds)
    return _("over %(age)s") % {"age": text} if seconds >= LAST_BUCKET_S else text


def recent_rate(metrics: Metrics) -> float:
    """Return the tasks per minute that finished in the last minutes, the current one included."""
    recent = metrics.intervals[-RATE_MINUTES - 1 :]
    elapsed_s = metrics.at.timestamp() - recent[0].at.timestamp()
    return sum(interval.counts.finished for interval in recent) * 60 / max(elapsed_s, 1.0)


def is_growing(queue: QueueInfo, metrics: Metrics) -> bool:
    """Return whether clearly more tasks arrive than finish. A queue that is paused or not served is not measured."""
    finished = recent_rate(metrics)
    if queue.paused or not finished or not queue.arrival_rate:
        return False
    return queue.arrival_rate > finished * GROWTH and (queue.oldest_age or 0.0) >= BURST_S


def drain_time(queue: QueueInfo, metrics: Metrics) -> str:
    """Format the time until the queue is empty, from the arrivals and completions of the last minutes."""
    if not queue.ready:
        return NO_VALUE
    if queue.paused:
        return pgettext("queue", "paused")
    if is_growing(queue, metrics):
        return pgettext("queue", "growing")
    is_burst = (queue.oldest_age or 0.0) < BURST_S
    net = recent_rate(metrics) - (0.0 if is_burst else queue.arrival_rate or 0.0)
    if net <= 0:
        return pgettext("ETA", "unknown")
    seconds = queue.ready / net * 60
    return _("over 30 days") if seconds > MAX_DRAIN_S else formats.age(seconds)


def _chart(metrics: Metrics, clock: charts.Clock, per_label: int) -> charts.Chart | None:
    if not metrics.totals.finished:
        return None
    points = [
        charts.Point(
            interval.at.isoformat(timespec="minutes"),
            clock(interval.at),
            formats.clock_short(interval.at),
            interval.counts.finished,
            interval.counts.failed,
            _failed_query(interval, metrics.step),
        )
        for interval in metrics.intervals
    ]
    return charts.bar_chart(points, finding(metrics.intervals, clock), per_label)


def _failed_query(interval: Interval, step_s: int) -> str:
    """Return the query of the page of the queue that lists what failed in an interval; "" if nothing did."""
    if not interval.counts.failed:
        return ""
    start, end = interval.at, interval.at + timedelta(seconds=step_s)
    return "?" + urlencode({"state": "failed", "begin": formats.input_time(start), "end": formats.input_time(end)})

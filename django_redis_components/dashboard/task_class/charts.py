"""The charts of a task class: its throughput, and histograms of its run and wait times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.core.chunks import chunks
from django_redis_components.dashboard import charts, formats
from django_redis_components.dashboard.deploy_marks import marked
from django_redis_components.dashboard.elements import Link
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.overview.history import history_page, with_deploys
from django_redis_components.dashboard.queues.throughput import finding
from django_redis_components.taskqueue import Counts, Histogram, Interval
from django_redis_components.taskqueue.stats.deploys import Deploy
from django_redis_components.taskqueue.stats.histogram import bounds_of
from django_redis_components.taskqueue.stats.history import History
from django_redis_components.taskqueue.stats.task_class import RunCounts, TaskClass

#: Minutes of a bar, and bars between two labels of the axis of time.
MINUTES_PER_BAR, BARS_PER_LABEL = 3, 10


def panels(task: TaskClass, deploys: Sequence[Deploy]) -> list[charts.ChartPanel]:
    """Return the panels of the charts of the last 3 hours."""
    return [*marked([_throughput_panel(task)], deploys), *histograms(task.counts)]


def histograms(counts: RunCounts) -> list[charts.ChartPanel]:
    """Return the panels of the histograms."""
    return [
        _histogram("class-run", _("Histogram of run times"), _("Run time"), counts.run_time),
        _histogram("class-wait", _("Histogram of wait times"), pgettext("tasks", "Wait"), counts.wait_time),
    ]


def history(found: History, deploys: Sequence[Deploy]) -> dict[str, Any]:
    """Return the charts of a range of hours."""
    return with_deploys(history_page(found, with_p99=True), deploys) | {"ranges": []}


def range_links(current: str) -> list[Link]:
    """Return the links to the ranges."""
    labels = {
        "3h": pgettext("a range of time", "3 h"),
        "3d": pgettext("a range of time", "3 d"),
        "7d": pgettext("a range of time", "7 d"),
    }
    return [Link(label, name, name == current) for name, label in labels.items()]


def _throughput_panel(task: TaskClass) -> charts.ChartPanel:
    return charts.ChartPanel(
        id="class-throughput",
        title=_("Throughput per 3 minutes, last 3 hours"),
        header=_("Minute"),
        value_label=_("Finished"),
        bad_label=pgettext("tasks", "Failed"),
        note=_("Failed tasks are marked at the foot of each bar."),
        chart=_throughput(task),
    )


def _throughput(task: TaskClass) -> charts.Chart | None:
    if not task.counts.totals.finished:
        return None
    bars = [*_bars(task.intervals)]
    points = [
        charts.Point(bar.at.isoformat(timespec="minutes"), clock, clock, bar.counts.finished, bar.counts.failed)
        for bar in bars
        for clock in [formats.clock_short(bar.at)]
    ]
    return charts.bar_chart(points, finding(bars, formats.clock_short), BARS_PER_LABEL, is_cut=False)


def _bars(minutes: Sequence[Interval]) -> Iterator[Interval]:
    """Yield the minutes of each bar as one interval."""
    for part in chunks(minutes, MINUTES_PER_BAR):
        succeeded, failed = (sum(getattr(each.counts, name) for each in part) for name in ("succeeded", "failed"))
        yield Interval(part[0].at, Counts(succeeded, failed))


def _histogram(slug: str, title: str, header: str, histogram: Histogram) -> charts.ChartPanel:
    return charts.ChartPanel(
        id=slug,
        title=title,
        header=header,
        value_label=_("Runs"),
        bad_label="",
        note=_("Each bar is up to 1.4 times as long as the one before it."),
        chart=_histogram_chart(histogram),
    )


def _histogram_chart(histogram: Histogram) -> charts.Chart | None:
    """Return the chart of the buckets between the first and the last that have any; None without any."""
    used = [bucket for bucket, count in enumerate(histogram.buckets) if count]
    if not used:
        return None
    points = [_point(bucket, histogram.buckets[bucket]) for bucket in range(used[0], used[-1] + 1)]
    most = max(used, key=lambda bucket: histogram.buckets[bucket])
    text = _("Most: %(count)s of %(total)s (%(range)s)") % {
        "count": number(histogram.buckets[most]),
        "total": number(histogram.count),
        "range": _range(most),
    }
    return charts.bar_chart(points, text, max(1, -(-len(points) // 6)), is_last_open=False)


def _point(bucket: int, count: int) -> charts.Point:
    low_s, _high_s = bounds_of(bucket)
    return charts.Point(f"PT{low_s:.3f}S", _range(bucket), formats.duration(low_s), count)


def _range(bucket: int) -> str:
    """Return the bounds of a bucket."""
    low_s, high_s = bounds_of(bucket)
    if not low_s:
        return formats.duration(0)
    if low_s == high_s:
        return _("over %(age)s") % {"age": formats.duration(low_s)}
    return f"{formats.duration(low_s)}–{formats.duration(high_s)}"

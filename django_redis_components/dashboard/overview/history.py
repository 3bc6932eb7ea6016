"""The history of all queues on the overview: two charts of one range, their findings and their data as tables."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.dashboard import charts, formats
from django_redis_components.dashboard.charts import ChartMark
from django_redis_components.dashboard.deploy_marks import marks_of
from django_redis_components.dashboard.elements import Link
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.queues.throughput import quantile_text
from django_redis_components.taskqueue.stats.deploys import Deploy
from django_redis_components.taskqueue.stats.histogram import Histogram
from django_redis_components.taskqueue.stats.history import RANGES, History, HistoryInterval
from django_redis_components.taskqueue.stats.metrics import Counts

#: Most bars of a chart: on a phone more would be narrower than 3 px. Longer charts join two intervals in each bar.
MAX_BARS = 100
#: Intervals between two labels on the axis of time, by the step in seconds: 15 minutes, 4 hours, 2 days, 30 days.
LABEL_EVERY = {60: 15, 600: 24, 1_200: 12, 3_600: 48, 7_200: 24, 86_400: 30}
#: Sizes of the upper chart, and of the lower one with the labels of time.
UPPER, LOWER = charts.Plot("upper", has_days=False), charts.Plot("lower")
#: Hours below which the axis of a range of days has times of the day.
CLOCK_HOURS = 48
#: A value of an interval, for a chart of lines.
Value = Callable[[HistoryInterval], float | None]
#: Returns the URL of what failed from a time until another.
FailedUrl = Callable[[datetime, datetime], str]


@dataclasses.dataclass(frozen=True, slots=True)
class HistoryChart:
    """One of the two charts of a panel, with its own scale.

    Attributes:
        bars, lines: the chart; either bars, or the lines of p50 and p95; none of them without a value above zero.
        is_bad: whether its bars count failures.
        empty: a text instead of the chart.
    """

    id: str
    title: str
    note: str
    bars: charts.Chart | None = None
    lines: charts.LineChart | None = None
    is_bad: bool = False
    empty: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class HistoryRow:
    """A row of a table: the interval's start, and a cell for each column.

    Attributes:
        at: number of the interval in the charts.
        url: of what failed in it, or ""; the link of the last cell.
    """

    at: int
    iso: str
    start: str
    cells: list[str]
    is_open: bool
    url: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class HistoryPanel:
    """A panel: its charts, a sentence about them, and its table.

    Attributes:
        columns: of the table, after that of the times.
        rows: newest first.
        marks: the deploys in the time of the charts.
    """

    id: str
    title: str
    charts: list[HistoryChart]
    finding: str
    columns: list[str]
    rows: list[HistoryRow]
    marks: Sequence[ChartMark] = ()


def history_page(
    history: History, failed_url: FailedUrl = lambda start, end: "", *, with_p99: bool = False
) -> dict[str, Any]:
    """Return the charts of a range. They begin with the first interval in which a task finished.

    Args:
        with_p99: whether durations have a third line, and two more columns.
    """
    first = charts.first_index([each.counts.finished for each in history.intervals])
    shown = _joined(dataclasses.replace(history, intervals=history.intervals[first:]))
    notes = [_("Since %(time)s.") % {"time": _full(history, shown.intervals[0].at)}] if first else []
    return {
        "ranges": range_links(history.range),
        "panels": [_throughput(shown, failed_url), _durations(shown, with_p99=with_p99)]
        if history.totals.finished
        else [],
        "notes": [*(notes if history.totals.finished else []), *_notes(history)],
    }


def with_deploys(page: dict[str, Any], deploys: Sequence[Deploy]) -> dict[str, Any]:
    """Return the charts of a range with the deploys in it. All charts have the intervals of the first one."""
    panels: list[HistoryPanel] = page["panels"]
    marks = marks_of(panels[0].charts[0].bars, deploys) if panels else []
    return page | {"panels": [dataclasses.replace(panel, marks=marks) for panel in panels]}


def range_links(current: str) -> list[Link]:
    """Return the links to the ranges."""
    labels = {
        "1h": pgettext("a range of time", "1 h"),
        "24h": pgettext("a range of time", "24 h"),
        "7d": pgettext("a range of time", "7 d"),
        "90d": pgettext("a range of time", "90 d"),
    }
    return [Link(labels[name], name, name == current) for name in RANGES]


def history_data(history: History) -> dict[str, Any]:
    """Return a range as JSON. Durations are in seconds."""
    missing = history.missing
    return {
        "range": history.range,
        "step": history.step,
        "succeeded": history.totals.succeeded,
        "failed": history.totals.failed,
        **_quantiles(history),
        "missing": missing,
        "intervals": [
            {
                "at": interval.at,
                "succeeded": interval.counts.succeeded,
                "failed": interval.counts.failed,
                **_quantiles(interval),
            }
            for interval in history.intervals
        ],
    }


def _quantiles(metrics: History | HistoryInterval) -> dict[str, Any]:
    return {
        name: {"p50": histogram.p50, "p95": histogram.p95}
        for name, histogram in (("wait_time", metrics.wait_time), ("run_time", metrics.run_time))
    }


def _joined(history: History) -> History:
    """Return the history with two intervals in one if it has more than `MAX_BARS`.

    The longer ones begin at even steps from the last local midnight. The first one may have half the length.
    """
    if len(history.intervals) <= MAX_BARS:
        return history
    step, midnight = 2 * history.step, formats.local(history.at).replace(hour=0, minute=0, second=0, microsecond=0)
    parts = itertools.groupby(history.intervals, lambda each: (each.at - midnight) // timedelta(seconds=step))
    return dataclasses.replace(history, step=step, intervals=[_sum(list(part)) for _number, part in parts])


def _sum(intervals: Sequence[HistoryInterval]) -> HistoryInterval:
    return HistoryInterval(
        intervals[0].at,
        Counts(*_totals(dataclasses.astuple(each.counts) for each in intervals)),
        Histogram(tuple(_totals(each.wait_time.buckets for each in intervals))),
        Histogram(tuple(_totals(each.run_time.buckets for each in intervals))),
    )


def _totals(rows: Iterable[Sequence[int]]) -> Iterable[int]:
    return map(sum, zip(*rows, strict=True))


def _throughput(history: History, failed_url: FailedUrl) -> HistoryPanel:
    every = _per_interval(history.step)
    urls = _failed_urls(history, failed_url)
    finished = _bars(history, lambda each: each.counts.finished, UPPER, _("Finished"), [""] * len(urls))
    return HistoryPanel(
        id="history",
        title=_("Throughput and failures"),
        charts=[
            HistoryChart("history-finished", _("Finished"), every, bars=finished),
            _failed_chart(history, every, urls),
        ],
        finding=_throughput_finding(history),
        columns=[_("Finished"), pgettext("tasks", "Failed")],
        rows=_rows(history, lambda each: [number(each.counts.finished), number(each.counts.failed)], urls),
    )


def _failed_chart(history: History, every: str, urls: Sequence[str]) -> HistoryChart:
    """Return the chart of failures. Without any it is a line of text, not an axis from 0 to 1."""
    title = pgettext("tasks", "Failed")
    if not any(each.counts.failed for each in history.intervals):
        return HistoryChart("history-failed", title, every, is_bad=True, empty=_("No task failed."))
    bars = _bars(history, lambda each: each.counts.failed, LOWER, title, urls)
    return HistoryChart("history-failed", title, every, bars=bars, is_bad=True)


def _failed_urls(history: History, failed_url: FailedUrl) -> list[str]:
    """Return the URL of what failed in each interval, which lasts until the next one begins."""
    starts = [each.at for each in history.intervals]
    ends = [*starts[1:], starts[-1] + timedelta(seconds=history.step)]
    return [
        failed_url(each.at, end) if each.counts.failed else ""
        for each, end in zip(history.intervals, ends, strict=True)
    ]


def _durations(history: History, *, with_p99: bool) -> HistoryPanel:
    shares = ("p50", "p95", "p99") if with_p99 else ("p50", "p95")
    wait: list[Value] = [lambda each, share=share: getattr(each.wait_time, share) for share in shares]  # type: ignore[misc]
    run: list[Value] = [lambda each, share=share: getattr(each.run_time, share) for share in shares]  # type: ignore[misc]
    columns = [_("Wait p50"), _("Wait p95"), _("Wait p99"), _("Run time p50"), _("Run time p95"), _("Run time p99")]
    return HistoryPanel(
        id="history-durations",
        title=_("Wait and run time"),
        charts=[
            _duration_chart(history, "history-wait", pgettext("tasks", "Wait"), wait, UPPER),
            _duration_chart(history, "history-run", _("Run time"), run, LOWER),
        ],
        finding=" · ".join([_peak(history, wait[1], _("Wait p95")), _peak(history, run[1], _("Run time p95"))]),
        columns=columns if with_p99 else [label for label in columns if not label.endswith("p99")],
        rows=_rows(history, lambda each: [quantile_text(value(each)) for value in (*wait, *run)]),
    )


def _duration_chart(
    history: History, chart_id: str, title: str, values: Sequence[Value], plot: charts.Plot
) -> HistoryChart:
    """Return the chart of p50, p95 and perhaps p99 of a duration."""
    if not any(value(each) for value in values for each in history.intervals):
        return HistoryChart(chart_id, title, "", empty=_("%(name)s: not measured") % {"name": title})
    return HistoryChart(chart_id, title, "", lines=_lines(history, values, plot, title))


def _bars(
    history: History,
    value: Callable[[HistoryInterval], int],
    plot: charts.Plot,
    name: str,
    urls: Sequence[str],
) -> charts.Chart:
    points = [
        charts.Point(_iso(each.at), _full(history, each.at), _short(history, each.at), value(each), url=url)
        for each, url in zip(history.intervals, urls, strict=True)
    ]
    peak = max(history.intervals, key=value)
    finding = _("%(name)s: peak %(peak)s (%(time)s)") % {
        "name": name,
        "peak": number(value(peak)),
        "time": _full(history, peak.at),
    }
    return charts.bar_chart(points, finding, LABEL_EVERY[history.step], plot, is_cut=False)


def _lines(history: History, values: Sequence[Value], plot: charts.Plot, name: str) -> charts.LineChart:
    series = [[value(each) for each in history.intervals] for value in values]
    shorts = [_short(history, each.at) for each in history.intervals]
    finding = " · ".join(
        _peak(history, value, f"{name} {share}") for value, share in zip(values, ("p50", "p95", "p99"), strict=False)
    )
    return charts.line_chart(series, shorts, finding, LABEL_EVERY[history.step], plot)


def _throughput_finding(history: History) -> str:
    """Return how many tasks finished and failed, and when most of them did."""
    totals = history.totals
    failed = ngettext("%(count)s failed", "%(count)s failed", totals.failed) % {"count": number(totals.failed)}
    share = formats.percent(totals.failed / totals.finished)
    parts = [_("Finished: %(count)s") % {"count": number(totals.finished)}, f"{failed} ({share})"]
    most = max(history.intervals, key=lambda each: each.counts.finished)
    parts.append(_peak_text(number(most.counts.finished), _full(history, most.at)))
    if totals.failed:
        worst = max(history.intervals, key=lambda each: each.counts.failed)
        parts.append(
            _("Most failures: %(count)s (%(time)s)")
            % {"count": number(worst.counts.failed), "time": _full(history, worst.at)}
        )
    return " · ".join(parts)


def _peak(history: History, value: Value, name: str) -> str:
    """Return the latest and the highest value of a duration."""
    measured = [(found, each.at) for each in history.intervals if (found := value(each)) is not None]
    if not measured:
        return _("%(name)s: not measured") % {"name": name}
    highest, at = max(measured, key=lambda pair: pair[0])
    return _("%(name)s: latest %(latest)s, peak %(peak)s (%(time)s)") % {
        "name": name,
        "latest": quantile_text(measured[-1][0]),
        "peak": quantile_text(highest),
        "time": _full(history, at),
    }


def _peak_text(peak: str, time: str) -> str:
    return _("Peak: %(peak)s (%(time)s)") % {"peak": peak, "time": time}


def _rows(
    history: History, cells: Callable[[HistoryInterval], list[str]], urls: Sequence[str] = ()
) -> list[HistoryRow]:
    """Return the rows of a table, newest first; intervals without a finished task are left out."""
    last = history.intervals[-1]
    rows = [
        HistoryRow(
            index, _iso(each.at), _full(history, each.at), cells(each), each is last, urls[index] if urls else ""
        )
        for index, each in enumerate(history.intervals)
        if each.counts.finished
    ]
    return rows[::-1]


def _notes(history: History) -> list[str]:
    notes = []
    if history.missing:
        start, end = (formats.timestamp(each, history.at).text for each in history.missing)
        notes.append(
            _("Not contained: %(start)s to %(end)s. The active poller adds this time within the next minutes.")
            % {"start": start, "end": end}
        )
    if history.range == "90d":
        notes.append(_("Days are in UTC."))
    return notes


def _per_interval(step: int) -> str:
    """Return the length of a bar's interval in words."""
    return {
        60: _("per minute"),
        600: _("per 10 minutes"),
        1_200: _("per 20 minutes"),
        3_600: _("per hour"),
        7_200: _("per 2 hours"),
        86_400: _("per day"),
    }[step]


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="minutes")


def _full(history: History, at: datetime) -> str:
    """Format the start of an interval; days begin at midnight UTC."""
    if history.range == "90d":
        return formats.day_long(at.date())
    return formats.clock_short(at) if history.range == "1h" else formats.day_and_clock(at)


def _short(history: History, at: datetime) -> str:
    """Format the start of an interval for the axis."""
    if history.range == "90d":
        return formats.day_short(at.date())
    is_days = history.range in ("3d", "7d") and len(history.intervals) * history.step > CLOCK_HOURS * 3_600
    return formats.day_short(formats.local(at).date()) if is_days else formats.clock_short(at)

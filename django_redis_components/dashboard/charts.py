"""Geometry of bar and line charts: where bars, lines and labels are, without colors.

Positions are percentages of the plot, whose height is fixed by the style sheet and whose width is that of its panel.
So labels keep their size, and beside the plot they have the room that their language needs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

from django.utils.translation import gettext as _

from django_redis_components.dashboard import formats

#: Formats the start of an interval.
Clock = Callable[[datetime], str]
#: Width and height of the drawing of lines, which is stretched to the plot.
DRAWING = 1_000
#: Distances of the grid lines of durations, in seconds.
DURATION_TICKS = (
    *(factor * power for power in (0.001, 0.01, 0.1) for factor in (1, 2, 5)),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200),
)
#: Width of a bar relative to its interval, and to the distance of its nearest neighbor if it is widened.
BAR_SHARE, WIDE_SHARE = 0.72, 0.9
#: Least and largest width of a bar in percent: 2 % are 6 px of the plot on a phone. Neighbors limit it.
MIN_BAR, MAX_BAR = 2.0, 8.0
#: Least height of a bar in percent, so that a small value is visible.
MIN_HEIGHT = 1.0
#: Labels of the time axis from which on they are thinned out.
MAX_LABELS = 6
#: Days between two labels on the axis, counted back from the last day.
LABEL_EVERY = 7


@dataclasses.dataclass(frozen=True, slots=True)
class Plot:
    """The size of a chart: "tall", "upper" or "lower", and whether the labels of the time axis are below it."""

    size: str = "tall"
    has_days: bool = True


#: The size of a chart that has a panel for itself.
TALL = Plot()


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """A bar. Positions are strings, because a localized number could contain a comma.

    Attributes:
        cell_x, cell_width: of its interval.
        url: of what failed in the interval, or "".
    """

    x: str
    y: str
    width: str
    height: str
    title: str
    open: bool
    cell_x: str = ""
    cell_width: str = ""
    url: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class AxisLabel:
    """A label of an axis. Narrow screens hide `minor` labels."""

    at: str
    text: str
    minor: bool = False
    last: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ChartRow:
    """A row of the chart's table. `url` is that of what failed in the interval, or ""."""

    iso: str
    day: str
    value: str
    open: bool
    bad: str
    url: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """A bar chart, as the template draws it.

    Attributes:
        size: of the plot, a class of the style sheet.
        count: how many intervals it has.
        finding: the text alternative.
        since: start of the first interval with a value if the chart begins with it, else "".
        lines: labels of the value axis, from the top; days: labels of the time axis.
        rows: the data as a table, newest first.
        bad_bars: the highlighted parts of the bars.
        has_links: whether bars are links.
    """

    size: str
    count: int
    finding: str
    since: str
    bars: list[Bar]
    lines: list[AxisLabel]
    days: list[AxisLabel]
    rows: list[ChartRow]
    bad_bars: list[Bar]
    has_links: bool


@dataclasses.dataclass(frozen=True, slots=True)
class LineChart:
    """A chart of lines on one scale of durations, as the template draws it.

    Attributes:
        size, count, finding: see `Chart`.
        lines: labels of the value axis, from the top; days: labels of the time axis.
        paths: SVG paths in the order of the series, interrupted where there is no value.
        points: values without a neighbor: the number of the series, x and y.
        open_points: the values of the last interval, which is incomplete: x and y.
    """

    size: str
    count: int
    finding: str
    lines: list[AxisLabel]
    days: list[AxisLabel]
    paths: list[str]
    points: list[tuple[int, str, str]]
    open_points: list[tuple[str, str]]


@dataclasses.dataclass(frozen=True, slots=True)
class ChartMark:
    """A vertical line in a chart: its position in percent of the axis of time, and its text."""

    x: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class ChartPanel:
    """A chart with its data as a table.

    Attributes:
        header: of the column of times; `value_label` and `bad_label` of those of the values. Without `bad_label` all
            values are highlighted, and have one column.
        note: what the highlighted parts are.
        chart: None without data.
        marks: what happened in the time of the chart.
    """

    id: str
    title: str
    header: str
    value_label: str
    bad_label: str
    note: str
    chart: Chart | None
    marks: Sequence[ChartMark] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Sparkline:
    """A small chart of minutes: SVG paths of finished and of failed tasks, and a text alternative."""

    view_box: str
    finished: str
    failed: str
    finding: str


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A value and its time: in ISO 8601, in full, and short for the axis.

    Attributes:
        bad: the highlighted part.
        url: of what failed in the interval, or "".
    """

    iso: str
    day: str
    short: str
    value: int
    bad: int = 0
    url: str = ""


def daily_chart(values: Mapping[date, int]) -> Chart:
    """Return the chart of values per day, in order. The last day is incomplete."""
    points = [
        Point(day.isoformat(), formats.day_long(day), formats.day_short(day), value) for day, value in values.items()
    ]
    return bar_chart(points, daily_finding(values), LABEL_EVERY)


def bar_chart(
    points: Sequence[Point],
    finding: str,
    label_every: int,
    plot: Plot = TALL,
    *,
    is_last_open: bool = True,
    is_cut: bool = True,
) -> Chart:
    """Return the chart of points in order, with a label at every `label_every`-th point, counted back from the last.

    An open point is still counted: it is drawn dashed, and the newest is first in the table.

    Args:
        is_cut: whether the chart begins with the first point that has a value.
    """
    first = first_index([point.value for point in points]) if is_cut else 0
    points = points[first:]
    highest = max(1, *(point.value for point in points))
    every = tick(highest)
    top = -(-highest // every) * every
    last = len(points) - 1
    rows = [_row(point, is_open=is_last_open and index == last) for index, point in enumerate(points)]
    bars = _bars([point.value for point in points], top, rows)
    bad_bars = _bars([point.bad for point in points], top, rows)
    return Chart(
        size=plot.size,
        count=len(points),
        finding=finding,
        since=points[0].day if first else "",
        bars=bars,
        lines=[AxisLabel(_y(value, top), formats.short_number(value)) for value in range(top, -1, -every)],
        days=_days([point.short for point in points], label_every, plot),
        rows=rows[::-1] if is_last_open else rows,
        bad_bars=bad_bars,
        has_links=any(bar.url for bar in (*bars, *bad_bars)),
    )


def line_chart(
    series: Sequence[Sequence[float | None]], shorts: Sequence[str], finding: str, label_every: int, plot: Plot = TALL
) -> LineChart:
    """Return the chart of series of durations in seconds, with a point at the middle of each interval.

    Args:
        series: values in order, None where there is none; the last interval is incomplete.
        shorts: the short time of each interval.
    """
    highest = max((value for values in series for value in values if value is not None), default=0.0)
    every = duration_tick(highest)
    ticks = max(1, math.ceil(highest / every))
    top, last = ticks * every, len(shorts) - 1
    return LineChart(
        size=plot.size,
        count=len(shorts),
        finding=finding,
        lines=[
            AxisLabel(_y(number * every, top), formats.axis_duration(number * every)) for number in range(ticks, -1, -1)
        ],
        days=_days(shorts, label_every, plot),
        paths=[_path(values, top) for values in series],
        points=[
            (number, _x(index + 0.5, len(values)), _y(values[index] or 0.0, top))
            for number, values in enumerate(series)
            for index in _lone_indexes(values)
            if index != last
        ],
        open_points=[(_x(last + 0.5, len(values)), _y(values[-1], top)) for values in series if values[-1] is not None],
    )


def first_index(values: Sequence[float]) -> int:
    """Return the index of the first value above zero; that of the last value if there is none."""
    return next((index for index, value in enumerate(values) if value), max(len(values) - 1, 0))


def daily_finding(values: Mapping[date, int]) -> str:
    """Return the text alternative of a daily chart."""
    peak_day = max(values, key=lambda day: values[day])
    today = list(values.values())[-1]
    return _("Peak: %(peak)s (%(day)s) · Today so far: %(today)s") % {
        "peak": formats.number(values[peak_day]),
        "day": formats.day_long(peak_day),
        "today": formats.number(today),
    }


def tick(highest: int) -> int:
    """Return the distance of the grid lines: 1, 2 or 5 times a power of ten, for two to four lines."""
    power = 1
    while power * 20 < highest:
        power *= 10
    return next(factor * power for factor in (1, 2, 5) if factor * power * 4 >= highest)


def duration_tick(highest_s: float) -> float:
    """Return the distance of the grid lines of durations in seconds, for at most four lines."""
    return next((each for each in DURATION_TICKS if each * 4 >= highest_s), math.ceil(highest_s / 4))


def _row(point: Point, *, is_open: bool) -> ChartRow:
    value, bad = formats.number(point.value), formats.number(point.bad)
    return ChartRow(point.iso, point.day, value, is_open, bad, point.url)


def _path(values: Sequence[float | None], top: float) -> str:
    """Return the path of values that have a neighbor, in units of the drawing."""
    parts = []
    for index, value in enumerate(values):
        if value is not None:
            is_connected = index > 0 and values[index - 1] is not None
            x, y = DRAWING * (index + 0.5) / len(values), DRAWING * (1 - value / top)
            parts.append(f"{'L' if is_connected else 'M'}{x:.1f} {y:.1f}")
    return "".join(parts)


def _lone_indexes(values: Sequence[float | None]) -> list[int]:
    padded = [None, *values, None]
    return [
        index
        for index, value in enumerate(values)
        if value is not None and padded[index] is None and padded[index + 2] is None
    ]


def _bars(values: Sequence[int], top: int, rows: Sequence[ChartRow]) -> list[Bar]:
    """Return the bars of the values above zero."""
    indexes = [index for index, value in enumerate(values) if value]
    step = 100 / len(values)
    found = []
    for number, index in enumerate(indexes):
        room = min(
            (abs(index - other) for other in indexes[max(number - 1, 0) : number + 2] if other != index), default=100
        )
        width = min(max(step * BAR_SHARE, MIN_BAR), step * room * WIDE_SHARE, MAX_BAR)
        x = min(max(step * (index + 0.5) - width / 2, 0.0), 100 - width)
        found.append(_bar(x, width, max(100 * values[index] / top, MIN_HEIGHT), step * index, step, rows[index]))
    return found


def _bar(x: float, width: float, height: float, cell_x: float, step: float, row: ChartRow) -> Bar:
    return Bar(
        x=_percent(x),
        y=_percent(100 - height),
        width=_percent(width),
        height=_percent(height),
        title=f"{row.day}: {row.value}",
        open=row.open,
        cell_x=_percent(cell_x),
        cell_width=_percent(step),
        url=row.url,
    )


def _days(shorts: Sequence[str], label_every: int, plot: Plot) -> list[AxisLabel]:
    """Return the labels of the time axis. A short axis has a label at more of its points."""
    if not plot.has_days:
        return []
    last = len(shorts) - 1
    every = next(
        number
        for number in range(1, label_every + 1)
        if label_every % number == 0 and (len(shorts) / number <= MAX_LABELS or number == label_every)
    )
    return [_day(index, shorts[index], last, every) for index in range(last % every, last + 1, every)]


def _day(index: int, text: str, last: int, every: int) -> AxisLabel:
    """Return a label of the time axis. The last one of many is right-aligned; centered, it would be clipped."""
    if index == last and last >= MAX_LABELS:
        return AxisLabel("100%", text, last=True)
    return AxisLabel(_x(index + 0.5, last + 1), text, minor=(last - index) % (every * 2) != 0)


def _x(at: float, count: int) -> str:
    return _percent(100 * at / count)


def _y(value: float, top: float) -> str:
    return _percent(100 * (1 - value / top))


def _percent(value: float) -> str:
    return f"{value:.2f}%"

"""Geometry of bar and line charts: coordinates of bars, lines and labels, without colors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

from django.utils.translation import gettext as _

from django_redis_components.dashboard import formats

#: Formats the start of an interval.
Clock = Callable[[datetime], str]
#: Size in SVG units; the page scales it.
WIDTH, HEIGHT = 600, 200
#: Margins for the value labels, the time labels, and half a line of text.
LEFT, BOTTOM, TOP = 52, 28, 12
#: Distances of the grid lines of durations, in seconds.
DURATION_TICKS = (
    *(factor * power for power in (0.001, 0.01, 0.1) for factor in (1, 2, 5)),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200),
)
#: Width of a bar relative to its interval.
BAR_SHARE = 0.72
#: Days between two labels on the axis, counted back from the last day.
LABEL_EVERY = 7


@dataclasses.dataclass(frozen=True, slots=True)
class Plot:
    """Height of a chart in SVG units, and of the labels of the time axis below; 0: without them."""

    height: int = HEIGHT
    bottom: int = BOTTOM

    def y(self, value: float, top: float) -> float:
        """Return the coordinate of a value; `top` is the highest on the axis."""
        return TOP + (self.height - TOP - max(self.bottom, 1)) * (1 - value / top)


#: The size of a chart that has a panel for itself.
TALL = Plot()


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """A bar. Coordinates are strings, because a localized number could contain a comma."""

    x: str
    y: str
    width: str
    height: str
    title: str
    open: bool


@dataclasses.dataclass(frozen=True, slots=True)
class AxisLabel:
    """A label of an axis. Narrow screens hide `minor` labels."""

    at: str
    text: str
    minor: bool = False
    last: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ChartRow:
    """A row of the chart's table."""

    iso: str
    day: str
    value: str
    open: bool
    bad: str


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """A bar chart, as the template draws it.

    Attributes:
        finding: the text alternative.
        lines: labels of the value axis; days: labels of the time axis.
        rows: the data as a table, newest first.
        bad_bars: the highlighted parts of the bars.
    """

    view_box: str
    left: str
    right: str
    base: str
    label_x: str
    label_y: str
    finding: str
    bars: list[Bar]
    lines: list[AxisLabel]
    days: list[AxisLabel]
    rows: list[ChartRow]
    bad_bars: list[Bar]


@dataclasses.dataclass(frozen=True, slots=True)
class LineChart:
    """A chart of lines on one scale of durations, as the template draws it.

    Attributes:
        finding: the text alternative.
        lines: labels of the value axis; days: labels of the time axis.
        paths: SVG paths in the order of the series, interrupted where there is no value.
        open_points: the values of the last interval, which is incomplete: x and y.
    """

    view_box: str
    left: str
    right: str
    label_x: str
    label_y: str
    finding: str
    lines: list[AxisLabel]
    days: list[AxisLabel]
    paths: list[str]
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
    """A value and its time: in ISO 8601, in full, and short for the axis. `bad` is the highlighted part."""

    iso: str
    day: str
    short: str
    value: int
    bad: int = 0


def daily_chart(values: Mapping[date, int]) -> Chart:
    """Return the chart of values per day, in order. The last day is incomplete."""
    points = [
        Point(day.isoformat(), formats.day_long(day), formats.day_short(day), value) for day, value in values.items()
    ]
    return bar_chart(points, daily_finding(values), LABEL_EVERY)


def bar_chart(
    points: Sequence[Point], finding: str, label_every: int, plot: Plot = TALL, *, is_last_open: bool = True
) -> Chart:
    """Return the chart of points in order, with a label at every `label_every`-th point, counted back from the last.

    An open point is still counted: it is drawn dashed, and the newest is first in the table.
    """
    highest = max(1, *(point.value for point in points))
    every = tick(highest)
    top = -(-highest // every) * every
    step = (WIDTH - LEFT) / len(points)
    last = len(points) - 1
    rows = [
        ChartRow(
            point.iso, point.day, formats.number(point.value), is_last_open and at == last, formats.number(point.bad)
        )
        for at, point in enumerate(points)
    ]
    return Chart(
        view_box=f"0 0 {WIDTH} {plot.height}",
        left=str(LEFT),
        right=str(WIDTH),
        base=_at(plot.y(0, top)),
        label_x=str(LEFT - 8),
        label_y=str(plot.height - 8),
        finding=finding,
        bars=[_bar(at, point.value, step, top, rows[at], plot) for at, point in enumerate(points) if point.value],
        lines=[AxisLabel(_at(plot.y(value, top)), formats.short_number(value)) for value in range(0, top + 1, every)],
        days=_days([point.short for point in points], label_every, plot),
        rows=rows[::-1] if is_last_open else rows,
        bad_bars=[_bar(at, point.bad, step, top, rows[at], plot) for at, point in enumerate(points) if point.bad],
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
    step, top = (WIDTH - LEFT) / len(shorts), ticks * every
    points = [[_point(at, value, step, top, plot) for at, value in enumerate(values)] for values in series]
    return LineChart(
        view_box=f"0 0 {WIDTH} {plot.height}",
        left=str(LEFT),
        right=str(WIDTH),
        label_x=str(LEFT - 8),
        label_y=str(plot.height - 8),
        finding=finding,
        lines=[
            AxisLabel(_at(plot.y(number * every, top)), formats.axis_duration(number * every))
            for number in range(ticks + 1)
        ],
        days=_days(shorts, label_every, plot),
        paths=[_path(each) for each in points],
        open_points=[each[-1] for each in points if each[-1] is not None],
    )


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


def _point(at: int, value: float | None, step: float, top: float, plot: Plot) -> tuple[str, str] | None:
    return None if value is None else (_at(LEFT + step * (at + 0.5)), _at(plot.y(value, top)))


def _path(points: Sequence[tuple[str, str] | None]) -> str:
    """Return the path of points; one without neighbors is a line without length, which a round end makes visible."""
    parts = []
    for before, point in zip([None, *points], points, strict=False):
        if point is not None:
            x, y = point
            parts.append(f"L{x} {y}" if before else f"M{x} {y}h0")
    return "".join(parts)


def _bar(at: int, value: int, step: float, top: int, row: ChartRow, plot: Plot) -> Bar:
    y = min(plot.y(value, top), plot.y(0, top) - 1)  # at least one unit, so that a small value is visible
    return Bar(
        x=_at(LEFT + step * at + step * (1 - BAR_SHARE) / 2),
        y=_at(y),
        width=_at(step * BAR_SHARE),
        height=_at(plot.y(0, top) - y),
        title=f"{row.day}: {row.value}",
        open=row.open,
    )


def _days(shorts: Sequence[str], label_every: int, plot: Plot) -> list[AxisLabel]:
    """Return the labels of the time axis."""
    last, step = len(shorts) - 1, (WIDTH - LEFT) / len(shorts)
    labeled = range(last % label_every, last + 1, label_every) if plot.bottom else ()
    return [_day(at, shorts[at], step, last, label_every) for at in labeled]


def _day(at: int, text: str, step: float, last: int, label_every: int) -> AxisLabel:
    """Return a label of the time axis. The last one is right-aligned; centered, it would be clipped."""
    if at == last:
        return AxisLabel(str(WIDTH), text, last=True)
    return AxisLabel(_at(LEFT + step * (at + 0.5)), text, minor=(last - at) % (label_every * 2) != 0)


def _at(value: float) -> str:
    return f"{value:.1f}"

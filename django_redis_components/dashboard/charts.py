"""The geometry of a bar chart: numbers in, rectangles and lines out. No colour, no style."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

from django.utils.translation import gettext as _

from django_redis_components.dashboard import wording

#: What puts the begin of a bar's time into words.
Clock = Callable[[datetime], str]
#: Size of the drawing in its own units; the page scales it.
WIDTH, HEIGHT = 600, 200
#: Room for the numbers at the left, the days below, and half a line above.
LEFT, BOTTOM, TOP = 52, 28, 12
#: Share of a day's width that its bar takes.
BAR_SHARE = 0.72
#: Days between two days that are named on the axis, counted back from the last.
LABEL_EVERY = 7


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """One day. Coordinates are texts, so that no locale writes a comma into the SVG."""

    x: str
    y: str
    width: str
    height: str
    title: str
    open: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """A label of an axis, and where it stands; `minor` ones are left out on narrow screens."""

    at: str
    text: str
    minor: bool = False
    last: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    iso: str
    day: str
    value: str
    open: bool
    bad: str


@dataclasses.dataclass(frozen=True, slots=True)
class Chart:
    """What the template draws.

    Attributes:
        finding: what the chart shows, in a sentence.
        lines: the marks of the value axis; days: those of the time axis.
        rows: the same numbers for the table, newest first.
        bad_bars: parts of the bars that are marked.
    """

    view_box: str
    left: str
    right: str
    base: str
    label_x: str
    label_y: str
    finding: str
    bars: list[Bar]
    lines: list[Mark]
    days: list[Mark]
    rows: list[Row]
    bad_bars: list[Bar]


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """A value and its time: as a machine reads it, in full, and short for the axis; `bad` is a part of the value."""

    iso: str
    day: str
    short: str
    value: int
    bad: int = 0


def bar_chart(values: Mapping[date, int]) -> Chart:
    """The chart of values by day, in order. The last day is open: it is still being counted."""
    points = [
        Point(day.isoformat(), wording.day_long(day), wording.day_short(day), value) for day, value in values.items()
    ]
    return chart_of(points, finding(values), LABEL_EVERY)


def chart_of(points: Sequence[Point], found: str, label_every: int) -> Chart:
    """The chart of points in order; one of every `label_every` is named on the axis, counted back from the last."""
    highest = max(point.value for point in points)
    every = tick(highest)
    top = -(-highest // every) * every
    step = (WIDTH - LEFT) / len(points)
    last = len(points) - 1
    rows = [
        Row(point.iso, point.day, wording.number(point.value), at == last, wording.number(point.bad))
        for at, point in enumerate(points)
    ]
    return Chart(
        view_box=f"0 0 {WIDTH} {HEIGHT}",
        left=str(LEFT),
        right=str(WIDTH),
        base=_at(_y(0, top)),
        label_x=str(LEFT - 8),
        label_y=str(HEIGHT - 8),
        finding=found,
        bars=[_bar(at, point.value, step, top, rows[at]) for at, point in enumerate(points) if point.value],
        lines=[_line(value, top) for value in range(0, top + 1, every)],
        days=[
            _day(at, point.short, step, last, label_every)
            for at, point in enumerate(points)
            if (last - at) % label_every == 0
        ],
        rows=rows[::-1],
        bad_bars=[_bar(at, point.bad, step, top, rows[at]) for at, point in enumerate(points) if point.bad],
    )


def finding(values: Mapping[date, int]) -> str:
    """What a chart shows, in words."""
    peak_day = max(values, key=lambda day: values[day])
    today = list(values.values())[-1]
    return _("Most: %(most)s on %(day)s. Today until now: %(today)s.") % {
        "most": wording.number(values[peak_day]),
        "day": wording.day_long(peak_day),
        "today": wording.number(today),
    }


def tick(highest: int) -> int:
    """The distance of the value axis's lines, so that there are two to four: 1, 2 or 5 times a power of ten."""
    power = 1
    while power * 20 < highest:
        power *= 10
    return next(factor * power for factor in (1, 2, 5) if factor * power * 4 >= highest)


def _bar(at: int, value: int, step: float, top: int, row: Row) -> Bar:
    y = min(_y(value, top), _y(0, top) - 1)  # a bar of one among millions can still be seen
    return Bar(
        x=_at(LEFT + step * at + step * (1 - BAR_SHARE) / 2),
        y=_at(y),
        width=_at(step * BAR_SHARE),
        height=_at(_y(0, top) - y),
        title=f"{row.day}: {row.value}",
        open=row.open,
    )


def _line(value: int, top: int) -> Mark:
    return Mark(_at(_y(value, top)), wording.short_number(value))


def _day(at: int, text: str, step: float, last: int, label_every: int) -> Mark:
    """The last label ends with the axis: centred below its bar it would stand out of the drawing."""
    if at == last:
        return Mark(str(WIDTH), text, last=True)
    return Mark(_at(LEFT + step * (at + 0.5)), text, minor=(last - at) % (label_every * 2) != 0)


def _y(value: float, top: int) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)


def _at(value: float) -> str:
    return f"{value:.1f}"

"""Geometry and text alternative of charts."""

from __future__ import annotations

import itertools
from datetime import date, timedelta

import pytest
from django.utils import translation

from django_redis_components.dashboard.charts import (
    MAX_BAR,
    MIN_BAR,
    Point,
    bar_chart,
    daily_chart,
    daily_finding,
    line_chart,
    tick,
)

LAST = date(2026, 11, 21)


def share(position: str) -> float:
    """Return the number of a percentage."""
    assert position.endswith("%")
    return float(position[:-1])


def days(*values: int) -> dict[date, int]:
    return {LAST - timedelta(days=len(values) - 1 - at): value for at, value in enumerate(values)}


@pytest.mark.parametrize(
    ("highest", "distance"),
    [(1, 1), (3, 1), (4, 1), (5, 2), (8, 2), (9, 5), (20, 5), (21, 10), (231, 100), (1_272, 500), (10**9, 500_000_000)],
)
def test_grid_lines_are_round_numbers(highest: int, distance: int) -> None:
    assert tick(highest) == distance
    assert 1 <= highest / distance <= 4


def test_bar_heights_are_proportional() -> None:
    chart = daily_chart(days(2, 0, 4, 1))

    heights = [share(bar.height) for bar in chart.bars]
    assert [line.text for line in chart.lines] == ["4", "3", "2", "1", "0"]
    assert [round(height / heights[1], 2) for height in heights] == [0.5, 1.0, 0.25]
    assert all(share(bar.y) + share(bar.height) == pytest.approx(100) for bar in chart.bars)


def test_zero_has_no_bar_but_a_row() -> None:
    chart = daily_chart(days(2, 0, 4))

    assert len(chart.bars) == 2
    assert [row.value for row in chart.rows] == ["4", "0", "2"]


def test_small_value_has_visible_bar() -> None:
    chart = daily_chart(days(1_000_000, 1))

    assert share(chart.bars[1].height) >= 1


@pytest.mark.parametrize("count", [1, 2, 30, 168])
def test_bars_and_labels_fit_the_plot_and_no_bar_covers_another(count: int) -> None:
    chart = daily_chart(days(*range(1, count + 1)))

    edges = [(share(bar.x), share(bar.x) + share(bar.width)) for bar in chart.bars]
    assert all(
        0 <= start < end <= 100.01 and share(bar.y) >= 0 for (start, end), bar in zip(edges, chart.bars, strict=True)
    )
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(edges))
    assert all(0 <= share(day.at) <= 100 for day in chart.days)


def test_lone_bars_of_a_long_axis_are_widened() -> None:
    values = [1, *[0] * 140, 1, 0, 1]

    bars = bar_chart([Point("", "", "", value) for value in values], "", 10).bars

    assert [share(bar.width) for bar in bars] == [MIN_BAR, *[pytest.approx(100 / 144 * 2 * 0.9, abs=0.01)] * 2]
    assert share(bars[0].x) == 0
    assert share(daily_chart(days(5)).bars[0].width) == MAX_BAR


def test_chart_begins_with_its_first_value_and_states_since_when() -> None:
    with translation.override("en"):
        chart, whole = daily_chart(days(*[0] * 20, 3, 0, 1)), daily_chart(days(1, 0, 3))

    assert (chart.count, chart.since) == (3, "Nov. 19, 2026")
    assert [row.value for row in chart.rows] == ["1", "0", "3"]
    assert [day.text for day in chart.days] == ["Nov 19", "Nov 20", "Nov 21"]
    assert (whole.count, whole.since) == (3, "")


def test_lone_value_of_a_line_is_a_point() -> None:
    chart = line_chart([[None, 2.0, None, 1.0]], ["a", "b", "c", "d"], "", 1)

    assert chart.points == [(0, "37.50%", "0.00%")]
    assert chart.open_points == [("87.50%", "50.00%")]


def test_last_day_is_incomplete() -> None:
    chart = daily_chart(days(1, 2, 3))

    assert [bar.open for bar in chart.bars] == [False, False, True]
    assert [row.open for row in chart.rows] == [True, False, False]


def test_every_seventh_day_has_a_label() -> None:
    with translation.override("en"):
        chart = daily_chart(days(*range(30)))

    assert [(day.text, day.minor, day.last) for day in chart.days] == [
        ("Oct 24", False, False),
        ("Oct 31", True, False),
        ("Nov 7", False, False),
        ("Nov 14", True, False),
        ("Nov 21", False, True),
    ]


@pytest.mark.parametrize("language", ["en", "de", "zh-hans", "ar"])
def test_coordinates_are_not_localized(language: str) -> None:
    with translation.override(language):
        chart = daily_chart(days(*range(1_000, 1_030)))

    assert all("," not in text for bar in chart.bars for text in (bar.x, bar.y, bar.width, bar.height, bar.cell_x))


def test_finding_has_peak_and_today() -> None:
    with translation.override("en"):
        assert daily_finding(days(3, 1_204, 7)) == "Peak: 1,204 (Nov. 20, 2026) · Today so far: 7"

"""Geometry and text alternative of charts."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.utils import translation

from django_redis_components.dashboard.charts import HEIGHT, LEFT, WIDTH, daily_chart, daily_finding, tick

LAST = date(2026, 11, 21)


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

    base = float(chart.base)
    heights = [float(bar.height) for bar in chart.bars]
    assert [line.text for line in chart.lines] == ["0", "1", "2", "3", "4"]
    assert [round(height / heights[1], 2) for height in heights] == [0.5, 1.0, 0.25]
    assert all(float(bar.y) + float(bar.height) == pytest.approx(base, abs=0.11) for bar in chart.bars)


def test_zero_has_no_bar_but_a_row() -> None:
    chart = daily_chart(days(2, 0, 4))

    assert len(chart.bars) == 2
    assert [row.value for row in chart.rows] == ["4", "0", "2"]


def test_small_value_has_visible_bar() -> None:
    chart = daily_chart(days(1_000_000, 1))

    assert float(chart.bars[1].height) >= 1


def test_bars_and_labels_fit_the_view_box() -> None:
    chart = daily_chart(days(*range(30)))

    assert all(
        float(bar.x) >= LEFT and float(bar.x) + float(bar.width) <= WIDTH and float(bar.y) >= 0 for bar in chart.bars
    )
    assert all(LEFT <= float(day.at) <= WIDTH for day in chart.days)
    assert float(chart.base) < HEIGHT


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

    assert all("," not in text for bar in chart.bars for text in (bar.x, bar.y, bar.width, bar.height))


def test_finding_has_peak_and_today() -> None:
    with translation.override("en"):
        assert daily_finding(days(3, 1_204, 7)) == "Peak: 1,204 (Nov. 20, 2026) · Today so far: 7"

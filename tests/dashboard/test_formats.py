"""Numbers, ages and times as a reader sees them."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from django.template import Context, Template
from django.utils import timezone, translation

from django_redis_components.dashboard import formats

AT = datetime(2026, 11, 21, 23, 30, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "< 1 s"),
        (0.4, "< 1 s"),
        (1, "1 s"),
        (59.9, "59 s"),
        (60, "1 min 0 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h 0 min"),
        (86_399, "23 h 59 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_age_has_at_most_two_units(seconds: float, text: str) -> None:
    with translation.override("en"):
        assert formats.age(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (10_000, "10k"),
        (12_500, "12.5k"),
        (125_500, "126k"),
        (1_000_000, "1M"),
        (1_500_000, "1.5M"),
        (2_000_000_000, "2G"),
    ],
)
def test_numbers_on_an_axis_are_short(value: int, text: str) -> None:
    with translation.override("en"):
        assert formats.short_number(value) == text


def test_a_percentage_is_rounded_not_cut() -> None:
    with translation.override("en"):
        assert formats.percent(0.0081) == "0.81 %"
    with translation.override("de"):
        assert formats.percent(0.0081) == "0,81 %"


def test_numbers_have_the_marks_of_the_language() -> None:
    with translation.override("en"):
        assert formats.number(1_234_567) == "1,234,567"
    with translation.override("de"):
        assert formats.number(1_234_567) == "1.234.567"


def test_rate_above_zero_is_not_shown_as_zero() -> None:
    with translation.override("en"):
        assert [formats.rate(each) for each in (0.0, 0.03, 0.05, 0.3, 84.2)] == ["0", "< 0.1", "0.1", "0.3", "84"]


def test_times_are_in_the_active_zone() -> None:
    with translation.override("en"), timezone.override("Asia/Shanghai"):
        shown = formats.timestamp(AT, AT)

    assert shown.text == "07:30:05"
    assert shown.iso == "2026-11-21T23:30:05+00:00"
    assert shown.title == "Nov. 22, 2026 07:30:05 (Asia/Shanghai)"


def test_times_of_a_site_without_time_zones_are_those_of_its_time_zone(settings) -> None:
    settings.USE_TZ = False

    with translation.override("en"), timezone.override("Asia/Shanghai"):
        shown = formats.timestamp(AT, AT)

    assert shown.title == "Nov. 22, 2026 00:30:05 (Europe/Berlin)"


def test_timestamp_of_another_day_has_a_date() -> None:
    with translation.override("en"), timezone.override("UTC"):
        assert formats.timestamp(datetime(2026, 11, 20, 8, tzinfo=UTC), AT).text == "Nov. 20, 2026 08:00:00"


def test_days_are_written_as_the_language_writes_them() -> None:
    day = date(2026, 11, 5)

    with translation.override("en"):
        assert (formats.day_long(day), formats.day_short(day)) == ("Nov. 5, 2026", "Nov 5")
    with translation.override("zh-hans"):
        assert (formats.day_long(day), formats.day_short(day)) == ("2026年11月5日", "11月5日")


@pytest.mark.parametrize("name", ["number", "percent", "age", "duration"])
def test_filters_leave_what_is_no_number_as_it_is(name: str) -> None:
    template = Template(f"{{% load redis_components %}}{{{{ value|drc_{name} }}}}")

    shown = [template.render(Context({"value": value})) for value in ("", "n/a", "<b>", None)]

    assert shown == ["", "n/a", "&lt;b&gt;", "–"]


@pytest.mark.parametrize("name", ["class", "traceback", "moment:now"])
def test_missing_text_or_time_is_a_dash(name: str) -> None:
    template = Template(f"{{% load redis_components %}}{{{{ value|drc_{name} }}}}")

    assert template.render(Context({"value": None, "now": AT})) == "–"

"""Days as bits, without a server."""

from __future__ import annotations

from datetime import date

import pytest

from django_redis_components.analytics import bits


def test_offsets_run_from_the_epoch_to_the_last_day() -> None:
    assert bits.offset_of(date(2020, 1, 1)) == 0
    assert bits.offset_of(date(2099, 12, 31)) == 29_219
    assert bits.day_of(29_219) == date(2099, 12, 31)


@pytest.mark.parametrize("day", [date(2019, 12, 31), date(2100, 1, 1)])
def test_day_out_of_range_raises(day: date) -> None:
    with pytest.raises(ValueError, match=rf"^at={day}: expected a day from 2020-01-01 to 2099-12-31\.$"):
        bits.offset_of(day)


def test_first_bit_is_the_highest_of_the_first_byte() -> None:
    assert bits.text_of(b"\x80\x01") == "1000000000000001"
    assert bits.text_of(None) == ""
    assert bits.days_set("0101") == [1, 3]


def test_window_is_clipped_to_the_valid_days() -> None:
    assert bits.window(None, None) == (0, 29_219)
    assert bits.window(date(1999, 1, 1), date(2020, 1, 2)) == (0, 1)
    assert bits.window(date(2099, 12, 31), date(2200, 1, 1)) == (29_219, 29_219)


def test_window_out_of_range_is_empty() -> None:
    for start, end in (
        (date(1999, 1, 1), date(1999, 12, 31)), (date(2200, 1, 1), date(2200, 1, 2)),
        (None, date(1999, 12, 31)), (date(2200, 1, 1), None), (date.max, None), (None, date.min),
    ):  # fmt: skip
        first, last = bits.window(start, end)
        assert last < first


def test_window_with_end_before_start_raises() -> None:
    with pytest.raises(ValueError, match=r"^end=2026-01-01 is before start=2026-01-02\.$"):
        bits.window(date(2026, 1, 2), date(2026, 1, 1))


@pytest.mark.parametrize(
    ("year", "month", "days"), [(2026, 2, 28), (2028, 2, 29), (2026, 4, 30), (2026, 12, 31), (2099, 12, 31)]
)
def test_month_bits_cover_the_days_of_the_month(year: int, month: int, days: int) -> None:
    assert bits.month_bits(year, month) == ((date(year, month, 1) - date(2020, 1, 1)).days, days)


@pytest.mark.parametrize(
    ("text", "offset", "run"),
    [
        ("0111", 3, 3),
        ("0110", 3, 0),
        ("0110", 2, 2),
        ("11", 5, 0),
        ("11", 1, 2),
        ("111", 1, 2),
        ("", 0, 0),
        ("1", -1, 0),
    ],
)
def test_run_up_to_an_offset_is_counted(text: str, offset: int, run: int) -> None:
    assert bits.run_up_to(text, offset) == run


@pytest.mark.parametrize(("text", "run"), [("", 0), ("000", 0), ("1", 1), ("1101110", 3), ("0" * 300 + "1" * 400, 400)])
def test_longest_run_is_counted(text: str, run: int) -> None:
    assert bits.longest_run(text) == run

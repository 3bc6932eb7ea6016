"""Tables for a terminal are aligned in every script and contain no control characters."""

from __future__ import annotations

import pytest

from django_redis_components.management.tables import escape_controls, table, truncate, width


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("mail", 4),
        ("", 0),
        ("邮件", 4),
        ("a邮b", 4),
        ("é", 1),
        ("e\u0301", 1),
        ("ﾒｰﾙ", 3),
        ("メール", 6),
        ("a\u200db", 2),
    ],
)
def test_width_is_measured_in_terminal_columns(text: str, columns: int) -> None:
    assert width(text) == columns


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("fits", 4, "fits"),
        ("too long", 4, "too…"),
        ("邮件队列", 8, "邮件队列"),
        ("邮件队列", 7, "邮件队…"),
        ("邮件队列", 6, "邮件…"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
    ],
)
def test_text_is_cut_to_whole_characters(text: str, columns: int, expected: str) -> None:
    assert truncate(text, columns) == expected
    assert width(truncate(text, columns)) <= columns


def test_columns_are_aligned_in_every_script() -> None:
    lines = table(
        ["QUEUE", "READY", "PAUSED"],
        [("mail", "1,203", "since noon"), ("邮件", "4", ""), ("e\u0301te\u0301", "12", "by 王芳")],
        right={"READY"},
    ).splitlines()

    assert lines == [
        "QUEUE  READY  PAUSED",
        "mail   1,203  since noon",
        "邮件       4",
        "e\u0301te\u0301       12  by 王芳",
    ]
    assert {width(line[: line.index("by")]) for line in lines if "by" in line} == {14}


def test_last_column_is_cut_to_the_terminal() -> None:
    lines = table(["ID", "ERROR"], [("a", "x" * 100), ("b", "列" * 100)], columns=20).splitlines()

    assert lines == ["ID  ERROR", f"a   {'x' * 15}…", f"b   {'列' * 7}…"]
    assert all(width(line) <= 20 for line in lines)


def test_last_column_has_a_minimum_width() -> None:
    lines = table(["A LONG HEADER", "ERROR"], [("a", "x" * 100)], columns=5).splitlines()

    assert lines[1].endswith(" " + "x" * 9 + "…")


def test_headers_are_shown_without_rows() -> None:
    assert table(["A", "B"], []) == "A  B"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("two\nlines\r\tand a tab", "two\\nlines\\r\\tand a tab"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\x9b31m\u2028\ud800", "\\x9b31m\\u2028\\ud800"),
        ("邮件 é שלום ✓", "邮件 é שלום ✓"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert escape_controls(text) == shown
    assert table(["H"], [(text,)]).splitlines() == ["H", shown]

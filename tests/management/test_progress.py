"""Progress bars on a terminal, and without one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_redis_components.management.progress import byte_progress, progress
from tests.management.support import Terminal


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    found = Terminal()
    yield found
    found.close()


def test_bars_on_a_terminal_show_units_and_bytes(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    with progress("days", lambda: 4, "days") as advance:
        advance(4)
    with byte_progress("publish", lambda: 4 * 1024) as advance:
        advance(1024)
        advance(2048, f"{'x' * 50}.log")
    with byte_progress("receive", None) as advance:
        advance(512, "a.log")

    shown = terminal.shown()

    assert "days: 100%" in shown
    assert "4/4" in shown
    assert "3.00k/4.00k" in shown
    assert f"{'x' * 26}.log:  75%" in shown
    assert f"{'x' * 27}.log" not in shown
    assert "a.log: : 512B" in shown


def test_without_a_terminal_nothing_is_shown_and_no_total_is_computed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def total() -> int:
        raise AssertionError("The total is not needed.")

    with (tmp_path / "errors").open("w+") as errors:
        monkeypatch.setattr(sys, "stderr", errors)
        with progress("days", total, "days") as advance:
            advance(1)
        with byte_progress("publish", total) as advance:
            advance(1, "x")

    assert (tmp_path / "errors").read_text() == ""

"""Tests that need a missing program are skipped and reported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.outcomes import Failed

from tests.support.missing import skip_missing

ROOT = Path(__file__).parents[2]

SKIPPING = """
import pytest
from tests.support import skip_missing

@pytest.mark.parametrize("number", [1, 2])
def test_skipping(number):
    skip_missing("no cluster here")

def test_other():
    pytest.skip("not today")
"""


@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["one process", "pytest-xdist"])
def test_skip_is_reported_at_the_end(tmp_path: Path, processes: tuple[str, ...]) -> None:
    skipping = tmp_path / "test_skipping.py"
    skipping.write_text(SKIPPING)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "setup.cfg",
        "-p",
        "tests.conftest",
        *processes,
        str(skipping),
    ]

    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "CI": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert "!!! NOT TESTED (2 tests skipped): no cluster here\n" in ended.stdout
    assert ended.stdout.count("!!!") == 1
    assert ended.returncode == 0


def test_missing_program_fails_the_test_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    with pytest.raises(Failed, match="CI=true and no cluster here"):
        skip_missing("no cluster here")

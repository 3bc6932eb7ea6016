"""A tool that is not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.outcomes import Failed

from tests.support import absence

ROOT = Path(__file__).parents[2]

LACKING = """
import pytest
from tests.support import absent

@pytest.mark.parametrize("number", [1, 2])
def test_lacking(number):
    absent("no cluster here")

def test_other():
    pytest.skip("not today")
"""


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["one", "two"])
def test_what_is_absent_skips_the_test_and_is_told_at_the_end(tmp_path: Path, processes: tuple[str, ...]) -> None:
    lacking = tmp_path / "test_lacking.py"
    lacking.write_text(LACKING)
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
        str(lacking),
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


def test_what_is_absent_fails_the_test_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")

    with pytest.raises(Failed, match="CI=true and no cluster here"):
        absence.absent("no cluster here")

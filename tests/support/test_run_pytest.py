"""What the checks make of tests that fail beside others and pass alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PASSES_ALONE = """
from pathlib import Path

def test_first():
    ran_before = Path("ran").exists()
    Path("ran").touch()
    assert ran_before

def test_second():
    pass
"""
FAILS_ALWAYS = "def test_third():\n    assert False\n"


#: The configuration of this project is strict: an option of a plugin that is switched off is an error.
CONFIGURATION = "[pytest]\naddopts = --strict-config\ncache_dir = .data/pytest\n"


def _run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text(CONFIGURATION)
    command = [sys.executable, "-m", "tests.run_pytest", "-q", "-p", "no:django", *options, "."]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_test_that_passes_alone_is_reported_as_flaky_and_the_run_passes(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(PASSES_ALONE)

    done = _run(tmp_path)

    assert "!!! FLAKY (failed, then passed alone): test_sample.py::test_first" in done.stdout
    assert done.returncode == 0


def test_flaky_test_fails_a_strict_run(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(PASSES_ALONE)

    done = _run(tmp_path, "--strict")

    assert "!!! FLAKY (failed, then passed alone): test_sample.py::test_first" in done.stdout
    assert done.returncode == 1


def test_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(PASSES_ALONE)
    (tmp_path / "test_other.py").write_text(FAILS_ALWAYS)

    done = _run(tmp_path)

    assert "!!! FAILED twice: test_other.py::test_third" in done.stdout
    assert done.returncode == 1


def test_run_without_failures_reports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text("def test_passes():\n    pass\n")

    done = _run(tmp_path)

    assert "!!!" not in done.stdout
    assert done.returncode == 0

"""Tests that run in processes forked after the collection: all are run and reported, whatever becomes of a process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CONFTEST = """
import os
from pathlib import Path

import pytest

@pytest.fixture(scope="package")
def shared():
    with open("shared", "a") as file:
        print("set up in", os.getpid(), file=file)
    yield
    Path("shared ended").touch()
"""
SHARING = "def test_{0}(shared):\n    pass\n"
FAILING = """
import sys

def test_fails():
    print("printed before")
    assert 1 == 2

def test_passes():
    pass
"""
KILLED = """
import os
import signal

def test_before():
    pass

def test_kills_its_process():
    os.kill(os.getpid(), signal.SIGKILL)

def test_after():
    pass
"""


def _run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.forked", "--forks", "3", "-v", *options]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_each_test_is_run_once_and_a_failure_shows_what_it_printed(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"test_{number}.py").write_text(FAILING)

    done = _run(tmp_path)

    assert "20 failed, 20 passed" in done.stdout
    assert len(set(re.findall(r"test_\d+\.py::test_\w+ (?:PASSED|FAILED)", done.stdout))) == 40
    assert done.stdout.count("printed before\n") == 20
    assert "assert 1 == 2" in done.stdout
    assert done.returncode == 1


def test_fixture_of_a_package_is_set_up_in_one_process_and_ended(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(6):
        (tmp_path / f"test_{number}.py").write_text(SHARING.format(number))

    done = _run(tmp_path)

    assert "6 passed" in done.stdout
    assert len((tmp_path / "shared").read_text().splitlines()) == 1
    assert (tmp_path / "shared ended").exists()


def test_test_whose_process_was_killed_has_failed_and_the_rest_are_run(tmp_path: Path) -> None:
    (tmp_path / "test_killed.py").write_text(KILLED)

    done = _run(tmp_path)

    assert "The process of this test has ended with exit code -9." in done.stdout
    assert "FAILED test_killed.py::test_kills_its_process" in done.stdout
    assert "1 failed, 2 passed" in done.stdout


def test_skipped_tests_are_listed_with_their_reasons(tmp_path: Path) -> None:
    (tmp_path / "test_skipped.py").write_text("import pytest\n\ndef test_is_skipped():\n    pytest.skip('no server')\n")

    done = _run(tmp_path, "-rs")

    assert "SKIPPED [1] test_skipped.py:4: no server" in done.stdout
    assert "1 skipped" in done.stdout
    assert done.returncode == 0


def test_run_ends_at_the_first_failure(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"test_{number}.py").write_text(FAILING)

    done = _run(tmp_path, "-x")

    assert "stopping after 1 failures" in done.stdout
    assert "50 failed" not in done.stdout
    assert done.returncode == 1


def test_test_that_ends_the_session_is_an_error_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_exit.py").write_text("import pytest\n\ndef test_exits():\n    pytest.exit('enough')\n")

    done = _run(tmp_path)

    assert "A forked process has ended with an error" in done.stdout + done.stderr
    assert "_pytest.outcomes.Exit: enough" in done.stdout + done.stderr
    assert done.returncode not in (0, 1)


def test_nothing_is_run_when_a_module_cannot_be_collected(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(FAILING)
    (tmp_path / "test_broken.py").write_text("import nothing_like_this\n")

    done = _run(tmp_path)

    assert "1 error during collection" in done.stdout
    assert "passed" not in done.stdout

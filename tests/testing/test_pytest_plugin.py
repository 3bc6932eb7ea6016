"""The fixtures of the pytest plugin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from django_redis_components.testing import assert_enqueued, captured, inline
from tests.support.processes import ROOT, child_environment
from tests.taskqueue.tasks import add

#: The module that the entry point names.
PLUGIN = "django_redis_components.pytest_plugin"

SITE_TESTS = """
from django_redis_components.testing import assert_enqueued
from tests.taskqueue.tasks import add


def test_captured(redis_tasks):
    add.enqueue(1, 2)
    assert_enqueued(add, args=[1, 2])


def test_inline(redis_tasks_inline):
    assert add.enqueue(1, 2).get() == 3


def test_missing(redis_tasks):
    assert_enqueued(add)
"""


def test_redis_tasks_collects_enqueued_tasks(redis_tasks: captured) -> None:
    result = add.enqueue(1, 2)

    assert_enqueued(add, count=1)
    redis_tasks.run()
    assert result.get() == 3


def test_redis_tasks_inline_runs_enqueued_tasks(redis_tasks_inline: inline) -> None:
    assert add.enqueue(1, 2).get() == 3
    assert len(redis_tasks_inline) == 1


def test_fixtures_need_no_conftest(tmp_path: Path) -> None:
    (tmp_path / "test_site.py").write_text(SITE_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", f"--rootdir={tmp_path}", "-c", "/dev/null"]
    done = subprocess.run(
        # As pytest loads the entry point, which an environment that was installed earlier does not have.
        [*command, "-p", "no:cacheprovider", "-p", "no:redis_components", "-p", PLUGIN, str(tmp_path)],
        cwd=ROOT,
        env=child_environment() | {"DJANGO_SETTINGS_MODULE": "tests.settings"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "AssertionError: tests.taskqueue.tasks.add(…) was not enqueued. No task was." in done.stdout


def test_plugin_imports_nothing_of_django_and_little_of_the_package() -> None:
    code = f"import pytest, sys; before = set(sys.modules); import {PLUGIN}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stdout.split() == ["django_redis_components", PLUGIN], done.stderr


def test_only_the_plugin_requires_pytest() -> None:
    code = "import sys; sys.modules['pytest'] = None; import django_redis_components.testing"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")

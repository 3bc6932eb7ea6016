"""System checks of periodic tasks."""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks

from django_redis_components import checks
from django_redis_components.taskqueue import every, registry
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.schedules import schedule as declared
from django_redis_components.taskqueue.schedules.recurrence import CronTimes
from tests.support import Store
from tests.taskqueue.support import taskqueue_settings
from tests.taskqueue.tasks import note


def found() -> list[tuple[str | None, str]]:
    messages = run_checks(tags=[checks.TAG])
    return [(each.id, each.msg) for each in messages if each.id in ("drc.E043", "drc.E044")]


@pytest.fixture
def tasks_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Callable[[str], None]]:
    """Writes the `tasks` module of an app of the site; what it registers is forgotten after the test."""
    before = dict(registry.tasks), dict(declared.schedules)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "nightly_app").mkdir()
    (tmp_path / "nightly_app" / "__init__.py").touch()

    def write(text: str) -> None:
        (tmp_path / "nightly_app" / "tasks.py").write_text(
            f"from django_redis_components.taskqueue import cron, every, task\n{text}"
        )
        importlib.invalidate_caches()
        settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "nightly_app"]

    yield write
    for kept, registered in zip(before, (registry.tasks, declared.schedules), strict=True):
        registered.clear()
        registered.update(kept)
    for name in ("nightly_app", "nightly_app.tasks"):
        sys.modules.pop(name, None)


def test_check_reports_an_invalid_expression(tasks_module: Callable[[str], None]) -> None:
    tasks_module("@cron('0 25 * * *')\n@task\ndef report(): ...\n")

    assert found() == [
        ("drc.E043", "cron '0 25 * * *': hour accepts 0-23; lists (1,2), ranges (1-5) and steps (*/5) of these.")
    ]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("*/100 * * * *", "minute accepts steps of 1 to 60."),
        ("0,5-50/61 * * * *", "minute accepts steps of 1 to 60."),
        ("0 */25 * * *", "hour accepts steps of 1 to 24."),
        ("0 0 * */13 *", "month accepts steps of 1 to 12."),
        ("0 0 * * */8", "day-of-week accepts steps of 1 to 7."),
    ],
)
def test_step_above_the_number_of_values_is_refused(expression: str, problem: str) -> None:
    with pytest.raises(InvalidTask, match=f": {re.escape(problem)}$"):
        CronTimes.of(expression, None)


@pytest.mark.parametrize("expression", ["*/60 */24 */31 */12 */7", "5/15 1-5/2 1,2/3 JAN-DEC/3 SUN-SAT/2", "@hourly"])
def test_steps_up_to_the_number_of_values_are_accepted(expression: str) -> None:
    CronTimes.of(expression, None)


def test_check_names_the_line_of_an_invalid_task(tasks_module: Callable[[str], None], tmp_path: Path) -> None:
    tasks_module("\n@task(max_attempts=None)\ndef report(): ...\n")

    (message,) = [each for each in run_checks(tags=[checks.TAG]) if each.id == "drc.E043"]

    assert message.obj == f"{tmp_path}/nightly_app/tasks.py:3"


def test_check_accepts_a_valid_expression(tasks_module: Callable[[str], None]) -> None:
    tasks_module("@cron('0 5 * * *')\n@task\ndef report(): ...\n")

    assert found() == []
    assert [each.name for each in declared.registered() if "nightly" in each.name] == [
        "nightly_app.tasks.report cron 0 5 * * * (Europe/Berlin)"
    ]


def test_checks_continue_when_a_module_cannot_be_imported(tasks_module: Callable[[str], None]) -> None:
    tasks_module("raise LookupError('no table yet')")

    assert found() == []


def test_check_reports_an_unknown_queue_or_connection(
    redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(declared, "schedules", {})
    taskqueue_settings(settings, QUEUES=["default", "mail"])
    every(60, name="right", args=(1,))(note)
    every(60, name="lost", args=(1,))(note.using(queue_name="mial"))
    every(60, name="far", args=(1,))(dataclasses.replace(note, connection="moon"))

    assert found() == [
        (
            "drc.E044",
            (
                "Schedule 'lost': Queue 'mial' is not in REDIS_COMPONENTS[\"TASKQUEUE\"][\"QUEUES\"]."
                " Declared queues: default, mail. Did you mean 'mail'?"
            ),
        ),
        (
            "drc.E044",
            (
                "Schedule 'far' uses the connection 'moon', which does not exist. "
                'Known aliases in REDIS_COMPONENTS["CONNECTIONS"]: default.'
            ),
        ),
    ]


def test_invalid_settings_are_left_to_the_settings_check(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"TASKQUEUE": {"LEASE": "long"}}

    assert found() == []

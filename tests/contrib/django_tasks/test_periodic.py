"""Schedules of the framework's tasks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from django_redis_components.taskqueue import InvalidTask, every
from django_redis_components.taskqueue.schedules import schedule as declared
from tests.contrib.django_tasks.framework import task_backends
from tests.contrib.django_tasks.shop import tasks
from tests.support import Store
from tests.taskqueue.schedulers import announced, next_round, poller_of
from tests.taskqueue.support import server_ms, work_off


@pytest.fixture(autouse=True)
def _no_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "schedules", {})


def sent(store: Store) -> Any:
    """The result of the task that the only schedule has sent at its last slot."""
    [schedule] = declared.registered()
    due_ms = schedule.recurrence.latest(0, int(server_ms(store))) or 0
    poller = poller_of(schedule)
    announced(poller, store, schedule.name, last_ms=due_ms - 1)
    next_round(poller)
    return task_backends["default"].get_result(schedule.task_id(due_ms))


def test_a_task_of_the_framework_may_have_a_schedule(redis_server: Store) -> None:
    assert every(3_600, args=(2,), kwargs={"b": 3})(tasks.add) is tasks.add

    result = sent(redis_server)
    work_off()

    result.refresh()
    assert (result.status, result.return_value, result.task) == ("SUCCESSFUL", 5, tasks.add)


def test_scheduled_task_is_sent_with_its_options(redis_server: Store) -> None:
    every(3_600, args=(2, 3))(tasks.add.using(priority=5, queue_name="mail"))

    result = sent(redis_server)

    assert (result.task.priority, result.task.queue_name) == (5, "mail")
    assert [job.queue for job in work_off("mail")] == ["mail"]


def test_task_with_run_after_is_refused() -> None:
    with pytest.raises(InvalidTask, match=r"a schedule determines the time; remove run_after\.$"):
        every(60)(tasks.add.using(run_after=datetime(2030, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize("kind", ["immediate", "function"])
def test_task_of_another_backend_is_refused(kind: str, configure: Any) -> None:
    configure()
    foreign = tasks.add.using(backend="immediate") if kind == "immediate" else tasks.add.func

    with pytest.raises(InvalidTask) as raised:
        every(60)(foreign)

    assert str(raised.value).endswith("expected a task. Write @every(60) above @task, not below it.")

"""Tasks of Django's Tasks framework in `captured()`, `inline()` and `drain()`."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.testing import assert_enqueued, captured, drain, inline
from tests.contrib.django_tasks.framework import REDIS, TaskResultStatus
from tests.contrib.django_tasks.shop.tasks import add, add_async, fail, note
from tests.support import Store, run_async


@pytest.fixture(autouse=True)
def _redis_backend(settings: Any) -> None:
    settings.TASKS = {"default": {"BACKEND": REDIS, "QUEUES": [], "OPTIONS": {}}}


def test_django_task_is_captured(redis_tasks: captured) -> None:
    add.enqueue(1, 2)
    run_async(add.using(queue_name="far", priority=5).aenqueue, 3, 4)

    assert_enqueued(add, count=2)
    [far] = assert_enqueued(add, args=[3, 4], queue_name="far")
    assert (far.priority, far.name) == (5, add.module_path)
    with pytest.raises(AssertionError, match=rf"{note.module_path}\(…\) was not enqueued\. 2 tasks were:"):
        assert_enqueued(note)


def test_django_task_runs_inline() -> None:
    with inline():
        result = add.enqueue(2, 3)
        result.refresh()
        assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 5)
        assert add.get_result(result.id) == result
        assert add_async.get_result(add_async.enqueue(1, 1).id).return_value == 2
        assert run_async(read_again).return_value == 9


async def read_again() -> Any:
    result = await add_async.aenqueue(4, 5)
    await result.arefresh()
    return result


def test_django_task_is_drained(redis_server: Store) -> None:
    result = add.enqueue(2, 3)

    drain()

    result.refresh()
    assert result.return_value == 5


def test_retries_of_a_django_task_run_without_delay(settings: Any) -> None:
    settings.TASKS["default"]["OPTIONS"] = {"MAX_ATTEMPTS": 3, "BACKOFF": 60}
    with inline():
        with pytest.raises(LookupError, match=r"^mine$"):
            fail.enqueue("mine")
        [sent] = assert_enqueued(fail, count=1)

        assert len(fail.get_result(sent.id).errors) == 3

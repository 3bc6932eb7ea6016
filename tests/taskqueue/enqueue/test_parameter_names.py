"""A parameter of a task may have any name, also one that the package uses for its own parameters."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from django_redis_components.taskqueue import Unique, chain, task
from tests.support import Store, run_async
from tests.taskqueue.support import running_worker, work_off

NAMES = (
    "self",
    "func",
    "task",
    "args",
    "kwargs",
    "name",
    "cls",
    "run",
    "pid",
    "fn",
    "callable",
    "sender",
    "using",
    "id",
)


@task
def sync_task(
    self: int, func: int, task: int, args: int, kwargs: int, name: int, cls: int, run: int, pid: int, fn: int,
    callable: int, sender: int, using: int, id: int,
) -> list[int]:  # fmt: skip
    """Return what arrives."""
    return [self, func, task, args, kwargs, name, cls, run, pid, fn, callable, sender, using, id]


@task
async def async_task(
    self: int, func: int, task: int, args: int, kwargs: int, name: int, cls: int, run: int, pid: int, fn: int,
    callable: int, sender: int, using: int, id: int,
) -> list[int]:  # fmt: skip
    """Return what arrives, on the event loop."""
    return [self, func, task, args, kwargs, name, cls, run, pid, fn, callable, sender, using, id]


TASKS = pytest.mark.parametrize("made", [sync_task, async_task], ids=["sync", "async"])
ARGUMENTS: dict[str, Any] = {name: number for number, name in enumerate(NAMES)}
VALUES = list(ARGUMENTS.values())


@TASKS
@pytest.mark.django_db(transaction=True)
def test_parameters_may_have_any_name(redis_server: Store, made: Any) -> None:
    results = [
        made.enqueue(**ARGUMENTS),
        run_async(lambda: made.aenqueue(**ARGUMENTS)),
        made.using(unique=Unique(key="{self}:{name}")).enqueue(**ARGUMENTS),
        *made.enqueue_many([((), ARGUMENTS)]),
        *chain(made.si(**ARGUMENTS)).enqueue().results,
    ]
    with transaction.atomic():
        results.append(made.enqueue_on_commit(**ARGUMENTS))

    with running_worker():
        assert [result.get(60) for result in results] == [VALUES] * len(results)


@TASKS
def test_tasks_called_in_this_process_may_have_any_parameter(made: Any) -> None:
    assert made.call(**ARGUMENTS) == VALUES
    assert run_async(lambda: made.acall(**ARGUMENTS)) == VALUES


@TASKS
def test_tasks_run_in_a_thread_may_have_any_parameter(redis_server: Store, made: Any) -> None:
    result = made.enqueue(**ARGUMENTS)

    work_off()

    assert result.get(60) == VALUES

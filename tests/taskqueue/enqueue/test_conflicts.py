"""`on_conflict="delay"` of locks and semaphores inside a task delays it without using an attempt."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.core.exceptions import TaskDelayed
from django_redis_components.locks import Lock, lock
from django_redis_components.semaphores import Semaphore, semaphore
from django_redis_components.taskqueue import task
from tests.support.stores import Store
from tests.taskqueue.support import work_off, work_until_finished


@task
@lock("conflict:{number}", on_conflict="delay")
def alone(number: int) -> int:
    return number


@task
@semaphore("conflicts", limit=1, on_conflict="delay")
async def one_of(number: int) -> int:
    return number


@pytest.mark.parametrize(
    ("delayed", "guard"),
    [(alone, lambda: Lock("conflict:7")), (one_of, lambda: Semaphore("conflicts", 1, blocking=False))],
)
def test_task_that_finds_the_lock_held_is_delayed_and_uses_no_attempt(store: Store, delayed: Any, guard: Any) -> None:
    result = delayed.enqueue(7)

    with guard():
        work_off()
        result.refresh()
        state, attempts = result.state, result.attempts
    work_until_finished(result)

    assert (state, attempts) == ("scheduled", 0)
    assert result.return_value == 7
    assert result.attempts == 1


def test_delay_outside_a_task_raises(redis_server: Store) -> None:
    with Lock("conflict:7"), pytest.raises(TaskDelayed, match="outside a task it is an error"):
        alone(7)

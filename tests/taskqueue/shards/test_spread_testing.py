"""The helpers for sites' tests, with a spread queue."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.taskqueue import Concurrency, chain
from django_redis_components.testing import captured, inline
from tests.support import Store
from tests.taskqueue.tasks import add

sums = add.using(queue_name="events")
limited = sums.using(concurrency=Concurrency(1, key="{a}"))


@pytest.fixture(autouse=True)
def spread(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "TASKQUEUE": {
            "SHARDS": {"default": "default", "b": "default"},
            "QUEUES": {"default": None, "events": ["default", "b"]},
        },
    }


def test_tasks_of_all_shards_are_captured() -> None:
    with captured() as sent:
        for number in range(4):
            for task in (sums, limited, sums.using(unique=True)):
                task.enqueue(number, 1)
        sums.enqueue_many([((number, 1), {}) for number in range(5)])
        limited.enqueue_many([((number, 1), {}) for number in range(5)])

    assert len(sent) == 22


def test_tasks_of_all_shards_run_inline() -> None:
    with inline():
        assert [task.enqueue(number, 1).get() for number in range(4) for task in (sums, limited)] == [
            1,
            1,
            2,
            2,
            3,
            3,
            4,
            4,
        ]
        assert [each.get() for each in sums.enqueue_many([((number, 1), {}) for number in range(3)])] == [1, 2, 3]
        assert chain(sums.s(1, 2), sums.s(3)).enqueue().get() == 6

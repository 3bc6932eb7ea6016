"""Which modules a process loads that only enqueues tasks."""

from __future__ import annotations

import sys

import pytest

from tests.support import Store
from tests.support.processes import Children

pytestmark = pytest.mark.integration

#: Parts of the queue that only workers, supervisors and pollers need.
WORKERS_ONLY = tuple(f"django_redis_components.taskqueue.{name}" for name in ("worker", "supervisor", "forks"))


def send_tasks() -> list[str]:
    """Send tasks, ask for a result, and look at a queue as a web process does; which modules of workers are loaded."""
    from django_redis_components.taskqueue import get_queue
    from tests.taskqueue.tasks import note

    result = note.enqueue(1)
    note.enqueue_many([((2,), {}), ((3,), {})])
    note.using(run_after=60).enqueue(4)
    result.refresh()
    get_queue("default").info()
    result.cancel()
    return sorted(name for name in sys.modules if name.startswith(WORKERS_ONLY))


def test_enqueue_imports_no_worker_module(redis_server: Store, children: Children) -> None:
    child = children.call("tests.taskqueue.enqueue.test_imports:send_tasks", anew=True)

    assert child.result() == []

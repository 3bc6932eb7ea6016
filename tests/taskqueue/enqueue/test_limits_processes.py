"""Limits between processes: concurrent fetches, and a worker that is killed while it has a slot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import Store
from tests.support.processes import Children
from tests.taskqueue.support import Held, kill_processes, processes_of, queue_worker, taskqueue_settings
from tests.taskqueue.tasks import crowd, hold

pytestmark = pytest.mark.unmeasured


def test_eight_processes_never_run_more_than_the_limit(redis_server: Store, children: Children) -> None:
    results = crowd.enqueue_many([((), {})] * 300)
    for _ in range(2):
        queue_worker(children, "--processes", "4", "--threads", "4")

    inside = [result.get(60) for result in results]

    assert max(inside) == 3


def test_slot_of_a_killed_worker_goes_to_its_task_first(redis_server: Store, children: Children, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=1)
    limited = hold.using(concurrency=1)
    first, second = Held(redis_server, "first"), Held(redis_server, "second")
    doomed = queue_worker(children, "--no-poller")
    limited.enqueue("first")
    result = limited.enqueue("second")
    first.started()
    queue_worker(children, "--threads", "2")

    kill_processes([doomed.pid, *processes_of(doomed.pid)])

    first.started(times=2)
    assert second.starts() == 0
    first.release()
    second.started()
    second.release()
    assert result.get(60) == "second"

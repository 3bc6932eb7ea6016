"""A quiet worker finishes its tasks, fetches none, and keeps running."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats import queue_stats
from tests.support import Store, eventually
from tests.support.processes import MEASURED, Children
from tests.taskqueue.support import SITE, Held, is_running, processes_of, queue_worker, taskqueue_settings
from tests.taskqueue.tasks import add, hold


@pytest.fixture(autouse=True)
def _short_lease(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=1.5, GRACE=20)


def states() -> list[str]:
    return [worker.state for worker in run(connections.client(), queue_stats.read_overview(home())).workers]


def test_quiet_worker_finishes_running_tasks_and_fetches_none(redis_server: Store, children: Children) -> None:
    held = Held(redis_server, "a")
    worker = queue_worker(children, "--threads", "2")
    running = hold.enqueue("a")
    pid = held.started()
    eventually(lambda: states() == ["working"])

    worker.signal(signal.SIGUSR1)
    worker.wait_for("Quiet: fetching nothing more; running tasks finish. Send SIGTERM to stop the worker.")
    eventually(lambda: states() == ["quiet"])
    waiting = add.enqueue(2, 3)
    held.release()

    assert running.get(60) == "a"
    waiting.refresh()
    assert (running.attempts, waiting.state) == (1, "ready")
    assert is_running(pid)
    worker.terminate()
    assert worker.wait() == 0
    waiting.refresh()
    assert (waiting.state, waiting.attempts) == ("ready", 0)


def test_idle_worker_is_quiet_at_once(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children)
    assert add.enqueue(1, 2).get(60) == 3

    worker.signal(signal.SIGUSR1)
    worker.signal(signal.SIGUSR1)
    eventually(lambda: states() == ["quiet"])
    waiting = add.enqueue(2, 3)
    queue_worker(children)

    assert waiting.get(60) == 5
    assert worker.returncode is None


def test_a_process_that_dies_while_quiet_is_not_replaced(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children)
    [pid] = eventually(lambda: processes_of(worker.pid))
    worker.signal(signal.SIGUSR1)
    eventually(lambda: states() == ["quiet"])

    os.kill(pid, signal.SIGKILL)

    eventually(lambda: states() == [])
    assert processes_of(worker.pid) == []
    worker.terminate()
    assert worker.wait() == 0


def test_worker_made_quiet_before_it_starts_fetches_nothing(redis_server: Store, children: Children) -> None:
    worker = children.call("tests.taskqueue.processes:worker_quiet_before_its_time", env=SITE | MEASURED)
    worker.wait_for("Quiet: fetching nothing more")

    eventually(lambda: states() == ["quiet"])
    worker.terminate()

    worker.wait_for("done 0")


def test_quiet_burst_worker_waits_for_sigterm(redis_server: Store, children: Children) -> None:
    held = Held(redis_server, "a")
    running = hold.enqueue("a")
    worker = queue_worker(children, "--burst")
    held.started()

    worker.signal(signal.SIGUSR1)
    eventually(lambda: states() == ["quiet"])
    held.release()

    assert running.get(60) == "a"
    eventually(
        lambda: [each.busy for each in run(connections.client(), queue_stats.read_overview(home())).workers] == [0]
    )
    assert worker.returncode is None
    worker.terminate()
    assert worker.wait() == 0

"""The server stalls for longer than a lease, or its clock is stepped; no task of a live worker runs twice."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import components_settings
from tests.support import Store, eventually
from tests.support.clocks import ServerClock
from tests.support.processes import Child, Children
from tests.taskqueue.chaos.conftest import LEASE_S
from tests.taskqueue.chaos.runs import read_runs
from tests.taskqueue.chaos.work import leave_run, released
from tests.taskqueue.support import end_lease, kill_processes, new_fetcher, processes_of
from tests.taskqueue.tasks import note

#: Workers, and tasks that run in each.
WORKERS, THREADS = 2, 60


@pytest.fixture
def own_short(own_server: Store, settings: Any) -> Store:
    return with_short_lease(own_server, settings)


@pytest.fixture
def stepped_short(stepped_server: tuple[Store, ServerClock], settings: Any) -> tuple[Store, ServerClock]:
    with_short_lease(stepped_server[0], settings)
    return stepped_server


def with_short_lease(store: Store, settings: Any) -> Store:
    settings.REDIS_COMPONENTS = components_settings(store) | {"TASKQUEUE": {"LEASE": LEASE_S}}
    return store


def start_worker(children: Children, threads: int = THREADS) -> Child:
    """A worker with an embedded poller."""
    return children.call("tests.taskqueue.chaos.work:worker", threads, [], True)


def run_long_tasks(children: Children, traced: Path) -> tuple[list[Child], list[Any]]:
    """Workers whose threads are all busy, and the results of their tasks."""
    workers = [start_worker(children) for _ in range(WORKERS)]
    results = leave_run.enqueue_many([((number, None), {}) for number in range(WORKERS * THREADS)])
    eventually(lambda: traced.exists() and len(read_runs(traced)) == len(results))
    return workers, results


def lose_a_task(store: Store) -> Callable[[], bool]:
    """Enqueue a task of a dead worker in a separate queue; return a check that a poller has recovered it."""
    queue = f"lost-{time.monotonic_ns()}"
    result = note.using(queue_name=queue).enqueue("lost")
    new_fetcher(queue, worker=f"dead:{queue}").fetch("0", 1)
    end_lease(store, result.id, queue=queue)

    def is_recovered() -> bool:
        result.refresh()
        return result.state == "ready"

    return is_recovered


def assert_each_ran_once(results: list[Any], traced: Path) -> None:
    begun_twice = {number: runs for number, runs in read_runs(traced).items() if len(runs) > 1}
    assert begun_twice == {}
    released().touch()
    for result in results:
        result.get(30)
    assert all(len(runs) == 1 for runs in read_runs(traced).values())


def test_server_stall_longer_than_a_lease_repeats_no_running_task(
    own_short: Store, children: Children, traced: Path
) -> None:
    _, results = run_long_tasks(children, traced)
    server = own_short.servers[0].pid
    for _ in range(3):
        os.kill(server, signal.SIGSTOP)
        stalled_at = time.monotonic()
        eventually(lambda since=stalled_at: time.monotonic() - since > 1.6 * LEASE_S)
        os.kill(server, signal.SIGCONT)
        eventually(lose_a_task(own_short))

    assert_each_ran_once(results, traced)


@pytest.mark.parametrize("step_s", [3_600, -7_200], ids=["forward", "back"])
def test_clock_step_repeats_no_running_task_and_delays_no_recovery(
    stepped_short: tuple[Store, ServerClock], children: Children, traced: Path, step_s: int
) -> None:
    store, clock = stepped_short
    _, results = run_long_tasks(children, traced)
    dead = note.using(queue_name="lost").enqueue("lost before the step")
    new_fetcher("lost", worker="dead:1").fetch("0", 1)

    clock.step(step_s)

    eventually(lambda: (dead.refresh(), dead.state)[1] == "ready")
    eventually(lose_a_task(store))
    assert_each_ran_once(results, traced)


def test_tasks_of_the_only_worker_run_again_although_the_clock_was_set_back_meanwhile(
    stepped_short: tuple[Store, ServerClock], children: Children, traced: Path
) -> None:
    _, clock = stepped_short
    worker = start_worker(children, threads=4)
    result = leave_run.enqueue(1, None)
    eventually(lambda: traced.exists() and len(read_runs(traced)) == 1)
    processes = processes_of(worker.pid)
    worker.kill()
    kill_processes(processes)
    clock.step(-7_200)
    released().touch()

    start_worker(children, threads=4)

    result.get(60)
    assert len(read_runs(traced)[1]) == 2

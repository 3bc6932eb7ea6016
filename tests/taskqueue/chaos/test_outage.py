"""Workers, pollers and producers recover after an outage of the server; no task runs twice."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.taskqueue import TaskResult
from tests.conftest import components_settings
from tests.support.processes import Children
from tests.support.stores import Store
from tests.support.waiting import eventually
from tests.taskqueue.chaos.conftest import LEASE_S
from tests.taskqueue.chaos.process_manager import ProcessManager
from tests.taskqueue.chaos.traces import Traces
from tests.taskqueue.chaos.work import leave_trace

#: Seconds that the server is away: longer than a lease. The full measure is 20.
OUTAGE_S = float(os.environ.get("OUTAGE_S", "3"))
#: Tasks of the run.
TASKS = 300


@pytest.fixture
def site(own_server: Store, settings: Any) -> Store:
    settings.REDIS_COMPONENTS = components_settings(own_server) | {"TASKQUEUE": {"LEASE": LEASE_S}}
    return own_server


def test_outage_loses_and_repeats_no_task(site: Store, children: Children, traced: Path) -> None:
    manager = ProcessManager(children, [], [])
    manager.keep_alive()
    before = _pids(manager)
    results = leave_trace.enqueue_many([((number, 0.05), {}) for number in range(TASKS - 20)])
    results += [leave_trace.using(run_after=0.3 * number).enqueue(TASKS - 20 + number) for number in range(20)]
    eventually(lambda: len(Traces.read(traced).effects) > 40)

    site.servers[0].stop()
    _until(time.monotonic() + OUTAGE_S, _enqueueing_fails_clearly)
    site.servers[0].start()

    eventually(lambda: all(map(_successful, results)))
    traces = Traces.read(traced)
    assert {number: len(pids) for number, pids in traces.effects.items()} == dict.fromkeys(range(TASKS), 1)
    assert _pids(manager) == before, "a process was restarted"


def test_stalled_server_loses_and_repeats_no_task(site: Store, children: Children, traced: Path) -> None:
    manager = ProcessManager(children, [], [])
    manager.keep_alive()
    results = leave_trace.enqueue_many([((number, 0.02), {}) for number in range(TASKS)])
    eventually(lambda: len(Traces.read(traced).effects) > 40)

    os.kill(site.servers[0].pid or 0, signal.SIGSTOP)
    _until(time.monotonic() + OUTAGE_S, lambda: time.sleep(0.05))
    os.kill(site.servers[0].pid or 0, signal.SIGCONT)

    eventually(lambda: all(map(_successful, results)))
    assert {len(pids) for pids in Traces.read(traced).effects.values()} == {1}


def _until(deadline: float, act: Callable[[], object]) -> None:
    while time.monotonic() < deadline:
        act()


def _enqueueing_fails_clearly() -> None:
    with pytest.raises(ConnectionError, match="Connection refused"):
        leave_trace.enqueue(-1)
    time.sleep(0.05)


def _pids(manager: ProcessManager) -> list[int]:
    eventually(manager.worker_processes)
    return manager.worker_processes()


def _successful(result: TaskResult) -> bool:
    if result.state != "successful":
        result.refresh()
    return result.state == "successful"

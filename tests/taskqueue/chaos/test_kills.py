"""Workers and pollers are killed at failpoints and from outside; every accepted task runs."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from django_redis_components.taskqueue import TaskResult, get_queue
from tests.support.processes import Children
from tests.support.stores import Store
from tests.support.waiting import eventually
from tests.taskqueue.chaos.process_manager import ProcessManager
from tests.taskqueue.chaos.traces import Traces
from tests.taskqueue.chaos.work import leave_trace

#: Tasks of the run; half of them are delayed.
TASKS = 2_000
#: Where a process is killed in the long run.
EACH_DEATH = {"after_fetch", "before_run", "after_run", "before_ack", "before_maintain", "after_maintain", "outside"}


def test_kills_lose_no_task_and_explain_each_repeated_run(short_lease: Store, children: Children, traced: Path) -> None:
    points = [["after_fetch", 3], ["before_run", 40], ["after_run", 60], ["before_ack", 90]]
    manager = ProcessManager(children, points, [["before_maintain", 4], ["after_maintain", 2]])
    manager.keep_alive()
    chance = random.Random(7)
    at_once = leave_trace.enqueue_many([((number, chance.uniform(0, 0.01)), {}) for number in range(TASKS // 2)])
    delayed = [
        leave_trace.using(run_after=chance.uniform(0.01, 5.0)).enqueue(number) for number in range(TASKS // 2, TASKS)
    ]

    def half_done() -> bool:
        manager.keep_alive()
        return len(Traces.read(traced).effects) > TASKS // 2

    def all_done() -> bool:
        manager.keep_alive()
        died = {point for point, _ in Traces.read(traced).deaths}
        return died == EACH_DEATH and all(map(_successful, at_once + delayed))

    eventually(half_done)
    manager.kill_supervisor()
    eventually(all_done, timeout_s=240)

    traces = Traces.read(traced)
    points_of_death = Counter(point for point, _ in traces.deaths)
    assert traces.unexplained() == {}
    assert set(traces.starts) == set(range(TASKS))
    assert len(set(get_queue("default").tasks("successful", limit=1_000))) == 1_000
    print(f"{TASKS} of {TASKS} ran; doubles: {len(traces.doubles())}; deaths: {dict(points_of_death)}")


def _successful(result: TaskResult) -> bool:
    if result.state != "successful":
        result.refresh()
    return result.state == "successful"


@pytest.mark.parametrize("point", ["after_fetch", "before_run", "after_run", "before_ack"])
def test_task_runs_again_after_its_worker_died_at_a_failpoint(
    short_lease: Store, children: Children, traced: Path, point: str
) -> None:
    manager = ProcessManager(children, [[point, 1]], [])
    manager.keep_alive()
    result = leave_trace.enqueue(1)

    assert result.get(60) == 1

    traces = Traces.read(traced)
    started_before = {"after_fetch": 1, "before_run": 1, "after_run": 2, "before_ack": 2}
    assert [death for death, _ in traces.deaths] == [point]
    assert len(traces.starts[1]) == started_before[point]
    assert traces.unexplained() == {}
    assert result.runs == 2, "the dead worker and the one that finished"
    assert get_queue("default").tasks("successful") == [result], "an outcome that was sent twice is listed once"


@pytest.mark.parametrize("point", ["before_maintain", "after_maintain"])
def test_crash_of_a_poller_in_a_round_loses_no_task(
    short_lease: Store, children: Children, traced: Path, point: str
) -> None:
    manager = ProcessManager(children, [], [[point, 2]])
    manager.keep_alive()
    results = [leave_trace.using(run_after=0.2 * number).enqueue(number) for number in range(10)]

    def finished() -> bool:
        manager.keep_alive()
        return all(map(_successful, results)) and bool(Traces.read(traced).deaths)

    eventually(finished)

    assert {number: len(pids) for number, pids in Traces.read(traced).starts.items()} == dict.fromkeys(range(10), 1)

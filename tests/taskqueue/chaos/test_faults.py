"""All faults together: SIGKILL every two seconds, stopped processes, closed connections, faults of the server.

The server stalls for longer than a lease, is restarted, and its clock is stepped (if libfaketime is installed).

`make test` runs a tenth of it. All of it: ``CHAOS_TASKS=20000 CHAOS_S=60 pytest tests/taskqueue/chaos/test_faults.py``.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import components_settings
from tests.support import Store, eventually
from tests.support.clocks import ServerClock
from tests.support.pools import close_pools
from tests.support.processes import Children
from tests.support.proxy import Proxy
from tests.taskqueue.chaos.faults import (
    KILL_EVERY_S,
    QUEUES,
    Fault,
    FaultPlan,
    Fleet,
    Producer,
    Stall,
    Stopped,
    restart,
    stall,
)
from tests.taskqueue.chaos.runs import Run, read_forks, read_runs, unexplained
from tests.taskqueue.chaos.work import forks, released
from tests.taskqueue.support import base_key, queue_key

#: Tasks, and the seconds over which they are sent while processes are killed.
TASKS, STORM_S = int(os.environ.get("CHAOS_TASKS", "2000")), float(os.environ.get("CHAOS_S", "12"))
#: Seed of the random choices; the timing differs between runs.
SEED = int(os.environ.get("CHAOS_SEED", "1"))
#: Seconds of a lease, and for which a process is stopped: longer than a lease.
LEASE_S, STOPPED_S = 4.0, 5.5
#: Seconds for which the server stalls, and by which its clock is stepped forward and back.
STALL_S, STEP_S = 6.0, 3_600
#: Tasks that run until another worker has leased them, because their supervisor is stopped: more than a worker has
#: threads.
LONG_TASKS = 12
#: libfaketime lets the server's clock go back by up to some 400 microseconds now and then, without a step: three times
#: in four million scripts, and never without libfaketime. At most JITTERS pairs of tasks differ, by less than this.
JITTER_US, JITTERS = 1_000, 3
#: Share of the replies that the network drops.
LOST_REPLIES = 0.003


@pytest.fixture
def server(request: pytest.FixtureRequest) -> tuple[Store, ServerClock | None]:
    """A server for this test alone, and its clock if it can be stepped."""
    if not ServerClock.is_available():
        return request.getfixturevalue("own_server"), None
    stepped: tuple[Store, ServerClock] = request.getfixturevalue("stepped_server")
    return stepped


@pytest.fixture
def network(server: tuple[Store, ServerClock | None], settings: Any) -> Iterator[Proxy]:
    """A failing network between the server and all clients, and a short lease."""
    store, _ = server
    with Proxy(store.url) as proxy:
        through = components_settings(store) | {"TASKQUEUE": {"LEASE": LEASE_S, "GRACE": 5}}
        settings.REDIS_COMPONENTS = through | {"CONNECTIONS": {"default": {"URL": proxy.url}}}
        yield proxy
        close_pools()


@pytest.fixture
def outcome(server: tuple[Store, ServerClock | None], network: Proxy, children: Children, traced: Path) -> Outcome:
    """Run the faults, wait until all tasks have finished, and return the results."""
    store, clock = server
    fleet, producer = Fleet(children, random.Random(SEED)), Producer(random.Random(SEED))
    eventually(fleet.up)
    found = Outcome(store, fleet, producer, traced)
    plan = _fault_plan(found, network, clock)
    while plan.elapsed_s() < STORM_S:
        plan.run_due()
        fleet.keep_alive()
        producer.send(round(TASKS * min(1.0, plan.elapsed_s() / STORM_S)))
        time.sleep(0.02)
    producer.send(TASKS)
    network.drop_random(0)

    def over() -> bool:
        plan.run_due()
        fleet.keep_alive()
        return found.is_over()

    eventually(over, timeout_s=240)
    return found


class Outcome:
    """The results of a run."""

    def __init__(self, store: Store, fleet: Fleet, producer: Producer, traced: Path) -> None:
        self.store = store
        self.fleet = fleet
        self.producer = producer
        self._traced = traced
        self.killed: Counter[str] = Counter()
        self.stalls: list[Stall] = []
        self.records: dict[int, dict[bytes, bytes]] = {}

    def leases_of(self, pids: set[int]) -> dict[int, bytes]:
        """Return the leases of the long tasks that these processes have started and not finished."""
        runs = self.runs()
        begun = [n for n in self.producer.long if any(run.pid in pids and run.end is None for run in runs.get(n, []))]
        return {number: record[b"L"] for number, record in self._read(begun).items() if b"L" in record}

    def has_passed_on(self, leases: dict[int, bytes]) -> bool:
        """Return whether another worker has leased one of these tasks."""
        records = self._read(list(leases))
        return any(records[number].get(b"L") != lease for number, lease in leases.items())

    def is_over(self) -> bool:
        """Return whether all accepted tasks have finished."""
        for number, record in self._read([n for n in self.producer.sent if n not in self.records]).items():
            if record.get(b"s") in (b"successful", b"failed"):
                self.records[number] = record
        return len(self.records) == len(self.producer.sent)

    def records_now(self) -> dict[int, dict[bytes, bytes]]:
        """Return the current records."""
        return self._read(list(self.producer.sent))

    def runs(self) -> dict[int, list[Run]]:
        return read_runs(self._traced)

    def faults(self) -> list[Fault]:
        """Return the faults of this test, and the processes that a supervisor killed as stalled."""
        taken = re.findall(r"Worker process (\d+) sends no heartbeat", self.fleet.output())
        return self.fleet.faults + [Fault("taken for dead", int(pid), 0.0) for pid in taken]

    def late_finishers(self) -> int:
        return self.fleet.output().count("was discarded: its lease had expired")

    def left(self) -> dict[str, int]:
        """Return the sizes of the lists that must be empty at the end."""
        sizes: dict[str, int] = {}
        for queue in QUEUES:
            for part, size in (("requeued", "llen"), ("ready", "llen"), ("scheduled", "zcard"), ("running", "zcard")):
                sizes[f"{queue} {part}"] = getattr(self.store.raw, size)(queue_key(self.store, part, queue))
        return {place: size for place, size in sizes.items() if size}

    def _read(self, numbers: list[int]) -> dict[int, dict[bytes, bytes]]:
        pipe = self.store.raw.pipeline(transaction=False)
        for number in numbers:
            pipe.hgetall(base_key(self.store, "t", self.producer.sent[number].id))
        return dict(zip(numbers, pipe.execute(), strict=True))


def _fault_plan(found: Outcome, network: Proxy, clock: ServerClock | None) -> FaultPlan:
    plan, fleet = FaultPlan(), found.fleet
    for number in range(1, int(STORM_S / KILL_EVERY_S) + 1):
        plan.at(number * KILL_EVERY_S, lambda: found.killed.update([fleet.kill_one()]))
        plan.at(number * KILL_EVERY_S + 1, network.cut)

    def stop_process() -> None:
        stopped = fleet.stop("process")
        if stopped is None:
            plan.retry_soon(stop_process)
        else:
            plan.at(plan.elapsed_s() + STOPPED_S, lambda: resume_process(stopped))

    def begin_long_tasks() -> None:
        """Enqueue them again if the call raised."""
        sent = found.producer.send_long(LONG_TASKS)
        plan.retry_soon(stop_supervisor if sent else begin_long_tasks)

    def stop_supervisor() -> None:
        runs = found.runs()
        stopped = fleet.stop("worker") if all(number in runs for number in found.producer.long) else None
        if stopped is None:
            plan.retry_soon(stop_supervisor)
            return
        leases = found.leases_of(stopped.pids)
        plan.at(plan.elapsed_s() + STOPPED_S, lambda: go_on(stopped, leases))

    def go_on(stopped: Stopped, leases: dict[int, bytes]) -> None:
        """Let its processes finish, after other workers have leased their tasks."""
        if not found.has_passed_on(leases):
            plan.retry_soon(lambda: go_on(stopped, leases))
            return
        released().touch()
        resume_process(stopped)

    def resume_process(stopped: Stopped) -> None:
        stopped.resume(LEASE_S)
        plan.at(plan.elapsed_s() + LEASE_S, stopped.end)

    network.drop_random(LOST_REPLIES, SEED)
    plan.at(0.5, begin_long_tasks)
    plan.at(3.0, stop_process)
    _add_faults_of_the_server(plan, found, network, clock)
    return plan


def _add_faults_of_the_server(plan: FaultPlan, found: Outcome, network: Proxy, clock: ServerClock | None) -> None:
    server = found.store.servers[0]

    def stall_server() -> None:
        kill_at = [time.monotonic() + after_s for after_s in (1.5, 4.5)]

        def kill_meanwhile() -> None:
            found.fleet.keep_alive()
            if kill_at and time.monotonic() >= kill_at[0]:
                del kill_at[0]
                found.killed.update([found.fleet.kill_one()])

        found.stalls.append(stall(server, STALL_S, kill_meanwhile))

    def set_clock_back() -> None:
        """Step back when no delayed task waits: it would keep its time, and wait for an hour."""
        found.producer.delays = False
        if any("scheduled" in place for place in found.left()):
            plan.retry_soon(set_clock_back)
        elif clock is not None:
            clock.step(-STEP_S)
            found.producer.delays = True

    plan.at(STORM_S * 0.7, lambda: restart(server, network))
    plan.at(STORM_S * 0.8, stall_server)
    if clock is not None:
        plan.at(STORM_S * 0.5, lambda: clock.step(STEP_S))
        plan.at(STORM_S * 0.9, set_clock_back)


def test_faults_lose_no_task_and_repeat_only_runs_in_flight(outcome: Outcome) -> None:
    runs, records = outcome.runs(), outcome.records_now()
    doubles = {number: found for number, found in runs.items() if len(found) > 1}
    print(
        f"{len(records)} tasks; killed: {dict(outcome.killed)}; ran again: {len(doubles)};"
        f" late finishers: {outcome.late_finishers()}; sends refused: {outcome.producer.refused}"
    )

    assert [number for number, record in records.items() if record.get(b"s") != b"successful"] == []
    assert [number for number in records if not any(run.end for run in runs.get(number, []))] == []
    assert unexplained(runs, outcome.faults(), outcome.stalls) == {}
    assert outcome.late_finishers() > 0, "no run finished late: the faults were too mild"
    assert _results_of_others(runs, records) == {}
    assert {number: record[b"r"] for number, record in outcome.records.items()} == {
        number: record[b"r"] for number, record in records.items()
    }, "a result has changed after it was there"
    for queue, numbers in outcome.producer.order.items():
        once = [number for number in numbers if b"t" not in records[number]]
        found = _out_of_order(once, records)
        shown = "\n".join(f"{pair.back_us} us: {pair}" for pair in found)
        assert [pair for pair in found if pair.back_us >= JITTER_US] == [], f"{queue}:\n{shown}"
        assert len(found) <= JITTERS, f"{queue}:\n{shown}"
        assert len(once) > len(numbers) / 2, queue
    eventually(lambda: outcome.left() == {})
    children = read_forks(forks())
    assert {child.exit_code for child in children} == {0, 1, 3}, "as tasks end in forked children"
    assert [child for child in children if child.has_run(run for each in runs.values() for run in each)] == []


class Swap(NamedTuple):
    """Two consecutive tasks of which the second was leased before the first."""

    number: int
    record: dict[bytes, bytes]
    next_number: int
    next_record: dict[bytes, bytes]

    @property
    def back_us(self) -> int:
        return int(self.record[b"f"]) - int(self.next_record[b"f"])


def _out_of_order(numbers: list[int], records: dict[int, dict[bytes, bytes]]) -> list[Swap]:
    """Return the consecutive tasks that were leased in the wrong order.

    A difference of more than half a clock step is the clock step.
    """
    pairs = [Swap(number, records[number], after, records[after]) for number, after in pairwise(numbers)]
    return [pair for pair in pairs if 0 < pair.back_us < STEP_S * 500_000]


def _results_of_others(runs: dict[int, list[Run]], records: dict[int, dict[bytes, bytes]]) -> dict[int, Any]:
    """Return the results that are not of the run that started last, but of one whose lease had expired."""
    kept = {number: record[b"r"].decode().strip('"') for number, record in records.items()}
    return {number: (kept[number], runs[number]) for number in kept if kept[number] != runs[number][-1].name}

"""The faults of the chaos test: processes are killed, stopped and replaced while the network and the server fail."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import signal
import time
from collections.abc import Callable

from redis.exceptions import RedisError

from django_redis_components.taskqueue import TaskResult
from tests.support.processes import Child, Children
from tests.support.proxy import Proxy
from tests.taskqueue.chaos.work import leave_run
from tests.taskqueue.support import processes_of
from tools.localserver import LocalServer

#: Worker supervisors, processes of each, and pollers.
SUPERVISORS, PROCESSES, POLLERS = 2, 2, 2
#: Seconds between two kills.
KILL_EVERY_S = 2.0
#: Seconds of an ordinary task, at most.
LONGEST_S = 0.06
#: In strict order.
QUEUES = ("high", "default", "low")


@dataclasses.dataclass
class Fault:
    """A fault of a process that runs tasks, and the time in which it may lose leases because of it.

    Attributes:
        begin, end: monotonic seconds; the end is infinite for a dead process and for a fault that has not ended.
    """

    what: str
    pid: int
    begin: float
    end: float = float("inf")


@dataclasses.dataclass
class Stall:
    """A time in which the server did not answer; monotonic seconds."""

    begin: float
    end: float


class Fleet:
    """The processes of a run. It replaces processes that exit, as a process manager does."""

    def __init__(self, children: Children, chance: random.Random) -> None:
        self._children = children
        self._chance = chance
        self._running: dict[str, Child] = {}
        self._all: list[Child] = []
        self.faults: list[Fault] = []
        #: Stopped processes and their children. Their leases are to expire, so they are not killed meanwhile.
        self._spared: set[int] = set()

    def keep_alive(self) -> None:
        roles = [(f"worker {n}", "faulty_worker") for n in range(SUPERVISORS)]
        for role, function in roles + [(f"poller {n}", "faulty_poller") for n in range(POLLERS)]:
            child = self._running.get(role)
            if child is None or child.returncode is not None:
                self._running[role] = self._children.call(f"tests.taskqueue.chaos.work:{function}")
                self._all.append(self._running[role])

    def up(self) -> bool:
        """Return whether all processes that run tasks are running."""
        self.keep_alive()
        return len(self.victims("process")) == SUPERVISORS * PROCESSES

    def victims(self, kind: str) -> list[int]:
        """Return the pids of a kind: "worker" (a supervisor), "poller", or "process" (one that runs tasks)."""
        if kind == "process":
            return [pid for supervisor in self.victims("worker") for pid in processes_of(supervisor)]
        living = [child for role, child in self._running.items() if role.startswith(kind) and child.returncode is None]
        return [child.pid for child in living]

    def kill_one(self) -> str:
        """Kill a random process (SIGKILL), and return its kind."""
        kind = self._chance.choices(["process", "worker", "poller"], [4, 2, 2])[0]
        pids = [pid for pid in self.victims(kind) if pid not in self._spared]
        if not pids:
            return "none"
        pid = self._chance.choice(pids)
        self._note("killed", pid, kind)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return kind

    def stop(self, kind: str) -> Stopped | None:
        """Stop a process (SIGSTOP), if there is one. It is not killed until it is resumed."""
        pids = [pid for pid in self.victims(kind) if pid not in self._spared]
        if not pids:
            return None
        pid = self._chance.choice(pids)
        faults = self._note("stopped", pid, kind)
        try:
            os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:  # its supervisor has killed it meanwhile
            return None
        return Stopped(pid, faults, self._spared)

    def output(self) -> str:
        """Return the output of all processes, in the order of their starts."""
        return "\n".join(child.output for child in self._all)

    def _note(self, what: str, pid: int, kind: str) -> list[Fault]:
        """Note a fault. That of a supervisor affects its processes: their leases are not renewed."""
        hit = processes_of(pid) if kind == "worker" else [pid]
        faults = [Fault(f"{kind} {what}", each, time.monotonic()) for each in hit if kind != "poller"]
        self.faults += faults
        return faults


class Stopped:
    """A stopped process, and the faults that this causes."""

    def __init__(self, pid: int, faults: list[Fault], spared: set[int]) -> None:
        self._pid = pid
        self._faults = faults
        self._spared = spared
        self._spared |= self.pids | {pid}

    @property
    def pids(self) -> set[int]:
        return {fault.pid for fault in self._faults}

    def resume(self, lease_s: float) -> None:
        """Resume it (SIGCONT). It is not killed for another lease, in which it notices its lost leases (see `end`)."""
        for fault in self._faults:
            fault.end = time.monotonic() + lease_s
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGCONT)

    def end(self) -> None:
        """Allow to kill it again."""
        self._spared -= self.pids | {self._pid}


class Producer:
    """Enqueues numbered tasks evenly over the run, through the failing network.

    Attributes:
        sent: number to result, of each task that was accepted.
        order: numbers of each queue's undelayed tasks as they were sent.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._next = 0
        self.sent: dict[int, TaskResult] = {}
        self.order: dict[str, list[int]] = {queue: [] for queue in QUEUES}
        self.long: list[int] = []
        #: Number of calls that raised: their tasks may run or not.
        self.refused = 0
        #: Whether to delay some tasks. A delayed task keeps its time when the clock is set back.
        self.delays = True

    def send(self, upto: int) -> None:
        """Enqueue tasks up to this number, in bulk; every tenth batch is delayed."""
        while self._next < upto:
            queue = self._chance.choice(QUEUES)
            numbers = list(range(self._next, min(upto, self._next + 20)))
            self._next += len(numbers)
            calls = [((number, self._chance.uniform(0, LONGEST_S)), {}) for number in numbers]
            delayed = self._chance.random() < 0.1 and self.delays
            task = leave_run.using(queue_name=queue, **({"run_after": self._chance.uniform(0, 3)} if delayed else {}))
            self._send(lambda calls=calls, task=task: task.enqueue_many(calls), numbers, queue, delayed)

    def send_long(self, count: int) -> bool:
        """Enqueue tasks that run until they are released; return whether they were accepted."""
        self.long = numbers = list(range(self._next, self._next + count))
        self._next += count
        calls = [((number, None), {}) for number in numbers]
        return self._send(lambda: leave_run.using(queue_name="high").enqueue_many(calls), numbers, "high", False)

    def _send(self, send: Callable[[], list[TaskResult]], numbers: list[int], queue: str, delayed: bool) -> bool:
        try:
            results = send()
        except RedisError:
            self.refused += 1
            return False
        self.sent.update(zip(numbers, results, strict=True))
        if not delayed:
            self.order[queue] += numbers
        return True


class FaultPlan:
    """Faults by time, in seconds after the start."""

    def __init__(self) -> None:
        self._plan: list[tuple[float, Callable[[], object]]] = []
        self._started = time.monotonic()

    def at(self, seconds: float, act: Callable[[], object]) -> None:
        self._plan.append((seconds, act))
        self._plan.sort(key=lambda entry: entry[0])

    def retry_soon(self, act: Callable[[], object]) -> None:
        self.at(self.elapsed_s() + 0.3, act)

    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def run_due(self) -> None:
        """Run the faults that are due."""
        while self._plan and self._plan[0][0] <= self.elapsed_s():
            self._plan.pop(0)[1]()


def restart(server: LocalServer, proxy: Proxy) -> None:
    """Shut the server down and start it with its append-only file."""
    server.stop()
    proxy.cut()
    server.start()


def stall(server: LocalServer, seconds: float, meanwhile: Callable[[], object]) -> Stall:
    """Stop the server for some time (SIGSTOP). Connections stay open, and it executes what was sent meanwhile."""
    begin = time.monotonic()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        while time.monotonic() < begin + seconds:
            meanwhile()
            time.sleep(0.05)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    return Stall(begin, time.monotonic())

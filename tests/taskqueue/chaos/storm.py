"""A storm: workers and pollers that are killed, stopped and replaced, while the network and the server fail."""

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
from example_project.localserver import LocalServer
from tests.support.processes import Child, Children
from tests.support.proxy import Proxy
from tests.taskqueue.chaos.work import leave_run
from tests.taskqueue.support import processes_of

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
    """What happened to a process that runs tasks, and for how long it may lose leases by it.

    Attributes:
        begin, end: monotonic seconds; infinite for what has not ended, and for a process that dies.
    """

    what: str
    pid: int
    begin: float
    end: float = float("inf")


@dataclasses.dataclass
class Stall:
    """When the server did not answer; monotonic seconds."""

    begin: float
    end: float


class Fleet:
    """The processes of a run. Those that end are replaced, as a process manager would."""

    def __init__(self, children: Children, chance: random.Random) -> None:
        self._children = children
        self._chance = chance
        self._running: dict[str, Child] = {}
        self._all: list[Child] = []
        self.faults: list[Fault] = []
        #: Stopped ones and their processes: it is their leases that shall end, so nobody kills them meanwhile.
        self._spared: set[int] = set()

    def keep_alive(self) -> None:
        roles = [(f"worker {n}", "storm_worker") for n in range(SUPERVISORS)]
        for role, function in roles + [(f"poller {n}", "storm_poller") for n in range(POLLERS)]:
            child = self._running.get(role)
            if child is None or child.returncode is not None:
                target = f"tests.taskqueue.chaos.work:{function}"
                self._running[role] = self._children.run("-m", "tests.support.child", target)
                self._all.append(self._running[role])

    def up(self) -> bool:
        """Whether all processes that run tasks are there."""
        self.keep_alive()
        return len(self.victims("process")) == SUPERVISORS * PROCESSES

    def victims(self, kind: str) -> list[int]:
        """Pids of a kind: "worker" (a supervisor), "poller", or "process" (one that runs tasks)."""
        if kind == "process":
            return [pid for supervisor in self.victims("worker") for pid in processes_of(supervisor)]
        living = [child for role, child in self._running.items() if role.startswith(kind) and child.returncode is None]
        return [child.pid for child in living]

    def kill_one(self) -> str:
        """kill -9 of any process; the value says of which kind."""
        kind = self._chance.choices(["process", "worker", "poller"], [4, 2, 2])[0]
        pids = [pid for pid in self.victims(kind) if pid not in self._spared]
        if not pids:
            return "nobody"
        pid = self._chance.choice(pids)
        self._note("killed", pid, kind)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return kind

    def stop(self, kind: str) -> Stopped | None:
        """SIGSTOP of one, if there is one just now. It is spared until it goes on."""
        pids = [pid for pid in self.victims(kind) if pid not in self._spared]
        if not pids:
            return None
        pid = self._chance.choice(pids)
        stopped = Stopped(pid, self._note("stopped", pid, kind), self._spared)
        os.kill(pid, signal.SIGSTOP)
        return stopped

    def output(self) -> str:
        """What all of them have said, in the order of their starts."""
        return "\n".join(child.output for child in self._all)

    def _note(self, what: str, pid: int, kind: str) -> list[Fault]:
        """A supervisor's fault is one of its processes: nobody renews their leases, and they hand tasks back."""
        hit = processes_of(pid) if kind == "worker" else [pid]
        faults = [Fault(f"{kind} {what}", each, time.monotonic()) for each in hit if kind != "poller"]
        self.faults += faults
        return faults


class Stopped:
    """A process that was stopped, and what that does to processes that run tasks."""

    def __init__(self, pid: int, faults: list[Fault], spared: set[int]) -> None:
        self._pid = pid
        self._faults = faults
        self._spared = spared
        self._spared |= self.pids | {pid}

    @property
    def pids(self) -> set[int]:
        return {fault.pid for fault in self._faults}

    def go_on(self, lease_s: float) -> None:
        """SIGCONT. For a lease it may still find out that others are gone; so long it stays spared (`end`)."""
        for fault in self._faults:
            fault.end = time.monotonic() + lease_s
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGCONT)

    def end(self) -> None:
        """It may be killed again: what it had to tell, it has told."""
        self._spared -= self.pids | {self._pid}


class Producer:
    """Sends numbered tasks evenly over the storm, through the network that fails.

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
        #: Calls that ended in an error: their tasks may run or not.
        self.refused = 0
        #: Whether some tasks are delayed. Those that wait keep their date when the clock is set back.
        self.delays = True

    def send(self, upto: int) -> None:
        """Send until so many numbers are used up: many in bulk, each tenth delayed."""
        while self._next < upto:
            queue = self._chance.choice(QUEUES)
            numbers = list(range(self._next, min(upto, self._next + 20)))
            self._next += len(numbers)
            calls = [((number, self._chance.uniform(0, LONGEST_S)), {}) for number in numbers]
            delayed = self._chance.random() < 0.1 and self.delays
            task = leave_run.using(queue_name=queue, **({"run_after": self._chance.uniform(0, 3)} if delayed else {}))
            self._send(lambda calls=calls, task=task: task.enqueue_many(calls), numbers, queue, delayed)

    def send_long(self, count: int) -> bool:
        """Tasks that run until they are released; whether they were accepted."""
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


class Weather:
    """What happens when, in seconds after the beginning."""

    def __init__(self) -> None:
        self._plan: list[tuple[float, Callable[[], object]]] = []
        self._began = time.monotonic()

    def at(self, seconds: float, act: Callable[[], object]) -> None:
        self._plan.append((seconds, act))
        self._plan.sort(key=lambda entry: entry[0])

    def soon(self, act: Callable[[], object]) -> None:
        self.at(self.elapsed_s() + 0.3, act)

    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def happen(self) -> None:
        """Let happen what is due."""
        while self._plan and self._plan[0][0] <= self.elapsed_s():
            self._plan.pop(0)[1]()


def restart(server: LocalServer, proxy: Proxy) -> None:
    """The server ends in order and comes back with what its append-only file holds."""
    server.stop()
    proxy.cut()
    server.start()


def stall(server: LocalServer, seconds: float, meanwhile: Callable[[], object]) -> Stall:
    """The server stops for some time, connections stay, and goes on with what has been sent to it."""
    begin = time.monotonic()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        while time.monotonic() < begin + seconds:
            meanwhile()
            time.sleep(0.05)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    return Stall(begin, time.monotonic())

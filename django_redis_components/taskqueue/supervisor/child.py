"""A worker process as its supervisor sees it, and what they tell each other; `process` is its own side.

They share a pipe each way. The process writes a beacon (its leases) once a second from its main
thread, and when a task with a hard time limit begins; through the other it gets orders, and when the
supervisor's end of it closes, it stops as if asked to.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import time

from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker import ipc as orders
from django_redis_components.taskqueue.worker.execution import cancelled, killed
from django_redis_components.taskqueue.worker.prefetched import Unbegun
from django_redis_components.taskqueue.worker.time_limits import HardLimit
from django_redis_components.taskqueue.worker.worker import ASYNC_CONCURRENCY

#: Signals that stop a worker; held back while a process is forked.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: What the supervisor sends when running tasks shall have no more time. A second SIGTERM might melt into the first.
STOP_NOW = signal.SIGQUIT
#: Fetch nothing more, finish what runs, and stay.
QUIET = signal.SIGUSR1


@dataclasses.dataclass(frozen=True)
class WorkerOptions:
    """What a worker process is told.

    Attributes:
        queues: names, in strict order unless they have weights.
        weights: one for each queue, or none: see `turns.Turns`.
        threads: tasks that run at the same time in one process.
        async_concurrency: coroutines that run at the same time on its event loop, beside them.
        burst: end when nothing is left to fetch.
        max_tasks, max_memory_mib: see `recycling`; 0 for no limit.
    """

    queues: tuple[str, ...]
    weights: tuple[int, ...] = ()
    threads: int = 1
    burst: bool = False
    max_tasks: int = 0
    max_memory_mib: int = 0
    async_concurrency: int = ASYNC_CONCURRENCY


@dataclasses.dataclass
class Beacon:
    """The last word of a worker process: leases it holds (id to token), tasks running and finished.

    Attributes:
        quiet: it was told to fetch nothing more.
        leaving: why it ends and is to be replaced; empty if it goes on.
        silent_s: seconds for which it should have heard from Redis and did not; None before the first time.
        running: ids of the tasks whose functions run.
        limits: hard time limits of these, by id (`watch.HardLimit`).
        made_at: when, by the monotonic clock, which all processes of a host share.
    """

    leases: dict[str, str]
    busy: int = 0
    finished: int = 0
    quiet: bool = False
    leaving: str = ""
    silent_s: float | None = None
    running: list[str] = dataclasses.field(default_factory=list)
    limits: dict[str, HardLimit] = dataclasses.field(default_factory=dict)
    made_at: float = 0.0

    @classmethod
    def parse(cls, line: bytes) -> Beacon:
        """A beacon from its line."""
        beacon = cls(**json.loads(line))
        beacon.limits = {task_id: HardLimit(*limit) for task_id, limit in beacon.limits.items()}
        return beacon


class Child:
    """A worker process as its supervisor sees it.

    Attributes:
        beacon: what it said last.
        renewed_at: when Redis last heard of it, by the monotonic clock.
        relieved: another has been started in its place already.
        sentence: outcomes of the tasks for whose sake it must end, by id.
        kill_at: when it is killed, if it has not ended by then; by the monotonic clock.
    """

    def __init__(
        self, pid: int, worker_id: str, beacon_fd: int, life_fd: int, options: WorkerOptions, unbegun: Unbegun
    ) -> None:
        self.pid = pid
        self.worker_id = worker_id
        self.unbegun = unbegun
        self.beacon = Beacon({})
        self._beacon_fd = beacon_fd
        self._life_fd = life_fd
        self._options = options
        self._started_at = time.time()
        self._born = self._seen = self.renewed_at = time.monotonic()
        self.relieved = False
        self.sentence: dict[str, Ack] = {}
        self.kill_at = float("inf")
        self._forced: dict[str, tuple[str, float]] = {}
        #: Leases that Redis does not know, and since when; infinity when that was told.
        self._unknown: dict[tuple[str, str], float] = {}
        self._text = b""
        os.set_blocking(beacon_fd, False)
        os.set_blocking(life_fd, False)

    def age_s(self) -> float:
        """Seconds since it was started."""
        return time.monotonic() - self._born

    def read_beacons(self) -> None:
        """Take note of what it has written."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._beacon_fd, 1 << 16):
                self._text += chunk
        *lines, self._text = self._text.split(b"\n")
        if lines:
            self._seen = time.monotonic()
            with contextlib.suppress(ValueError):  # a line that a full pipe cut; the next one is whole
                self.beacon = Beacon.parse(lines[-1])
                self._reprieve()

    def fresh(self, lease_s: float) -> bool:
        """Whether its last beacon is young enough to renew its leases."""
        return time.monotonic() - self._seen < lease_s / 2

    def stalled(self, lease_s: float) -> bool:
        """Whether it must be killed, because its leases end now."""
        return time.monotonic() - self._seen > lease_s * 0.9

    def has_lost(self, task_id: str) -> bool:
        """Whether a lease that Redis does not know any more is lost for certain; True once for each.

        A task that has ended is named until the next beacon. So it is certain only when a beacon that was made after
        the answer of Redis says that the task runs.
        """
        lease = task_id, self.beacon.leases[task_id]
        unknown_since = self._unknown.setdefault(lease, time.monotonic())
        certain = self.beacon.made_at > unknown_since and task_id in self.beacon.running
        if certain:
            self._unknown[lease] = float("inf")
        return certain

    def ask(self) -> None:
        """Have it write a beacon now."""
        orders.give(self._life_fd, "beat")

    def cancel(self, task_id: str, force_s: float) -> None:
        """Have a task interrupted, and end the process if that has not helped after some seconds."""
        token = self.beacon.leases[task_id]
        orders.give(self._life_fd, "cancel", task_id, token)
        force_at = time.monotonic() + force_s
        if task_id in self._forced:
            force_at = min(force_at, self._forced[task_id][1])
        self._forced[task_id] = (token, force_at)

    def moments(self) -> list[float]:
        """When something has to be done about it, by the monotonic clock."""
        limits = [limit.ends_at for task_id, limit in self.beacon.limits.items() if task_id not in self.sentence]
        forced = [at for task_id, (_, at) in self._forced.items() if self._must_end(task_id)]
        return [self.kill_at, *limits, *forced]

    def overdue(self, now: float) -> list[tuple[Ack, str]]:
        """Tasks for whose sake it must end, that it was not told of yet: what becomes of each, and why."""
        found = []
        for task_id, (token, at) in self._forced.items():
            if at <= now and self._must_end(task_id):
                found.append((cancelled(task_id, token), "was cancelled and goes on"))
        for task_id, limit in self.beacon.limits.items():
            if limit.ends_at <= now and task_id not in self.sentence and task_id not in {ack.id for ack, _ in found}:
                ack = killed(task_id, limit.token, limit.limit_s, limit.retry_ms)
                found.append((ack, f"has reached its hard time limit of {limit.limit_s:g} s"))
        return found

    def condemn(self, ack: Ack, kill_at: float) -> None:
        """Tell it to end for the sake of a task whose outcome this will be."""
        self.sentence[ack.id] = ack
        self.kill_at = min(self.kill_at, kill_at)
        orders.give(self._life_fd, "end", ack.id, ack.token)

    def _must_end(self, task_id: str) -> bool:
        return task_id in self.beacon.running and task_id not in self.sentence

    def _reprieve(self) -> None:
        """What has ended by itself needs nobody's end; who obeys writes no more beacons."""
        self._unknown = {lease: at for lease, at in self._unknown.items() if lease in self.beacon.leases.items()}
        self._forced = {task_id: kept for task_id, kept in self._forced.items() if task_id in self.beacon.leases}
        self.sentence = {task_id: ack for task_id, ack in self.sentence.items() if task_id in self.beacon.running}
        if not self.sentence:
            self.kill_at = float("inf")

    def info(self) -> str:
        """What the dashboard shows of it, as JSON."""
        return json.dumps(
            {
                "host": socket.gethostname(),
                "pid": self.pid,
                "queues": self._options.queues,
                "threads": self._options.threads,
                "async_concurrency": self._options.async_concurrency,
                "started_at": round(self._started_at, 3),
                "busy": self.beacon.busy,
                "finished": self.beacon.finished,
                "state": "leaving" if self.beacon.leaving else "quiet" if self.beacon.quiet else "working",
            }
        )

    def signal(self, number: int) -> None:
        """Send it a signal, if it still lives."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def close(self) -> None:
        """Close the supervisor's ends of the pipes."""
        os.close(self._beacon_fd)
        os.close(self._life_fd)

    def ended(self) -> str | None:
        """How it ended ("exit code 0", "signal SIGKILL"), or None while it lives."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        self.read_beacons()
        self.close()
        code = os.waitstatus_to_exitcode(status)
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

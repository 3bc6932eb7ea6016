"""Messages between a supervisor and its worker processes: heartbeats, commands and prefetched leases.

Two pipes connect them. A worker process writes a heartbeat once a second and when a task with a hard time limit
starts. The supervisor writes commands to the other pipe; the worker process stops when the supervisor's end is closed.
Prefetched leases are in shared memory, so the supervisor can read them after the process was killed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import mmap
import os
import struct
import threading
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from django_redis_components.taskqueue.pool import MAX_THREADS
from django_redis_components.taskqueue.stats.worker_reports import WorkerRun
from django_redis_components.taskqueue.store.job import Job

#: Leases noted at most. A lease beyond them counts as started: it costs a delivery if the process dies.
MAX_ENTRIES = 2_048
#: Bytes of an entry: one of length, then number, task id and token. A longer entry is not noted.
ENTRY_BYTES = 256
#: Where one byte of each thread, after the entries, states whether it runs a task.
_THREADS_OFFSET = MAX_ENTRIES * ENTRY_BYTES
#: The number of running coroutines, stored after that.
_COUNT, _COUNT_OFFSET = struct.Struct("=I"), _THREADS_OFFSET + MAX_THREADS


class HardLimit(NamedTuple):
    """When a run is terminated, and the outcome of its task then. A list in JSON.

    Attributes:
        ends_at: on the monotonic clock, which all processes of a host share.
        limit_s: the limit.
        retry_ms: delay of the retry; None if the task fails.
    """

    token: str
    ends_at: float
    limit_s: float
    retry_ms: int | None

    def by_task(self, job: Job) -> Iterator[tuple[str, HardLimit]]:
        """Yield the limit of each task of a job by its id: those of a batch have retries of their own."""
        for task_id, retry_ms in (job.retries_of_batch or {job.id: self.retry_ms}).items():
            yield task_id, self._replace(retry_ms=retry_ms)


@dataclasses.dataclass
class Heartbeat:
    """The state of a worker process.

    Attributes:
        leases: token by task id.
        busy, finished: number of running and of finished tasks.
        quiet: it fetches nothing more.
        restart_reason: why it exits and must be restarted; empty otherwise.
        no_reply_s: seconds without a reply from Redis while one was expected; None before the first reply.
        running: ids of the running tasks.
        hard_limits: hard time limits of these, by id.
        sent_at: on the monotonic clock, which all processes of a host share.
        runs: the tasks that have run longest, `MAX_RUNS` at most.
        lost_threads: number of threads that have died.
        pool: number of the last change of its pool that it has made; 0 without one.
        threads: how many it has after that.
        busy_coroutines: how many of the running tasks are coroutines.
    """

    leases: dict[str, str]
    busy: int = 0
    finished: int = 0
    quiet: bool = False
    restart_reason: str = ""
    no_reply_s: float | None = None
    running: Collection[str] = frozenset()
    hard_limits: dict[str, HardLimit] = dataclasses.field(default_factory=dict)
    sent_at: float = 0.0
    runs: list[WorkerRun] = dataclasses.field(default_factory=list)
    lost_threads: int = 0
    pool: int = 0
    threads: int = 0
    busy_coroutines: int = 0

    @classmethod
    def parse(cls, line: bytes) -> Heartbeat:
        """Parse a line written by `encode`."""
        heartbeat = cls(**json.loads(line))
        heartbeat.running = frozenset(heartbeat.running)  # thousands may be asked for, one by one
        heartbeat.hard_limits = {task_id: HardLimit(*limit) for task_id, limit in heartbeat.hard_limits.items()}
        heartbeat.runs = [WorkerRun(*run) for run in heartbeat.runs]
        return heartbeat

    def encode(self) -> bytes:
        """Return it as a line of JSON."""
        return json.dumps({**vars(self), "running": list(self.running)}).encode() + b"\n"


class ProcessCommand(NamedTuple):
    """A command to a worker process. A list in JSON.

    Attributes:
        verb: "cancel" (interrupt the run), "terminate" (exit because of this task), "heartbeat" (send one now),
            "restart" (fetch nothing more, exit after the running tasks), "stack" (send that of a task), "fleet" (know
            how many worker processes there are) or "pool" (change the pool).
        task_id, token: the run to cancel, or because of which to exit; of a stack the task, and an id of the request.
        reason: of a restart.
        fleet: number of worker processes.
        pool: number of the change, then the values of `Pool`; None of other commands.
    """

    verb: str
    task_id: str = ""
    token: str = ""
    reason: str = ""
    fleet: int = 0
    pool: Sequence[Any] | None = None


class CommandWriter:
    """The supervisor's end of the command pipe. A command may be larger than the pipe: the rest is written later."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._rest = b""

    def send(
        self,
        verb: str,
        task_id: str = "",
        token: str = "",
        *,
        reason: str = "",
        fleet: int = 0,
        pool: Sequence[Any] | None = None,
    ) -> None:
        """Send a `ProcessCommand` to the worker process. It is dropped if the pipe is full or closed."""
        self.flush()
        if not self._rest:
            command = json.dumps(ProcessCommand(verb, task_id, token, reason, fleet, pool)).encode() + b"\n"
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                self._rest = command[os.write(self.fd, command) :]
            self.flush()

    def flush(self) -> None:
        """Write the rest of the last command."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._rest:
                self._rest = self._rest[os.write(self.fd, self._rest) :]


class CommandReader:
    """The worker process's end of the command pipe."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._unread = b""

    def read(self) -> bool:
        """Read what the supervisor has written; return False if the supervisor has exited."""
        chunk = os.read(self.fd, 1 << 16)
        self._unread += chunk
        return bool(chunk)

    def take(self) -> list[ProcessCommand]:
        """Remove and return the commands."""
        *lines, self._unread = self._unread.split(b"\n")
        return [ProcessCommand(*json.loads(line)) for line in lines]


class PrefetchedLeases:
    """Leases whose task has not started, and which threads run a task, in memory shared with the supervisor.

    The supervisor reads them after the process has died. It returns these tasks to their queue without counting a
    delivery, because they cannot have caused the death. A process that died without a running task failed to start.

    Create it before the fork. The length of an entry is written last, so that an incomplete entry is ignored.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _COUNT_OFFSET + _COUNT.size)
        self._free = list(range(MAX_ENTRIES))  # last freed, first used: few pages are touched
        self._offsets: dict[tuple[str, str], int] = {}
        self._numbers = itertools.count()
        self._coroutines = 0
        self._lock = threading.Lock()

    def add(self, task_id: str, token: str) -> None:
        """Note a lease. `read` returns leases in the order in which they were added."""
        entry = f"{next(self._numbers)} {task_id} {token}".encode()
        size = len(entry)
        if size >= ENTRY_BYTES or not self._free:
            return
        try:
            offset = self._free.pop() * ENTRY_BYTES
        except IndexError:  # another thread has taken the last one
            return
        self._memory[offset + 1 : offset + 1 + size] = entry
        self._memory[offset] = size
        self._offsets[task_id, token] = offset

    def remove(self, task_id: str, token: str) -> None:
        """Remove a lease: its task starts, or the lease has ended."""
        offset = self._offsets.pop((task_id, token), None)
        if offset is not None:
            self._memory[offset] = 0
            self._free.append(offset // ENTRY_BYTES)

    def start_run(self, task_id: str, token: str, thread: int | None) -> None:
        """Note that a task starts. Threads need no lock for this: each has its own byte.

        Args:
            thread: number of the thread; None for a coroutine.
        """
        offset = self._offsets.pop((task_id, token), None)
        if offset is not None:
            self._memory[offset] = 0
            self._free.append(offset // ENTRY_BYTES)
        if thread is None:
            self._count_coroutines(1)
        else:
            self._memory[_THREADS_OFFSET + thread] = 1

    def end_run(self, thread: int | None) -> None:
        """Note that a task has finished."""
        if thread is None:
            self._count_coroutines(-1)
        else:
            self._memory[_THREADS_OFFSET + thread] = 0

    def _count_coroutines(self, change: int) -> None:
        with self._lock:
            self._coroutines += change
            _COUNT.pack_into(self._memory, _COUNT_OFFSET, self._coroutines)

    def running(self) -> int:
        """Return the number of running tasks, or of those that ran when the process died."""
        coroutines: int = _COUNT.unpack_from(self._memory, _COUNT_OFFSET)[0]
        return coroutines + self._memory[_THREADS_OFFSET : _THREADS_OFFSET + MAX_THREADS].count(1)

    def read(self) -> list[tuple[str, str]]:
        """Return task id and token of each lease, the oldest first."""
        found = []
        for offset in range(0, MAX_ENTRIES * ENTRY_BYTES, ENTRY_BYTES):
            size = self._memory[offset]
            if size:
                number, task_id, token = self._memory[offset + 1 : offset + 1 + size].decode().split(" ")
                found.append((int(number), task_id, token))
        return [(task_id, token) for _, task_id, token in sorted(found)]

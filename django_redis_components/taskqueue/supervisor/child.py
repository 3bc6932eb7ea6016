"""Worker processes as the supervisor sees them: fork them, read their heartbeats, send them commands."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from django.db import connections as databases

from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue import log_handler
from django_redis_components.taskqueue.log_handler import LogBuffer
from django_redis_components.taskqueue.pool import Pool, PoolChange
from django_redis_components.taskqueue.stats.worker_reports import WorkerReport, WorkerRun
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.store.scripts import FETCH
from django_redis_components.taskqueue.supervisor.child_pool import ChildPool
from django_redis_components.taskqueue.supervisor.measurements import Throughput, resident_bytes
from django_redis_components.taskqueue.worker.execution import cancelled, timed_out
from django_redis_components.taskqueue.worker.ipc import CommandWriter, Heartbeat, PrefetchedLeases
from django_redis_components.taskqueue.worker.prefetch_amount import MAX_PREFETCH
from django_redis_components.taskqueue.worker.process import Closable, run_and_exit
from django_redis_components.taskqueue.worker.process_signals import BLOCKED_SIGNALS, QUIET

#: Bytes of a heartbeat for each task, about; bytes that a pipe holds by default, and at most.
LEASE_BYTES, PIPE_BYTES, MAX_PIPE_BYTES = 128, 1 << 16, 1 << 20


def spawn(pool: ChildPool, using: str, siblings: Sequence[Closable], supervisor: str) -> Child:
    """Fork a worker process.

    Database connections are closed first, so that none is shared. Signals are blocked until the new process has its own
    handlers. The new process closes its siblings' pipes, so that each of them detects the supervisor's exit.

    Args:
        pool: that it starts with.
        supervisor: the supervisor's id. The worker's id starts with it: `cancel` derives the wakeup key from that.

    Raises:
        OSError: the system has no memory, process or file descriptor left. Nothing stays open.
    """
    databases.close_all()
    FETCH.sha  # noqa: B018 - its text is composed here, once: in each new process it would take 20 ms
    options = pool.options()
    worker_id = f"{supervisor}.{secrets.token_hex(3)}"
    with contextlib.ExitStack() as on_error:
        heartbeat_read, heartbeat_write = _open_pipe(on_error)
        _enlarge_pipe(heartbeat_write, pool.current)
        command_read, command_write = _open_pipe(on_error)
        prefetched, log_buffer = PrefetchedLeases(), log_handler.new_buffer()
        if log_buffer is not None:
            on_error.callback(log_buffer.close)
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED_SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:  # pragma: no cover - coverage starts in the new process with the next function
                for fd in (heartbeat_read, command_write):
                    os.close(fd)
                run_and_exit(options, using, worker_id, heartbeat_write, command_read, siblings, prefetched, log_buffer)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED_SIGNALS)
        on_error.pop_all()
    os.close(heartbeat_write)
    os.close(command_read)
    return Child(pid, worker_id, heartbeat_read, command_write, pool, prefetched, log_buffer)


def _open_pipe(on_error: contextlib.ExitStack) -> tuple[int, int]:
    """Open a pipe whose ends this stack closes."""
    ends = os.pipe()
    for fd in ends:
        on_error.callback(os.close, fd)
    return ends


def _enlarge_pipe(fd: int, pool: Pool) -> None:
    """Let the pipe hold a heartbeat of a process with many leases; otherwise it takes a second for each 64 KiB."""
    needed = LEASE_BYTES * (pool.threads + pool.coroutines + MAX_PREFETCH)
    if needed > PIPE_BYTES and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # the system's limit is reached: heartbeats take longer
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, min(needed, MAX_PIPE_BYTES))


class Child:
    """A worker process.

    Attributes:
        heartbeat: its last one.
        heartbeat_at: when it was read, on the monotonic clock.
        started_at: when it was forked, on the monotonic clock.
        renewed_at: when its leases were last renewed, on the monotonic clock.
        is_restarted: whether its successor has been started.
        final_acks: outcomes of the tasks because of which it must exit, by id.
        kill_at: when it is killed if it has not exited, on the monotonic clock.
        stop_by: when it is killed after a request to stop this process alone, on the monotonic clock.
        reported_state: its state in the latest heartbeat; "" before the first.
        is_quiet: whether it was told to fetch nothing more, and to stay.
        pool: its threads, coroutines and queues.
    """

    def __init__(
        self,
        pid: int,
        worker_id: str,
        heartbeat_fd: int,
        command_fd: int,
        pool: ChildPool,
        prefetched: PrefetchedLeases,
        log_buffer: LogBuffer | None = None,
    ) -> None:
        self.pid = pid
        self.worker_id = worker_id
        self.prefetched = prefetched
        self._log_buffer = log_buffer
        self.heartbeat = Heartbeat({})
        self._heartbeat_fd = heartbeat_fd
        self._commands = CommandWriter(command_fd)
        self.pool = pool
        self._started_time = time.time()
        self.started_at = self.heartbeat_at = self.renewed_at = time.monotonic()
        self.is_restarted = False
        self.final_acks: dict[str, Ack] = {}
        self.kill_at = self.stop_by = float("inf")
        self.is_quiet = False
        self.reported_state = ""
        self._restart_reason = ""
        self._spared_at = float("-inf")
        self._fleet = 1
        self._throughput = Throughput()
        #: Cancelled tasks: token, and when the process is terminated if the task still runs.
        self._cancelled: dict[str, tuple[str, float]] = {}
        #: Leases that Redis does not know, and since when; infinity once that was logged.
        self._unknown: dict[tuple[str, str], float] = {}
        self._unread = bytearray()
        os.set_blocking(heartbeat_fd, False)
        os.set_blocking(command_fd, False)

    def age_s(self) -> float:
        """Return the seconds since the fork."""
        return time.monotonic() - self.started_at

    def read_heartbeats(self) -> None:
        """Read what the process has written; write what it has not been sent of a command."""
        self._commands.flush()
        has_end = False
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._heartbeat_fd, 1 << 16):
                self._unread += chunk
                has_end = has_end or b"\n" in chunk
        if has_end:
            *lines, self._unread = self._unread.split(b"\n")
            self.heartbeat_at = time.monotonic()
            with contextlib.suppress(ValueError):  # a line that a full pipe truncated; the next one is complete
                self.heartbeat = Heartbeat.parse(bytes(lines[-1]))
                self._forget_finished_tasks()
                self._repeat_commands()

    def is_sending(self) -> bool:
        """Return whether the rest of a heartbeat follows, which is larger than the pipe."""
        return bool(self._unread)

    def is_fresh(self, lease_s: float) -> bool:
        """Return whether its last heartbeat is recent enough to renew its leases."""
        return time.monotonic() - self.heartbeat_at < lease_s / 2

    def is_stalled(self, lease_s: float) -> bool:
        """Return whether it must be killed because its leases are about to expire."""
        return time.monotonic() - max(self.heartbeat_at, self._spared_at) > lease_s * 0.9

    def spare(self) -> None:
        """Count the time from now on for `is_stalled`: the supervisor was stopped, perhaps with this process."""
        self._spared_at = time.monotonic()

    def has_lost(self, task_id: str) -> bool:
        """Return whether a lease that Redis does not know is certainly lost; True only once for each lease.

        A finished task is listed until the next heartbeat. So it is certain only if a heartbeat that was sent after the
        reply of Redis lists the task as running.
        """
        lease = task_id, self.heartbeat.leases[task_id]
        unknown_since = self._unknown.setdefault(lease, time.monotonic())
        is_certain = self.heartbeat.sent_at > unknown_since and task_id in self.heartbeat.running
        if is_certain:
            self._unknown[lease] = float("inf")
        return is_certain

    def request_heartbeat(self) -> None:
        """Request a heartbeat now."""
        self._commands.send("heartbeat")

    def report_fleet(self, count: int) -> None:
        """Let the process know how many worker processes there are, if that has changed."""
        if count != self._fleet:
            self._fleet = count
            self._commands.send("fleet", fleet=count)

    def request_stack(self, task_id: str, op: str) -> None:
        """Let the process send the stack of a running task to the operator."""
        self._commands.send("stack", task_id, op)

    def quiet(self) -> None:
        """Let the process fetch nothing more, and stay."""
        self.is_quiet = True
        self.signal(QUIET)

    def has_become_quiet(self) -> bool:
        """Return whether a signal of another program, its own task for example, has made it quiet."""
        return self.state() == "quiet" and not self.is_quiet and not self._restart_reason

    def restart(self, reason: str) -> None:
        """Let the process fetch nothing more, and exit after its running tasks; its successor starts at once."""
        self._restart_reason = reason
        self._commands.send("restart", reason=reason)

    def stop(self, kill_at: float) -> None:
        """Let the process exit when its running tasks have finished, or after the grace period."""
        self.stop_by = kill_at
        self.signal(signal.SIGTERM)

    def change_pool(self, changes: Mapping[str, PoolChange]) -> Pool:
        """Let the process change its pool; return the new one, which it confirms with a heartbeat."""
        return self._send_pool(self.pool.change(changes))

    def reset_pool(self, kept: Mapping[str, PoolChange]) -> Pool:
        """Let the process take the pool that it would have at its start."""
        return self._send_pool(self.pool.reset(kept))

    def _send_pool(self, pool: Pool) -> Pool:
        _enlarge_pipe(self._heartbeat_fd, pool)
        self._commands.send("pool", pool=self.pool.message())
        return pool

    def _repeat_commands(self) -> None:
        """Send the commands again that a full pipe has dropped."""
        if self._restart_reason and not self.heartbeat.restart_reason:
            self._commands.send("restart", reason=self._restart_reason)
        if not self.pool.confirm(self.heartbeat):
            self._commands.send("pool", pool=self.pool.message())

    def cancel(self, task_id: str, force_s: float) -> None:
        """Interrupt a task, and terminate the process if the task still runs after `force_s`."""
        token = self.heartbeat.leases[task_id]
        self._commands.send("cancel", task_id, token)
        force_at = time.monotonic() + force_s
        if task_id in self._cancelled:
            force_at = min(force_at, self._cancelled[task_id][1])
        self._cancelled[task_id] = (token, force_at)

    def deadlines(self) -> list[float]:
        """Return when the supervisor must act, on the monotonic clock."""
        limits = [limit.ends_at for task_id, limit in self.heartbeat.hard_limits.items() if not self._is_final(task_id)]
        forced = [at for task_id, (_, at) in self._cancelled.items() if self._must_terminate(task_id)]
        return [self.kill_at, *limits, *forced]

    def overdue(self, now: float) -> list[tuple[Ack, str]]:
        """Return the tasks because of which the process must exit now: the outcome of each, and the reason."""
        overdue = []
        for task_id, (token, at) in self._cancelled.items():
            if at <= now and self._must_terminate(task_id):
                overdue.append((cancelled(task_id, token), "was cancelled and still runs"))
        runs: set[tuple[str, float]] = set()
        cancelled_ids = {ack.id for ack, _ in overdue}
        for task_id, limit in self.heartbeat.hard_limits.items():
            if limit.ends_at <= now and not self._is_final(task_id) and task_id not in cancelled_ids:
                ack = timed_out(task_id, limit.token, limit.limit_s, limit.retry_ms)
                if (limit.token, limit.ends_at) in runs:  # of a batch, which is counted for its first call
                    ack = ack._replace(ran_us=-ack.ran_us)
                runs.add((limit.token, limit.ends_at))
                overdue.append((ack, f"has reached its hard time limit of {limit.limit_s:g} s"))
        return overdue

    def terminate(self, ack: Ack, kill_at: float) -> None:
        """Let the process exit because of a task whose outcome is `ack`."""
        self.final_acks[ack.id] = ack
        self.kill_at = min(self.kill_at, kill_at)
        self._commands.send("terminate", ack.id, ack.token)

    def _is_final(self, task_id: str) -> bool:
        return task_id in self.final_acks

    def _must_terminate(self, task_id: str) -> bool:
        return task_id in self.heartbeat.running and not self._is_final(task_id)

    def _forget_finished_tasks(self) -> None:
        """Do not terminate the process for tasks that have finished. A process that exits sends no more heartbeats."""
        leases, running = self.heartbeat.leases, self.heartbeat.running
        self._unknown = {lease: at for lease, at in self._unknown.items() if lease in leases.items()}
        self._cancelled = {task_id: kept for task_id, kept in self._cancelled.items() if task_id in leases}
        self.final_acks = {task_id: ack for task_id, ack in self.final_acks.items() if task_id in running}
        if not self.final_acks:
            self.kill_at = float("inf")

    def state(self) -> str:
        """Return working, quiet, restarting or stopping."""
        if self.stop_by != float("inf"):
            return "stopping"
        if self.heartbeat.restart_reason:
            return "restarting"
        return "quiet" if self.heartbeat.quiet else "working"

    def info(self, supervisor: Mapping[str, Any] = MappingProxyType({})) -> str:
        """Return its `WorkerReport` as JSON.

        Args:
            supervisor: what its supervisor adds; see `RemoteControl.facts`.
        """
        heartbeat, self.reported_state = self.heartbeat, self.state()
        since_s = max(0.0, time.monotonic() - heartbeat.sent_at) if heartbeat.sent_at else 0.0
        report = WorkerReport(
            host=socket.gethostname(),
            pid=self.pid,
            started_at=moment_of(round(self._started_time * 1_000_000)),
            busy=heartbeat.busy,
            busy_coroutines=heartbeat.busy_coroutines,
            finished=heartbeat.finished,
            per_minute=self._throughput.per_minute(heartbeat.finished),
            memory=resident_bytes(self.pid),
            leases=len(heartbeat.leases),
            runs=tuple(self._timed(run, since_s) for run in heartbeat.runs),
            state=self.reported_state,
            lost_threads=heartbeat.lost_threads,
            **self.pool.report(),
            **supervisor,
        )
        return report.encode()

    def _timed(self, run: WorkerRun, since_s: float) -> WorkerRun:
        """Return a run with the time that has elapsed until now, and its hard limit."""
        limit = self.heartbeat.hard_limits.get(run.id)
        return run._replace(elapsed=round(run.elapsed + since_s, 1), limit=limit.limit_s if limit else 0.0)

    def signal(self, number: int) -> None:
        """Send a signal, if the process still exists."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def close(self) -> None:
        """Close the supervisor's ends of the pipes, and its access to the log of the process."""
        os.close(self._heartbeat_fd)
        os.close(self._commands.fd)
        if self._log_buffer is not None:
            self._log_buffer.close()

    def poll_exit(self) -> str | None:
        """Return how it exited ("exit code 0", "signal SIGKILL"), or None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        self.read_heartbeats()
        if self._log_buffer is not None:
            self._log_buffer.write_rest()
        self.close()
        code = os.waitstatus_to_exitcode(status)
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

"""A worker process, from the fork to its exit code."""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import NoReturn, Protocol

from django_redis_components.core.observability.live_events import RECORDER
from django_redis_components.core.settings import conf
from django_redis_components.core.text import counted
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import forks, log_handler
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.log_handler import LogBuffer
from django_redis_components.taskqueue.middleware import WorkerDescription, pipeline
from django_redis_components.taskqueue.pool import Pool
from django_redis_components.taskqueue.shards import shards_of
from django_redis_components.taskqueue.worker.ipc import CommandReader, Heartbeat, PrefetchedLeases
from django_redis_components.taskqueue.worker.options import WorkerOptions
from django_redis_components.taskqueue.worker.process_signals import BLOCKED_SIGNALS, QUIET, STOP_NOW
from django_redis_components.taskqueue.worker.restart_policy import RestartPolicy
from django_redis_components.taskqueue.worker.worker import Worker

#: Longest time between two heartbeats, in seconds; a third of a short lease.
HEARTBEAT_S = 1.0
#: Seconds between two checks whether the last tasks have finished.
LAST_CHECK_S = 0.05
#: Longest wait for the last receivers of `task_finished` after the grace period, in seconds.
LAST_CALLS_S = 0.5
#: Exit code of a process that exits because one of its tasks must be terminated.
TERMINATED = 3
#: Why a process is restarted that a signal of another program than its supervisor has stopped.
STOPPED_BY_SIGNAL = "another program has stopped it by a signal"


class Closable(Protocol):
    """A resource of the supervisor that a new process must close."""

    def close(self) -> None: ...


def run_and_exit(
    options: WorkerOptions,
    using: str,
    worker_id: str,
    heartbeat_fd: int,
    command_fd: int,
    siblings: Sequence[Closable],
    prefetched: PrefetchedLeases,
    log_buffer: LogBuffer | None = None,
) -> NoReturn:
    """Run the new process until its exit."""
    # Without this, a full collection would visit all that the site has imported, and copy its pages, shared until then.
    gc.freeze()
    code = 1
    try:
        for sibling in siblings:
            sibling.close()
        if log_buffer is not None and log_handler.installed is not None:
            log_handler.installed.use(log_buffer)
        RECORDER.source = worker_id
        code = _run(options, using, worker_id, heartbeat_fd, command_fd, prefetched)
    except BaseException:
        logger.exception("A worker process exits with an error.")
    finally:
        _terminate_daemonic_processes()
        _stop_middleware(options, using, worker_id)
        _flush_events()
        logging.shutdown()
        os._exit(code)


def _stop_middleware(options: WorkerOptions, using: str, worker_id: str) -> None:
    """Notify the middleware, which may export what it has collected: `os._exit` skips exit handlers."""
    try:
        pipeline.notify("on_process_stop", WorkerDescription(worker_id, options.queues, using))
    except BaseException:
        logger.exception("The middleware cannot be notified of the end of the process.")


def _flush_events() -> None:
    """Send the last events for the dashboard: `os._exit` skips exit handlers."""
    with contextlib.suppress(Exception):  # whatever it raises, the process must exit
        RECORDER.flush()


def _terminate_daemonic_processes() -> None:
    """Do what `multiprocessing` does when a process exits; `os._exit` skips it."""
    if "multiprocessing" in sys.modules:
        for process in multiprocessing.active_children():
            if process.daemon:
                process.terminate()


def _ignore_signal(*_: object) -> None:
    """Handle a signal without effect."""


class _StopRequests:
    """Stop signals and the supervisor's commands.

    A process may receive SIGTERM more than once: from whatever sends it to the whole process group, and from the
    supervisor. Only `STOP_NOW`, which the supervisor sends with SIGTERM after its own second signal, ends the grace
    period. Alone, sent by a task for example, it stops the process as SIGTERM does: otherwise that task, which returns
    to its queue without an attempt, would end each process that gets it.

    Attributes:
        stop_fd: becomes readable at the first stop signal, and stays so.
        restart_reason: why the supervisor restarts the process; empty until then.
        pool: number of the last change of the pool that was made; 0 without one.
        orphaned_at: when the supervisor has exited, on the monotonic clock; infinity until then.
    """

    def __init__(self, command_fd: int) -> None:
        self.count = 0
        self._is_urgent = False
        self.commands = CommandReader(command_fd)
        self.orphaned_at = float("inf")
        self.quiet = self._is_stop_fd_set = False
        self.restart_reason = ""
        self.pool = 0
        self.stop_fd, self._write_fd = os.pipe()
        self.wake_fd, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self.wake_fd, False)
        forks.close_in_children(command_fd, self.stop_fd, self._write_fd, self.wake_fd, self._wake_write)
        forks.set_wakeup_fd(self._wake_write)
        forks.set_signal_handler(signal.SIGTERM, lambda *_: self.stop())
        forks.set_signal_handler(STOP_NOW, lambda *_: self.stop_now())
        forks.set_signal_handler(QUIET, lambda *_: self.set_quiet())
        # The supervisor forwards these. With SIG_IGN the programs that tasks start would ignore them too.
        forks.set_signal_handler(signal.SIGINT, _ignore_signal)
        forks.set_signal_handler(signal.SIGHUP, _ignore_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED_SIGNALS)

    def stop(self) -> None:
        """Stop; without a grace period after `stop_now`."""
        self.end_waits()
        self.count = 2 if self._is_urgent else max(1, self.count)

    def stop_now(self) -> None:
        """Stop, without a grace period if the process was asked to stop before, or is asked afterwards."""
        self.end_waits()
        self.count = 2 if self.count else 1
        self._is_urgent = True

    def set_quiet(self) -> None:
        """Fetch nothing more, but stay."""
        self.quiet = True
        self.end_waits()

    def restart(self, reason: str) -> None:
        """Fetch nothing more, and exit after the running tasks, also if the process is quiet."""
        self.restart_reason, self.quiet = reason, False
        self.end_waits()

    def end_waits(self) -> None:
        """Wake the threads that wait for jobs, and the main thread."""
        if not self._is_stop_fd_set:
            self._is_stop_fd_set = True
            os.write(self._write_fd, b"x")
            with contextlib.suppress(BlockingIOError):  # a full pipe is readable anyway
                os.write(self._wake_write, b"x")

    def sleep(self, seconds: float, written: Sequence[int] = ()) -> bool:
        """Wait for a signal, a command, the supervisor's exit, or `seconds`.

        Args:
            written: file descriptors that end the wait, too, when they can be written to.

        Returns:
            Whether one of these has ended it.
        """
        is_orphaned = self.orphaned_at != float("inf")
        watched = [self.wake_fd] if is_orphaned else [self.wake_fd, self.commands.fd]
        ready, writable, _ = select.select(watched, written, [], seconds)
        if self.wake_fd in ready:
            os.read(self.wake_fd, 4_096)
        if self.commands.fd in ready and not self.commands.read():
            logger.warning("The supervisor has exited; stopping.")
            self.orphaned_at = time.monotonic()
            self.stop()
        return bool(writable) and not ready

    def execute_commands(self, worker: Worker) -> set[str]:
        """Execute the supervisor's commands; return the running tasks because of which the process must exit."""
        fatal = set()
        for command in self.commands.take():
            if command.verb == "cancel":
                worker.cancel(command.task_id, command.token)
            elif command.verb == "terminate" and worker.is_running(command.task_id, command.token):
                fatal.add(command.task_id)
            elif command.verb == "restart":
                self.restart(command.reason)
            elif command.verb == "stack":
                worker.send_stack(command.task_id, command.token)
            elif command.verb == "fleet":
                RECORDER.fleet = command.fleet
            elif command.pool is not None:
                self.pool, threads, coroutines, queues, weights = command.pool
                worker.change_pool(Pool(threads, coroutines, tuple(queues), tuple(weights)))
        return fatal


def _run(
    options: WorkerOptions,
    using: str,
    worker_id: str,
    heartbeat_fd: int,
    command_fd: int,
    prefetched: PrefetchedLeases,
) -> int:
    """Start the threads, send heartbeats, and stop on request. Returns the exit code."""
    stops = _StopRequests(command_fd)
    os.set_blocking(heartbeat_fd, False)
    forks.close_in_children(heartbeat_fd)
    policy = RestartPolicy(options.max_tasks, options.max_memory_mib)
    worker = Worker(shards_of(using), worker_id, options, stops.stop_fd, prefetched)
    worker.set_max_tasks(policy.max_tasks, stops.end_waits)
    heartbeats = HeartbeatWriter(heartbeat_fd, worker)
    worker.timer.on_hard_limit = heartbeats.repeat
    pipeline.notify("on_process_start", WorkerDescription(worker_id, options.queues, using))
    worker.start()
    lease_s = to_ms(conf.settings().taskqueue.lease_s, "lease") / 1_000
    interval_s = min(HEARTBEAT_S, lease_s / 6)
    while (worker.is_alive() or stops.quiet or worker.is_damaged()) and not stops.count:
        if worker.is_damaged():
            worker.settle_lost_runs()
        policy.reason = policy.reason or stops.restart_reason or worker.restart_reason
        if policy.check(worker.finished) or stops.quiet:
            worker.stop()
            stops.end_waits()
        heartbeats.write(quiet=stops.quiet, restart_reason=policy.reason, pool=stops.pool)
        heartbeats.wait(stops, min(interval_s, LAST_CHECK_S) if policy.reason else interval_s)
        if fatal := stops.execute_commands(worker):
            return _exit_because_of(fatal, worker, stops)
    policy.reason = policy.reason or stops.restart_reason or worker.restart_reason
    if not stops.count and policy.check(worker.finished):
        heartbeats.write(restart_reason=policy.reason)
    worker.stop()
    return _finish_tasks(worker, stops, heartbeats, lease_s, policy.reason or STOPPED_BY_SIGNAL)


def _finish_tasks(
    worker: Worker, stops: _StopRequests, heartbeats: HeartbeatWriter, lease_s: float, reason: str
) -> int:
    """Wait for the running tasks until the grace period ends, then return them to their queue.

    Without a supervisor the leases are not renewed: the tasks are returned before another worker gets them.

    Args:
        reason: why the supervisor restarts the process, if it has not stopped it.
    """
    deadline = time.monotonic() + to_ms(conf.settings().taskqueue.grace_s, "grace", zero=True) / 1_000
    while worker.is_alive() and stops.count < 2 and time.monotonic() < min(deadline, stops.orphaned_at + lease_s / 2):
        heartbeats.write(quiet=True, restart_reason=reason)
        heartbeats.wait(stops, min(HEARTBEAT_S, lease_s / 6, LAST_CHECK_S))
        if fatal := stops.execute_commands(worker):
            return _exit_because_of(fatal, worker, stops)
    unfinished = worker.busy()
    worker.return_jobs()
    worker.outcome_calls.wait(max(LAST_CALLS_S, deadline - time.monotonic()))
    if unfinished:
        logger.warning("Returned %s to their queues.", counted(unfinished, "running task"))
    return 0


def _exit_because_of(task_ids: set[str], worker: Worker, stops: _StopRequests) -> int:
    """Return all other tasks to their queue: the supervisor sends the outcome of these. Returns the exit code."""
    worker.stop()
    stops.end_waits()
    worker.return_jobs(keep=task_ids)
    worker.outcome_calls.wait(LAST_CALLS_S)
    return TERMINATED


class HeartbeatWriter:
    """Writes heartbeats: the main thread regularly, others when the supervisor must know something at once.

    A heartbeat may be larger than the pipe, since a run of a batch has up to 500 leases. The rest is written as soon as
    the supervisor has read, and before the next one.
    """

    def __init__(self, fd: int, worker: Worker) -> None:
        self._fd = fd
        self._worker = worker
        self._lock = threading.Lock()
        self._quiet, self._restart_reason = False, ""
        self._pool = 0
        self._rest = b""

    def write(self, *, quiet: bool = False, restart_reason: str = "", pool: int = 0) -> None:
        """Write a heartbeat, unless the pipe is full: then the supervisor is slow, and reads a later one."""
        self._quiet, self._restart_reason, self._pool = quiet, restart_reason, pool
        self.repeat()

    def repeat(self) -> None:
        """Write a heartbeat with the last `quiet`, `restart_reason` and `pool`."""
        worker = self._worker
        with self._lock:
            self._write_rest()
            if self._rest:
                return
            sent_at = time.monotonic()
            heartbeat = Heartbeat(
                worker.fetcher.leases,
                worker.busy(),
                worker.finished,
                self._quiet,
                self._restart_reason,
                worker.no_reply_s(),
                worker.running(),
                worker.timer.hard_limits(),
                sent_at,
                worker.longest_runs(),
                worker.threads.lost(),
                self._pool,
                worker.threads.size,
                worker.busy_coroutines(),
            )
            self._rest = heartbeat.encode()
            self._write_rest()

    def wait(self, stops: _StopRequests, seconds: float) -> None:
        """Wait as `stops.sleep` does, and write the rest of a large heartbeat meanwhile."""
        until = time.monotonic() + seconds
        while stops.sleep(max(0.0, until - time.monotonic()), [self._fd] if self._rest else []):
            with self._lock:
                self._write_rest()

    def _write_rest(self) -> None:
        try:
            while self._rest:
                self._rest = self._rest[os.write(self._fd, self._rest) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:  # the supervisor has exited
            self._rest = b""

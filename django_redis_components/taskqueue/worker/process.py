"""What a worker process does: it lives from a fork of the supervisor to its exit code."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import multiprocessing
import os
import secrets
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import NoReturn, Protocol

from django.db import connections as databases

from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import forks
from django_redis_components.taskqueue.supervisor.child import (
    QUIET,
    STOP_NOW,
    STOP_SIGNALS,
    Beacon,
    Child,
    WorkerOptions,
)
from django_redis_components.taskqueue.worker.ipc import Orders
from django_redis_components.taskqueue.worker.prefetch_amount import MAX_AHEAD
from django_redis_components.taskqueue.worker.prefetched import Unbegun
from django_redis_components.taskqueue.worker.recycling import Recycling
from django_redis_components.taskqueue.worker.worker import Worker

logger = logging.getLogger("django_redis_components.taskqueue")

#: Seconds between two beacons of a worker process, at most; a third of a short lease.
BEACON_S = 1.0
#: Seconds between two looks whether the last tasks have finished.
LAST_BEAT_S = 0.05
#: Bytes that a beacon has for each task, or so; and bytes that a pipe holds, unless told otherwise, and at most.
LEASE_BYTES, PIPE_BYTES, MAX_PIPE_BYTES = 128, 1 << 16, 1 << 20
#: Exit code of a process that has ended for the sake of a task.
ENDED = 3
#: All that is held back while a process is forked.
HELD_BACK = (*STOP_SIGNALS, STOP_NOW, QUIET)


class Closable(Protocol):
    """Something that the supervisor has open, and a new process shall not have."""

    def close(self) -> None: ...


def spawn(options: WorkerOptions, using: str, siblings: Sequence[Closable], supervisor: str) -> Child:
    """Fork a worker process. Database connections are closed first, so that none is shared.

    Signals wait until the new process has its own handlers. It closes its siblings' pipes, so that
    each of them sees the end of the supervisor. Its id begins with the supervisor's, whose bell is
    rung for its tasks.
    """
    databases.close_all()
    beacon_read, beacon_write = os.pipe()
    _widen(beacon_write, options)
    life_read, life_write = os.pipe()
    worker_id = f"{supervisor}.{secrets.token_hex(3)}"
    unbegun = Unbegun()
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    pid = os.fork()
    if pid == 0:  # pragma: no cover - coverage begins in the new process with the next function
        for fd in (beacon_read, life_write):
            os.close(fd)
        _live_and_end(options, using, worker_id, beacon_write, life_read, siblings, unbegun)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
    os.close(beacon_write)
    os.close(life_read)
    return Child(pid, worker_id, beacon_read, life_write, options, unbegun)


def _widen(fd: int, options: WorkerOptions) -> None:
    """Let the pipe hold a whole beacon of a process that holds many tasks; else it takes a second for each 64 KiB."""
    wanted = LEASE_BYTES * (options.threads + options.async_concurrency + MAX_AHEAD)
    if wanted > PIPE_BYTES and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # the system has no more for us: it takes the time
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, min(wanted, MAX_PIPE_BYTES))


def _live_and_end(
    options: WorkerOptions,
    using: str,
    worker_id: str,
    beacon_fd: int,
    life_fd: int,
    siblings: Sequence[Closable],
    unbegun: Unbegun,
) -> NoReturn:
    """The new process, from its first moment to its last."""
    code = 1
    try:
        for sibling in siblings:
            sibling.close()
        code = _live(options, using, worker_id, beacon_fd, life_fd, unbegun)
    except BaseException:
        logger.exception("A worker process ends with an error.")
    finally:
        _end_daemonic_processes()
        logging.shutdown()
        os._exit(code)


def _end_daemonic_processes() -> None:
    """`multiprocessing` ends a daemonic process at the exit of its parent; this process leaves by `os._exit`."""
    if "multiprocessing" in sys.modules:
        for process in multiprocessing.active_children():
            if process.daemon:
                process.terminate()


def _do_nothing(*_: object) -> None:
    """A signal handler."""


class _Stops:
    """Counts stop signals (two: at once), and makes a descriptor readable for good at the first; hears orders."""

    def __init__(self, life_fd: int) -> None:
        self.count = 0
        self.orders = Orders(life_fd)
        self.orphaned = self.quiet = self._ended = False
        self.stop_fd, self._write_fd = os.pipe()
        self.wake_fd, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self.wake_fd, False)
        forks.close_in_children(life_fd, self.stop_fd, self._write_fd, self.wake_fd, self._wake_write)
        forks.set_wakeup_fd(self._wake_write)
        forks.set_signal_handler(signal.SIGTERM, lambda *_: self.ask())
        forks.set_signal_handler(STOP_NOW, lambda *_: self.ask(2))
        forks.set_signal_handler(QUIET, lambda *_: self.hush())
        # The supervisor passes these on. With SIG_IGN the programs that tasks start would ignore them too.
        forks.set_signal_handler(signal.SIGINT, _do_nothing)
        forks.set_signal_handler(signal.SIGHUP, _do_nothing)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)

    def ask(self, count: int = 1) -> None:
        """Stop; 2: at once."""
        self.end_waits()
        self.count += count

    def hush(self) -> None:
        """Fetch nothing more, but stay."""
        self.quiet = True
        self.end_waits()

    def end_waits(self) -> None:
        """Make the descriptor readable that a thread which waits for work watches, and wake the main thread."""
        if not self._ended:
            self._ended = True
            os.write(self._write_fd, b"x")
            with contextlib.suppress(BlockingIOError):  # then it wakes anyway
                os.write(self._wake_write, b"x")

    def sleep(self, seconds: float) -> None:
        """Wait for a signal, an order, the supervisor's end, or some time."""
        watched = [self.wake_fd] if self.orphaned else [self.wake_fd, self.orders.fd]
        ready = select.select(watched, [], [], seconds)[0]
        if self.wake_fd in ready:
            os.read(self.wake_fd, 4_096)
        if self.orders.fd in ready and not self.orders.read():
            logger.warning("The supervisor is gone; stopping.")
            self.orphaned = True
            self.ask()


def _live(options: WorkerOptions, using: str, worker_id: str, beacon_fd: int, life_fd: int, unbegun: Unbegun) -> int:
    """The worker process: start the threads, give signs of life, stop when asked. Returns the exit code."""
    stops = _Stops(life_fd)
    os.set_blocking(beacon_fd, False)
    forks.close_in_children(beacon_fd)
    client = connections.client(using)
    recycling = Recycling(options.max_tasks, options.max_memory_mib)
    worker = Worker(
        client,
        worker_id,
        options.queues,
        options.threads,
        stops.stop_fd,
        async_concurrency=options.async_concurrency,
        burst=options.burst,
        weights=options.weights,
        unbegun=unbegun,
    )
    worker.limit(recycling.max_tasks, stops.end_waits)
    beats = _Beats(beacon_fd, worker)
    worker.watch.on_hard_limit = beats.again
    worker.start()
    settings = conf.settings().taskqueue
    beat_s = min(BEACON_S, to_ms(settings.lease_s, "lease") / 1_000 / 6)
    while (worker.alive() or stops.quiet) and not stops.count:
        if recycling.look(worker.finished) or stops.quiet:
            worker.stop()
            stops.end_waits()
        beats.write(quiet=stops.quiet, leaving=recycling.leaving)
        stops.sleep(min(beat_s, LAST_BEAT_S) if recycling.leaving else beat_s)
        if ends := stops.orders.obey(worker):
            return _end_for(ends, worker, stops)
    if not stops.count and recycling.look(worker.finished):
        beats.write(leaving=recycling.leaving)
    worker.stop()
    grace_s = to_ms(settings.grace_s, "grace", zero=True) / 1_000
    if stops.orphaned:  # nobody renews the leases any more: hand the tasks back before another worker gets them
        grace_s = min(grace_s, to_ms(settings.lease_s, "lease") / 1_000 / 2)
    deadline = time.monotonic() + grace_s
    while worker.alive() and stops.count < 2 and time.monotonic() < deadline:
        beats.write(quiet=True)
        stops.sleep(min(beat_s, LAST_BEAT_S))
        if ends := stops.orders.obey(worker):
            return _end_for(ends, worker, stops)
    handed_back = worker.busy()
    worker.give_back()
    if handed_back:
        logger.warning("%d running tasks were handed back; they start again elsewhere.", handed_back)
    return 0


def _end_for(ends: set[str], worker: Worker, stops: _Stops) -> int:
    """End for the sake of tasks whose outcome the supervisor tells; all others go back. Returns the exit code."""
    worker.stop()
    stops.end_waits()
    worker.give_back(but=ends)
    return ENDED


class _Beats:
    """Writes beacons: the main thread regularly, others when the supervisor must know something at once.

    A beacon may be larger than the pipe: its rest is written before the next one.
    """

    def __init__(self, fd: int, worker: Worker) -> None:
        self._fd = fd
        self._worker = worker
        self._writing = threading.Lock()
        self._quiet, self._leaving = False, ""
        self._rest = b""

    def write(self, *, quiet: bool = False, leaving: str = "") -> None:
        """Write one. A full pipe means that the supervisor is slow, and the next one will do."""
        self._quiet, self._leaving = quiet, leaving
        self.again()

    def again(self) -> None:
        """Write one that says what the main thread last said of the process."""
        worker = self._worker
        with self._writing:
            self._write_rest()
            if self._rest:
                return
            made_at = time.monotonic()
            beacon = Beacon(
                dict(worker.fetcher.held),
                worker.busy(),
                worker.finished,
                self._quiet,
                self._leaving,
                worker.silent_s(),
                worker.running(),
                worker.watch.hard(),
                made_at,
            )
            self._rest = json.dumps(vars(beacon)).encode() + b"\n"
            self._write_rest()

    def _write_rest(self) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._rest:
                self._rest = self._rest[os.write(self._fd, self._rest) :]

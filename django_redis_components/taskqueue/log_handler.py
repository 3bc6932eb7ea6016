"""The handler of a worker's log records on a site that has not configured its logging.

The supervisor and the poller write each record at once. A worker process, which may log tens of thousands of lines a
second, collects its lines in a `LogBuffer`; one thread writes them in batches, and a record from WARNING on is written
at once with all before it. The buffer is in memory shared with the supervisor, which writes the rest when the process
has died, however it died. The lines of successes are formatted in batches: before their acks are sent, and before any
other record. So a line that a dead process has not formatted belongs to a task that runs again.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import select
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import IO, Any

from django_redis_components.taskqueue import forks
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.logs import SUCCESS, JsonFormatter, TextFormatter, facts
from django_redis_components.taskqueue.states import SUCCEEDED
from django_redis_components.taskqueue.store.job import Job

#: Python's logger, whose handlers and filters decide how a line is written.
_target = logger.target

#: Bytes of each half of a buffer. A worker fills it in 50 ms at 50,000 lines a second.
SIZE = 1 << 18
#: Seconds in which lines below WARNING are collected. More: lines appear later; less: more, smaller writes.
FLUSH_S = 0.05
#: Successes whose lines are formatted at once.
MAX_SUCCESSES = 100
#: Seconds that a write waits for a reader that has made the pipe non-blocking, before the lines are discarded.
BLOCKED_S = 5.0
#: Seconds that a record of the supervisor waits for a process that is writing: one that was stopped meanwhile must not
#: keep the leases of the others from being renewed.
MAX_LINE_WAIT_S = 1.0
#: Stored before the lines: the number of bytes in use in each half, and the half that gets the next line.
_USED = struct.Struct("=I")
_HEAD = 3 * _USED.size

#: The handler that `management.logs` has added in this process, if any.
installed: WorkerLogHandler | None = None
#: A file on which the processes of this worker hold a lock while they write.
_lock_file: IO[bytes] | None = None


class LogBuffer:
    """Lines that a worker process has not written yet, in memory shared with its supervisor.

    Create it before the fork. It has two halves: threads add lines to one while the other is written. Nothing is
    dropped while the file can be written: a thread that finds no room writes. The number of bytes is stored last, so
    that an incomplete line is ignored.

    Attributes:
        fd: where the lines are written.
    """

    def __init__(self, fd: int) -> None:
        """
        Args:
            fd: where to write; a duplicate is used, as tasks may close theirs.
        """
        self.fd = os.dup(fd)
        self._memory = mmap.mmap(-1, _HEAD + 2 * SIZE)
        self._half = self._used = self._discarded = 0
        # A signal handler may log while its thread has a lock.
        self._lock, self._write_lock = threading.RLock(), threading.RLock()
        self._has_lines = threading.Event()

    def start(self) -> None:
        """Start the thread that writes, in the worker process."""
        forks.close_in_children(self.fd)
        threading.Thread(target=self._flush_repeatedly, name="log-writer", daemon=True).start()

    def append(self, line: bytes) -> None:
        """Add a line, which must end with a newline."""
        size = len(line)
        while True:
            with self._lock:
                start, half = self._used, self._half
                end = start + size
                if end <= SIZE:
                    offset = _HEAD + half * SIZE
                    self._memory[offset + start : offset + end] = line
                    self._used = end
                    _USED.pack_into(self._memory, _USED.size * half, end)
                    break
            self.flush()
            if size > SIZE:
                with self._write_lock:
                    self._write(line)
                return
        if not start:
            self._has_lines.set()

    def flush(self) -> None:
        """Write all lines."""
        with self._write_lock:
            with self._lock:  # not while it writes: other threads would wait
                half, used = self._half, self._used
                if not used:
                    return
                self._half, self._used = 1 - half, 0
                _USED.pack_into(self._memory, 2 * _USED.size, self._half)
            offset = _HEAD + half * SIZE
            self._write(self._memory[offset : offset + used])
            _USED.pack_into(self._memory, _USED.size * half, 0)

    def write_rest(self) -> None:
        """Write what the worker process has left, in the supervisor after its exit."""
        current = _USED.unpack_from(self._memory, 2 * _USED.size)[0]
        for half in (1 - current, current):
            used = _USED.unpack_from(self._memory, _USED.size * half)[0]
            offset = _HEAD + half * SIZE
            self._write(self._memory[offset : offset + used])

    def close(self) -> None:
        """Release the memory and the file, in the supervisor and in its other processes."""
        os.close(self.fd)
        self._memory.close()

    def report_discarded(self) -> None:
        """Log how many lines could not be written."""
        discarded, self._discarded = self._discarded, 0
        logger.warning("%d lines of this log could not be written.", discarded)
        if self._discarded:  # neither could this one
            self._discarded += discarded - 1

    def _flush_repeatedly(self) -> None:
        while True:
            self._has_lines.wait()
            time.sleep(FLUSH_S)
            self._has_lines.clear()  # before `flush`: a line that is added after it sets the event again
            self.flush()
            if self._discarded:
                self.report_discarded()

    def _write(self, data: bytes) -> None:
        """Write, or count the lines that cannot be written: an error must reach no task that logs."""
        start = 0
        deadline = time.monotonic() + BLOCKED_S
        try:
            with _exclusive():
                while start < len(data):
                    with contextlib.suppress(BlockingIOError):
                        start += os.write(self.fd, data[start:])
                        continue
                    if not select.select([], [self.fd], [], max(0.0, deadline - time.monotonic()))[1]:
                        raise TimeoutError
        except (OSError, ValueError):
            self._discarded += data.count(b"\n", start)


@contextlib.contextmanager
def _exclusive(max_wait_s: float | None = None) -> Iterator[None]:
    """Let one process of this worker write at a time: a pipe mixes long writes when it is full.

    The lock of a process ends with it, however it dies.

    Args:
        max_wait_s: after this time it is written without the lock; None: wait until the other process has written.
    """
    if _lock_file is None:
        yield
        return
    import fcntl  # only workers need POSIX

    if max_wait_s is None:
        fcntl.lockf(_lock_file, fcntl.LOCK_EX)
        has_lock = True
    else:
        has_lock = _lock_within(max_wait_s, _lock_file)
    try:
        yield
    finally:
        if has_lock:
            fcntl.lockf(_lock_file, fcntl.LOCK_UN)


def _lock_within(seconds: float, file: IO[bytes]) -> bool:
    """Return whether the lock was free within this time."""
    import fcntl

    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)
        except OSError:  # no lock is left in the system
            return False


class WorkerLogHandler(logging.StreamHandler[Any]):
    """Writes records to standard error, in a worker process through a `LogBuffer`.

    Attributes:
        buffer: its lines in a worker process; None in others, which write each record at once.
    """

    formatter: TextFormatter | JsonFormatter

    def __init__(self) -> None:
        super().__init__()
        self.buffer: LogBuffer | None = None
        self._encoding = ("utf-8", "backslashreplace")
        self._pid = 0
        #: The logger that has this handler, and those between the queue's and that one.
        self._top, self._below = _target, list[logging.Logger]()
        self._only, self._filters = [self], self.filters.copy()
        self._is_patched = False
        #: Tasks that have succeeded and when, in milliseconds since the epoch; their lines are not formatted yet.
        self._successes: deque[tuple[int, Job]] = deque()
        self._successes_lock = threading.RLock()  # a signal handler may log while its thread has the lock

    def use(self, buffer: LogBuffer) -> None:
        """Write through this buffer from now on, in this worker process."""
        self._encoding = (getattr(self.stream, "encoding", None) or "utf-8", "backslashreplace")
        self._pid = os.getpid()
        self._top, self._below = _target, []
        while self not in self._top.handlers and self._top.parent is not None:
            self._below.append(self._top)
            self._top = self._top.parent
        self._filters = self.filters.copy()
        self._is_patched = _is_patched()
        self.buffer = buffer
        buffer.start()
        forks.call_in_children(self.stop_buffering)

    def handle(self, record: logging.LogRecord) -> Any:
        """See `logging.Handler`. With a buffer threads need no lock to format their records."""
        if self.buffer is not None and os.getpid() != self._pid:  # a fork that bypassed Python's hooks
            self.stop_buffering()
        if self.buffer is None:
            return super().handle(record)
        kept: Any = self.filter(record)
        if kept:
            self.emit(kept if isinstance(kept, logging.LogRecord) else record)
        return kept

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        buffer = self.buffer
        if buffer is None:
            with _exclusive(MAX_LINE_WAIT_S):
                super().emit(record)
            return
        self.format_successes()
        try:
            buffer.append((self.format(record) + self.terminator).encode(*self._encoding))
            if record.levelno >= logging.WARNING:
                buffer.flush()
        except Exception:  # noqa: BLE001 - as logging does
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """See `logging.Handler`, which raises if a task has closed `sys.stderr`."""
        with contextlib.suppress(Exception):
            super().handleError(record)

    def flush(self) -> None:
        """See `logging.Handler`."""
        if self.buffer is not None:
            self.format_successes()
            self.buffer.flush()
            return
        with contextlib.suppress(OSError, ValueError):  # a task has closed `sys.stderr`
            super().flush()

    def add_success(self, job: Job) -> bool:
        """Write the line of a succeeded task without a record; return False if one is necessary."""
        if self.buffer is None or not self._is_alone():
            return False
        self._successes.append((time.time_ns() // 1_000_000, job))
        return True

    def format_successes(self) -> None:
        """Put the lines of successes into the buffer."""
        while self._successes and self.buffer is not None:
            try:
                with self._successes_lock:  # afterwards the lines of this thread are there, formatted by any thread
                    self.buffer.append(self._success_lines().encode(*self._encoding))
            except Exception:
                logger.exception("The success of some tasks cannot be logged.")

    def _success_lines(self) -> str:
        format_success = self.formatter.format_success
        lines: list[str] = []
        with contextlib.suppress(IndexError):
            while len(lines) < MAX_SUCCESSES:
                created_ms, job = self._successes.popleft()
                lines.append(format_success(job, job.ran_us / 1_000_000, created_ms))
        return "".join(lines)

    def _is_alone(self) -> bool:
        """Return whether a record of the queue would reach this handler only, and no filter of the site."""
        if self._is_patched or self._top.handlers != self._only or self.filters != self._filters or _target.filters:
            return False
        for each in self._below:  # noqa: SIM110 - each task asks, and `any` takes longer
            if each.handlers:
                return False
        return True

    def stop_buffering(self) -> None:
        """In a forked child, write each record at once: the buffer is the parent's."""
        self.buffer = None
        self._successes.clear()
        self.createLock()


def _is_patched() -> bool:
    """Return whether a library takes part in the creation or the handling of records."""
    is_own = logging.Logger.callHandlers.__code__.co_filename == logging.Logger.isEnabledFor.__code__.co_filename
    return not is_own or type(_target) is not logging.Logger or logging.getLogRecordFactory() is not logging.LogRecord


def new_buffer() -> LogBuffer | None:
    """Return a buffer for the next worker process; None without our handler, or if it has no file."""
    global _lock_file
    try:
        if installed is None:
            return None
        _lock_file = _lock_file or tempfile.TemporaryFile()  # noqa: SIM115 - open until the process ends
        return LogBuffer(installed.stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None


def log_success(job: Job) -> None:
    """Log that a task has succeeded. `format_successes` must follow before its ack is sent."""
    if not logger.isEnabledFor(logging.INFO):
        return
    if installed is None or not installed.add_success(job):
        seconds = job.ran_us / 1_000_000
        logger.info(SUCCESS, job.name, job.id, seconds, extra=facts(job, SUCCEEDED, seconds))


def format_successes() -> None:
    """See `WorkerLogHandler.format_successes`."""
    if installed is not None:
        installed.format_successes()

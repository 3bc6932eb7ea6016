"""Calls the receivers of `task_finished` when Redis has stored the outcomes.

The thread that sends an ack, which may be the flusher, must not wait for code of the site: the calls are queued. Each
thread of the worker makes one before its next job, so that slow receivers slow the worker down, and the queue does not
grow. A further thread makes those for which no thread of the worker is free; the first call starts it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context

from django_redis_components.taskqueue import forks
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker import db_connections

#: Seconds between two checks whether the last call has ended.
CHECK_S = 0.02


class OutcomeCalls:
    """The calls of one process."""

    def __init__(self) -> None:
        #: Read by the threads of the worker for each job.
        self.queued: deque[tuple[Job, Callable[[], object]]] = deque()
        #: Threads that make a call.
        self._calling: set[int] = set()
        self._has_calls = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pid = forks.process_id()

    def add(self, job: Job, ack: Ack) -> None:
        """Queue the call for a stored outcome."""
        callback = job.on_stored
        if callback is not None:
            self.queued.append((job, lambda: callback(ack)))
            self._has_calls.set()
            self._start()

    def make_next(self) -> bool:
        """Make the next call in this thread; return whether there was one."""
        thread = threading.get_ident()
        self._calling.add(thread)  # before: a call that is in neither place would look finished
        try:
            job, call = self.queued.popleft()
        except IndexError:
            return False
        else:
            self._call(job, call)
            return True
        finally:
            self._calling.discard(thread)

    def wait(self, seconds: float) -> None:
        """Wait until all calls have ended, or until the time has passed. A thread makes them meanwhile."""
        deadline = time.monotonic() + seconds
        while (self.queued or self._calling) and time.monotonic() < deadline:
            time.sleep(CHECK_S)
        if unfinished := len(self.queued) + len(self._calling):
            logger.warning("%d calls of receivers of task_finished have not ended.", unfinished)

    def _call(self, job: Job, call: Callable[[], object]) -> None:
        try:
            Context().run(call)
        except BaseException:
            logger.exception("The end of task %s cannot be sent.", job.id)
        forks.exit_in_child(self._pid)  # a receiver may have forked
        db_connections.close_stale(job)

    def _start(self) -> None:
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    thread = threading.Thread(target=self._make_all, name="outcome-calls", daemon=True)
                    try:
                        thread.start()
                    except RuntimeError:  # no more threads: those of the worker make the calls; the next tries again
                        return
                    self._thread = thread

    def _make_all(self) -> None:
        while True:
            self._has_calls.wait()
            self._has_calls.clear()
            while self.make_next():
                pass

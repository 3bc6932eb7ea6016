"""The threads of a worker process. Their number may change while they run.

A thread leaves between two jobs, so no task is interrupted: while more tasks run than there should be threads, each
thread leaves after its task. A thread that has asked for jobs without getting a reply stays until it has one, because
only a request of the same thread gets these jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.pool import MAX_THREADS


class ThreadPool:
    """The threads of a worker, by number. Numbers of threads that have left are used again.

    Attributes:
        size: how many threads there should be.
        has_surplus: whether there are more: the next thread that is free leaves.
    """

    def __init__(self, size: int, run: Callable[[int], None]) -> None:
        """
        Args:
            run: what a thread does, with its number. It returns when the thread has left or the worker stops.
        """
        self.size = size
        self.has_surplus = False
        self._run = run
        self._threads: dict[int, threading.Thread] = {}
        #: Numbers of the threads that have not left.
        self._members: set[int] = set()
        #: Numbers of the threads that have ended as they should.
        self._ended: set[int] = set()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the threads.

        Raises:
            RuntimeError: the system has no thread left.
        """
        while len(self._members) < self.size:
            self._start_one()

    def resize(self, size: int) -> bool:
        """Change the number of threads. Return False if the system has too few: then the size is what there are."""
        with self._lock:
            self.size = size
            self.has_surplus = len(self._members) > size
        try:
            self.start()
        except RuntimeError as exc:
            logger.error("Only %d of %d threads of the worker can run (%s).", len(self._members), size, exc)
            self.size = len(self._members)
        return self.size == size

    def leave(self, number: int) -> bool:
        """Return whether this thread must end now, because there are too many."""
        with self._lock:
            if len(self._members) > self.size:
                self._members.discard(number)
                self.has_surplus = len(self._members) > self.size
                return True
            self.has_surplus = False
            return False

    def alive(self) -> int:
        """Return the number of threads that are alive."""
        return sum(thread.is_alive() for thread in list(self._threads.values()))

    def lost(self) -> int:
        """Return the number of threads that have died: they have ended, but not as they should."""
        dead = [number for number, thread in list(self._threads.items()) if not thread.is_alive()]
        return sum(number not in self._ended for number in dead)

    def numbers(self) -> dict[int | None, int]:
        """Return the numbers of the threads by their identifiers."""
        return {thread.ident: number for number, thread in list(self._threads.items())}

    def alive_idents(self) -> set[int | None]:
        """Return the identifiers of the threads that are alive."""
        return {thread.ident for thread in list(self._threads.values()) if thread.is_alive()}

    def _start_one(self) -> None:
        number = self._free_number()
        thread = threading.Thread(target=self._run_until_end, args=(number,), name=f"task-{number}", daemon=True)
        before = self._threads.get(number)
        self._ended.discard(number)
        self._members.add(number)
        self._threads[number] = thread
        try:
            thread.start()
        except BaseException:
            self._members.discard(number)
            self._ended.add(number)
            del self._threads[number]
            if before is not None:
                self._threads[number] = before
            raise

    def _free_number(self) -> int:
        """Return the lowest number that no live thread has, and none that has died at its task.

        Raises:
            RuntimeError: threads that leave have all of them.
        """
        for number in range(MAX_THREADS):
            thread = self._threads.get(number)
            if number not in self._members and (thread is None or not thread.is_alive()):
                return number
        raise RuntimeError("all numbers are in use by threads that have not ended yet")

    def _run_until_end(self, number: int) -> None:
        self._run(number)
        self._ended.add(number)

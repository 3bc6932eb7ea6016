"""Threads that are there while there is something to do."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

#: Seconds that a thread stays for the next job when it has none.
LINGER_S = 5.0


class BackgroundRunner:
    """Does one thing after the other in a daemon thread, which begins with the first and ends when idle."""

    def __init__(self, name: str) -> None:
        """Args: name: of the thread."""
        self._name = name
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], object]] = deque()
        self._thread: threading.Thread | None = None

    def add(self, job: Callable[[], object]) -> None:
        """Have this done; it must not raise.

        Raises:
            RuntimeError: there may be no more threads; it will not be done.
        """
        with self._changed:
            if self._thread is None:
                self._thread = started(self._run, self._name)
            self._waiting.append(job)
            self._changed.notify()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            job()

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            if not self._waiting:
                self._changed.wait(LINGER_S)
            if not self._waiting:
                self._thread = None
                return None
            return self._waiting.popleft()


def started(target: Callable[..., object], name: str, *args: object) -> threading.Thread:
    """A daemon thread that runs.

    Raises:
        RuntimeError: there may be no more threads, or the interpreter is about to end.
    """
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    thread.start()
    return thread

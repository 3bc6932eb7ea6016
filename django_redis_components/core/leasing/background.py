"""Background threads that run only while there is work."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

#: Seconds that an idle thread waits for the next job before it ends.
LINGER_S = 5.0


class BackgroundRunner:
    """Runs jobs one by one in a daemon thread, which starts with the first job and ends when idle."""

    def __init__(self, name: str) -> None:
        """Args: name: of the thread."""
        self._name = name
        self._changed = threading.Condition()
        self._jobs: deque[Callable[[], object]] = deque()
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[], object]) -> None:
        """Run a job in the thread; it must not raise.

        Raises:
            RuntimeError: no thread could be started; the job is not run.
        """
        with self._changed:
            if self._thread is None:
                self._thread = start_daemon(self._run, self._name)
            self._jobs.append(job)
            self._changed.notify()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            job()

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            if not self._jobs:
                self._changed.wait(LINGER_S)
            if not self._jobs:
                self._thread = None
                return None
            return self._jobs.popleft()


def start_daemon(target: Callable[..., object], name: str, *args: object) -> threading.Thread:
    """Start a daemon thread.

    Raises:
        RuntimeError: the limit of threads is reached, or the interpreter is shutting down.
    """
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    thread.start()
    return thread

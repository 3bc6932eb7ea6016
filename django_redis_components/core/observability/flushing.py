"""Data for the dashboard that a process collects in its memory, and a thread that adds it to Redis.

The thread runs only while there is something to add, and adds it every `FLUSH_S` seconds, in one round trip for each
connection. The data is for display: a process that is killed loses that of its last second, and what Redis does not
confirm is dropped, because adding it again could add it twice.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Mapping, Sequence

from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.guarded_logger import GuardedLogger
from django_redis_components.core.protocol import Command
from django_redis_components.core.settings import conf

#: Seconds between two transfers to Redis.
FLUSH_S = 1.0
#: Seconds between two warnings about the same data.
LOG_S = 60.0


class Collector:
    """Collects data in this process. Subclasses define what, and call `notify` when they have some.

    Attributes:
        name: of the thread.
        logger: of the component.
        warning: its message while Redis cannot be reached, with a place for the error.
    """

    name: str
    logger: GuardedLogger
    warning: str

    def __init__(self) -> None:
        self.reset()
        conf.on_change(self.clear)
        after_fork_in_child(self.reset)
        atexit.register(self.flush)

    def reset(self) -> None:
        """Begin anew. A forked child has the parent's data, but neither its thread nor the holders of its locks."""
        self._has_data = threading.Event()
        self._start_lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._next_log_at = 0.0

    def clear(self) -> None:
        """Forget all data, and end the thread: the settings have changed."""
        has_data = self._has_data
        self.reset()
        has_data.set()

    def take(self) -> Mapping[str, Sequence[Command]]:
        """Return the commands that add the data, by connection, and forget it."""
        raise NotImplementedError

    def timeout_s(self) -> float:
        """Return how long a transfer may wait for a reply, in seconds."""
        raise NotImplementedError

    def failed(self, using: str) -> None:
        """Is called after Redis did not confirm the data of a connection, which is dropped."""

    def notify(self) -> None:
        """Have the thread add the data within `FLUSH_S`."""
        if not self._has_data.is_set() and self._start():
            self._has_data.set()

    def flush(self) -> None:
        """Add the data to Redis, and wait for the thread if it does so; drop what Redis does not confirm."""
        with self._flush_lock:
            self._flush()

    def _flush(self) -> None:
        for using, requests in self.take().items():
            try:
                client = connections.client_with_timeout(using, self.timeout_s(), 0)
                errors = [reply for reply in client.execute_many(requests) if isinstance(reply, Exception)]
            except (RedisError, RedisComponentsError) as exc:
                errors = [exc]
            if errors:
                self.failed(using)
                self._log_error(errors[0])

    def _start(self) -> bool:
        """Start the thread if it does not run; return whether it runs. The next `notify` tries again."""
        with self._start_lock:
            if self._thread is None:
                thread = threading.Thread(
                    target=self._flush_repeatedly, args=(self._has_data,), name=self.name, daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # the interpreter is ending, or the system has no thread left
                    return False
                self._thread = thread
            return True

    def _flush_repeatedly(self, has_data: threading.Event) -> None:
        thread = threading.current_thread()
        while True:
            has_data.wait()
            time.sleep(FLUSH_S)
            if self._thread is not thread:
                return
            has_data.clear()
            try:
                self.flush()
            except BaseException:  # without the thread, the process would send no data any more
                self.logger.exception("Cannot add the data of %s to Redis.", self.name)

    def _log_error(self, error: Exception) -> None:
        if time.monotonic() >= self._next_log_at:
            self._next_log_at = time.monotonic() + LOG_S
            self.logger.warning(self.warning, error)

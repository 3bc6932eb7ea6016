"""Log messages about a Redis outage: one when it starts, a reminder every 30 s, and one when it ends.

Each thread of a worker retries about twice a second. Without this limit, an outage of an hour would write tens of
thousands of log lines.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from redis.exceptions import OutOfMemoryError, ResponseError

from django_redis_components.core.client import retry
from django_redis_components.core.client.exceptions import SlotMigrating

#: Seconds between two messages about the same outage. Lower: more log lines.
REMINDER_S = 30.0
#: Prefixes of errors of a server that accepts no writes: it cannot write to its disk, or has too few replicas.
_NO_WRITES = ("MISCONF ", "NOREPLICAS ")


def describe_error(exc: Exception) -> str:
    """Return the cause of a failed request, for the log."""
    if isinstance(exc, SlotMigrating):
        return f"The queue's Cluster slot is being moved ({exc})"
    problem = "Redis rejected the request" if is_error_reply(exc) else "Redis is unavailable"
    return f"{problem} ({type(exc).__name__}: {exc})"


def is_error_reply(exc: BaseException) -> bool:
    """Return whether the server replied with an error that a retry does not resolve."""
    return isinstance(exc, ResponseError) and not isinstance(exc, retry.NOT_EXECUTED_ERRORS)


def accepts_no_writes(exc: BaseException) -> bool:
    """Return whether the server refuses all writes. A script fails at its first one then, so nothing was executed."""
    return isinstance(exc, OutOfMemoryError) or (isinstance(exc, ResponseError) and str(exc).startswith(_NO_WRITES))


class OutageLog:
    """The outage that one loop observes. Threads may share it.

    Attributes:
        is_active: whether the last reported event was a failure.
    """

    def __init__(
        self,
        warn: Callable[[str], object],
        info: Callable[[str], object],
        prefix: str = "",
        end: str = "Redis is available again",
    ) -> None:
        """
        Args:
            warn: logs a failure.
            info: logs the end of the outage.
            prefix: precedes the message about the end.
            end: what has ended the outage.
        """
        self._warn = warn
        self._info = info
        self._end = prefix + end
        #: Held while a message is logged too: the last message must be about the last event. Reentrant, because a log
        #: handler may fail at the same Redis.
        self._lock = threading.RLock()
        self._started_at = 0.0
        self._logged_at = 0.0
        self.is_active = False

    def failed(self, message: str) -> None:
        """Log a failed request, unless one was logged in the last `REMINDER_S`."""
        now = time.monotonic()
        with self._lock:
            if self.is_active and now < self._logged_at + REMINDER_S:
                return
            if not self.is_active:
                self.is_active, self._started_at = True, now
            self._logged_at = now
            self._warn(message)

    def succeeded(self) -> None:
        """Log the end of the outage, if there was one."""
        if not self.is_active:
            return
        with self._lock:
            was_active, self.is_active = self.is_active, False
            if was_active:
                outage_s = time.monotonic() - self._started_at
                self._info(f"{self._end} after {outage_s:.1f} s.")

"""`RepeatedErrorLog`: log messages about a loop that fails again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

from django_redis_components.core.exception_text import safe_repr
from django_redis_components.core.guarded_logger import GuardedLogger

#: Seconds until a repeated error is logged again; they double with each message, up to the second number.
FIRST_REMINDER_S, MAX_REMINDER_S = 30.0, 3_600.0
#: Seconds without an error after which the next one is a new one, logged at once and with its traceback.
FORGOTTEN_S = 900.0
#: Most classes of errors whose tracebacks are logged until then.
MAX_TRACEBACKS = 10


class RepeatedErrorLog:
    """The errors of one loop: of each class the first with a traceback, then one line at growing distances.

    Only the thread of the loop may use it.

    Attributes:
        count: how often it has failed without a success in between.
        since: when it failed first, in seconds since the epoch.
    """

    def __init__(self, logger: GuardedLogger, what: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            logger: of the messages.
            what: what fails, at the start of a sentence: "The relay of the outbox".
            clock: monotonic seconds.
        """
        self._logger = logger
        self._what = what
        self._clock = clock
        self._tracebacks: set[type[BaseException]] = set()
        self._reminder_s = FIRST_REMINDER_S
        self._failed_at = self._logged_at = float("-inf")
        self._has_to_end = False
        self._started_at = 0.0
        self._unlogged = 0
        self.count = 0
        self.since = 0.0

    def failed(self, error: BaseException) -> None:
        """Log an error, unless it is repeated and one was logged lately."""
        now = self._clock()
        if now - self._failed_at > FORGOTTEN_S:
            self._tracebacks.clear()
            self._reminder_s, self._unlogged = FIRST_REMINDER_S, 0
        if not self.count:
            self.since, self._started_at = time.time(), now
        self._failed_at = now
        self.count += 1
        if type(error) not in self._tracebacks and len(self._tracebacks) < MAX_TRACEBACKS:
            self._tracebacks.add(type(error))
            self._logger.log_exception(error, "%s failed; retrying.", self._what)
        elif now - self._logged_at >= self._reminder_s:
            self._reminder_s = min(MAX_REMINDER_S, 2 * self._reminder_s)
            text = "%s failed %d times more in the last %.0f s; the latest error: %s"
            silent_s = now - self._logged_at
            self._logger.error(text, self._what, self._unlogged + 1, silent_s, safe_repr(error))
        else:
            self._unlogged += 1
            return
        self._logged_at, self._unlogged, self._has_to_end = now, 0, True

    def succeeded(self) -> None:
        """Log that it works again, if a message has said that it fails."""
        if not self.count:
            return
        failures, self.count = self.count, 0
        if self._has_to_end:
            self._has_to_end = False
            failed_s = self._clock() - self._started_at
            self._logger.info("%s works again: it has failed for %.1f s (%d×).", self._what, failed_s, failures)

"""A circuit breaker: after Redis has failed it is left alone for a while, so that not every request waits for it.

Every process has its own. It takes no lock: two threads may both try after a pause, which does no harm.
"""

from __future__ import annotations

import time

#: Seconds for which Redis is left alone after it has failed.
PAUSE_S = 5.0
#: Seconds between two lines in the log.
LOG_EVERY_S = 60.0


class Breaker:
    """Lets one try reach a Redis that has failed, while the other requests go on without it."""

    __slots__ = ("_paused_until", "_silent_until")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget failures: the settings may point elsewhere now."""
        self._paused_until = 0.0
        self._silent_until = 0.0

    def may_try(self, pause_s: float = PAUSE_S) -> bool:
        """Whether to ask. After a failure, one caller is let through every `pause_s` seconds."""
        if not self._paused_until:
            return True
        now = time.monotonic()
        if now < self._paused_until:
            return False
        self._paused_until = now + pause_s
        return True

    def failed(self, pause_s: float = PAUSE_S) -> None:
        """Redis did not answer: nobody asks for `pause_s` seconds."""
        self._paused_until = time.monotonic() + pause_s

    def succeeded(self) -> None:
        """Redis has answered."""
        self._paused_until = 0.0

    def left_s(self) -> float:
        """Seconds until the next try."""
        return max(0.0, self._paused_until - time.monotonic()) if self._paused_until else 0.0

    def may_log(self, every_s: float = LOG_EVERY_S) -> bool:
        """Whether to write a line now: once in `every_s` seconds."""
        now = time.monotonic()
        if now < self._silent_until:
            return False
        self._silent_until = now + every_s
        return True

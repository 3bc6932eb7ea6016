"""A circuit breaker: after Redis has failed or was slow it is left alone for a while, so that not every request waits.

Slow answers use up a budget: up to `BURST_S` at once, and `SLOW_SHARE` of the time in the long run. The caller bounds a
single answer by a short timeout (`connections.client_with_timeout`).

Every process has its own. It takes no lock: two threads may both try after a pause, which does no harm.
"""

from __future__ import annotations

import time

#: Seconds for which Redis is left alone after it has failed.
PAUSE_S = 5.0
#: Seconds between two lines in the log.
LOG_EVERY_S = 60.0
#: Seconds from which an answer is slow. Faster ones are never counted: they cost a page little, however many there are.
SLOW_S = 0.1
#: Share of the time that slow answers may take in one process. Raising it makes pages slower while Redis is.
SLOW_SHARE = 0.1
#: Seconds of slow answers that need no pause, as a server needs them that forks for its snapshot.
BURST_S = 0.5


class CircuitBreaker:
    """Lets one try reach a Redis that has failed, while the other requests go on without it."""

    __slots__ = ("_paused_until", "_silent_until", "_slow_at", "_slow_s")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget failures: the settings may point elsewhere now."""
        self._paused_until = 0.0
        self._silent_until = 0.0
        self._slow_s = self._slow_at = 0.0

    def allows_request(self, pause_s: float = PAUSE_S) -> bool:
        """Whether to ask. After a failure, one caller is let through every `pause_s` seconds."""
        if not self._paused_until:
            return True
        now = time.monotonic()
        if now < self._paused_until:
            return False
        self._paused_until = now + pause_s
        return True

    def record_failure(self, pause_s: float = PAUSE_S) -> None:
        """Redis did not answer: nobody asks for `pause_s` seconds."""
        self._paused_until = time.monotonic() + pause_s

    def record_success(self, took_s: float = 0.0) -> None:
        """Redis has answered.

        Args:
            took_s: how long the caller waited for it. What is slow uses up the budget, and then nobody asks for so
                long that slow answers take `SLOW_SHARE` of the time; at most `PAUSE_S`.
        """
        self._paused_until = 0.0
        if took_s < SLOW_S:
            return
        now = time.monotonic()
        left_s = max(0.0, self._slow_s - (now - self._slow_at) * SLOW_SHARE)
        self._slow_s, self._slow_at = min(left_s + took_s, BURST_S + PAUSE_S * SLOW_SHARE), now
        if self._slow_s > BURST_S:
            self._paused_until = now + (self._slow_s - BURST_S) / SLOW_SHARE

    def retry_after_s(self) -> float:
        """Seconds until the next try."""
        return max(0.0, self._paused_until - time.monotonic()) if self._paused_until else 0.0

    def should_log(self, every_s: float = LOG_EVERY_S) -> bool:
        """Whether to write a line now: once in `every_s` seconds."""
        now = time.monotonic()
        if now < self._silent_until:
            return False
        self._silent_until = now + every_s
        return True

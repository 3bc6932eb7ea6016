"""A circuit breaker: after Redis has failed or was slow, requests skip it for a while instead of waiting for it.

Slow replies use up a budget of `BURST_S` seconds, refilled with `SLOW_SHARE` seconds per second. A single reply is
limited by the timeout of the client (`connections.client_with_timeout`).

Each process has its own state. It takes no lock: after a pause two threads may both try, which is harmless.
"""

from __future__ import annotations

import time

#: Seconds for which Redis is skipped after a failure.
PAUSE_S = 5.0
#: Seconds between two log lines.
LOG_EVERY_S = 60.0
#: A reply that takes longer, in seconds, is slow. Faster ones use none of the budget.
SLOW_S = 0.1
#: Seconds of slow replies allowed per second, in one process. Raising it makes pages slower while Redis is slow.
SLOW_SHARE = 0.1
#: Seconds of slow replies allowed at once, such as while the server forks for a snapshot.
BURST_S = 0.5


class CircuitBreaker:
    """Lets single requests reach a Redis that has failed, while the others skip it."""

    __slots__ = ("_next_log_at", "_open_until", "_slow_at", "_slow_s")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all failures, after a change of the settings."""
        self._open_until = 0.0
        self._next_log_at = 0.0
        self._slow_s = self._slow_at = 0.0

    def allows_request(self, pause_s: float = PAUSE_S) -> bool:
        """Return whether to send a request. After a failure, one request per `pause_s` is allowed."""
        if not self._open_until:
            return True
        now = time.monotonic()
        if now < self._open_until:
            return False
        self._open_until = now + pause_s
        return True

    def record_failure(self, pause_s: float = PAUSE_S) -> None:
        """Record a failed request: no request is allowed for `pause_s` seconds."""
        self._open_until = time.monotonic() + pause_s

    def record_success(self, took_s: float = 0.0) -> None:
        """Record a reply.

        Args:
            took_s: how long the caller waited for it. If the budget for slow replies is used up, no request is allowed
                until it has recovered, for at most `PAUSE_S`.
        """
        self._open_until = 0.0
        if took_s < SLOW_S:
            return
        now = time.monotonic()
        left_s = max(0.0, self._slow_s - (now - self._slow_at) * SLOW_SHARE)
        self._slow_s, self._slow_at = min(left_s + took_s, BURST_S + PAUSE_S * SLOW_SHARE), now
        if self._slow_s > BURST_S:
            self._open_until = now + (self._slow_s - BURST_S) / SLOW_SHARE

    def retry_after_s(self) -> float:
        """Return the seconds until a request is allowed again."""
        return max(0.0, self._open_until - time.monotonic()) if self._open_until else 0.0

    def should_log(self, every_s: float = LOG_EVERY_S) -> bool:
        """Return whether to log now: once per `every_s` seconds."""
        now = time.monotonic()
        if now < self._next_log_at:
            return False
        self._next_log_at = now + every_s
        return True

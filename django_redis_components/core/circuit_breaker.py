"""A circuit breaker: after Redis has failed or was slow, requests skip it for a while instead of waiting for it.

Late replies use up a budget of `BURST_S` seconds, refilled with `SLOW_SHARE` seconds per second. The connections report
them (`client.transport`): they know how long the server has not answered, while a caller may have waited for the
interpreter or for a busy event loop. A single reply is limited by the timeout of the client
(`connections.client_with_timeout`).

Each process has one breaker for each connection alias. It takes no lock: after `OPEN_S` two threads may both try, which
is harmless.
"""

from __future__ import annotations

import time

from django_redis_components.core.settings import conf

#: Seconds for which Redis is skipped after a failure.
OPEN_S = 5.0
#: Seconds between two log lines.
LOG_EVERY_S = 60.0
#: A request that the server has not answered after this time, in seconds, is late. Others use none of the budget.
SLOW_S = 0.1
#: Seconds of late replies allowed per second, in one process. Raising it makes pages slower while Redis is slow.
SLOW_SHARE = 0.1
#: Seconds of late replies allowed at once, such as while the server forks for a snapshot.
BURST_S = 0.5


class CircuitBreaker:
    """Lets single requests reach a Redis that has failed, while the others skip it.

    Attributes:
        reason: why requests skip Redis, or did last.
    """

    __slots__ = ("_next_log_at", "_open_until", "_slow_at", "_slow_s", "reason")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all failures, after a change of the settings."""
        self._open_until = 0.0
        self._next_log_at: dict[str, float] = {}
        self._slow_s = self._slow_at = 0.0
        self.reason = ""

    @property
    def is_open(self) -> bool:
        """Whether Redis has failed or was slow, and has not answered in time since."""
        return bool(self._open_until)

    def allows_request(self, open_s: float = OPEN_S) -> bool:
        """Return whether to send a request. After a failure, one request per `open_s` is allowed."""
        if not self._open_until:
            return True
        now = time.monotonic()
        if now < self._open_until:
            return False
        self._open_until = now + open_s
        return True

    def record_failure(self, open_s: float = OPEN_S, reason: object = "Redis does not answer.") -> None:
        """Record a failed request: no request is allowed for `open_s` seconds."""
        self._open_until = time.monotonic() + open_s
        self.reason = str(reason)

    def record_success(self) -> None:
        """Record a reply: requests are allowed again, unless the budget for late replies is used up."""
        if self._open_until and self._left_s(time.monotonic()) <= BURST_S:
            self._open_until = 0.0

    def record_late(self, waited_s: float) -> None:
        """Record that the server has not answered a request yet. A connection calls it again while that lasts.

        Time in which several requests waited counts once. If the budget is used up, no request is allowed until it has
        recovered, for at most `OPEN_S`.

        Args:
            waited_s: seconds since the request was sent.
        """
        if waited_s < SLOW_S:
            return
        now = time.monotonic()
        late_s = min(waited_s, now - self._slow_at)
        self._slow_s, self._slow_at = min(self._left_s(now) + late_s, BURST_S + OPEN_S * SLOW_SHARE), now
        if self._slow_s > BURST_S:
            self._open_until = now + (self._slow_s - BURST_S) / SLOW_SHARE
            self.reason = "Redis is slow."

    def retry_after_s(self) -> float:
        """Return the seconds until a request is allowed again."""
        return max(0.0, self._open_until - time.monotonic()) if self._open_until else 0.0

    def should_log(self, every_s: float = LOG_EVERY_S, topic: str = "") -> bool:
        """Return whether to log now: once per `every_s` seconds for each topic."""
        now = time.monotonic()
        if now < self._next_log_at.get(topic, 0.0):
            return False
        self._next_log_at[topic] = now + every_s
        return True

    def _left_s(self, now: float) -> float:
        """Return the part of the budget that is used."""
        return max(0.0, self._slow_s - (now - self._slow_at) * SLOW_SHARE)


_breakers: dict[str, CircuitBreaker] = {}
#: Limits the lines about requests of visitors that have failed.
_log_limit = CircuitBreaker()


def breaker_for(using: str) -> CircuitBreaker:
    """Return the circuit breaker of a connection alias in this process."""
    return _breakers.get(using) or _breakers.setdefault(using, CircuitBreaker())


def should_log_failure(topic: str) -> bool:
    """Return whether to log a request that has failed: once a minute for each topic, as visitors and probes repeat."""
    return _log_limit.should_log(topic=topic)


def forget_failures() -> None:
    """Close all circuit breakers: after a change of the settings, and between tests."""
    for each in (_log_limit, *_breakers.values()):
        each.reset()


conf.on_change(forget_failures)

"""Exceptions of rate limits. `on_error` decides on connection errors of hits; other methods raise redis-py's."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.ratelimits.decision import Decision


class RateLimitError(RedisComponentsError):
    """Base class of the exceptions of rate limits.

    Attributes:
        name: the limit's name.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class RateLimited(RateLimitError):
    """A call of a function with `@rate_limit` was denied.

    Attributes:
        decision: the decision on the call.
        retry_after: seconds until the call would be allowed.
    """

    def __init__(self, name: str, decision: Decision) -> None:
        is_counted = decision.is_checked or decision.states  # by the server, or by this process
        why = "is exceeded" if is_counted else "cannot be checked, as Redis does not answer"
        wait_s = decision.retry_after
        wait = f"{wait_s:.0f}" if wait_s >= 100 else f"{wait_s:.3g}"
        super().__init__(name, f"Rate limit {name!r} {why}: try again in {wait} s.")
        self.decision = decision
        self.retry_after = decision.retry_after

"""What rate limits raise. Errors of the connection are decided by `on_error`, or are those of `redis.exceptions`."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.ratelimits.decision import Decision


class RateLimitError(RedisComponentsError):
    """Root of the errors of rate limits.

    Attributes:
        name: the limit's name.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class RateLimited(RateLimitError):
    """A function that has a rate limit was called too often.

    Attributes:
        decision: the answer to the call.
        retry_after: seconds until it would be allowed.
    """

    def __init__(self, name: str, decision: Decision) -> None:
        why = "is exceeded" if decision.checked else "cannot be checked, as Redis does not answer"
        wait_s = decision.retry_after
        wait = f"{wait_s:.0f}" if wait_s >= 100 else f"{wait_s:.3g}"
        super().__init__(name, f"Rate limit {name!r} {why}: try again in {wait} s.")
        self.decision = decision
        self.retry_after = decision.retry_after

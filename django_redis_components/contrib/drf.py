"""A throttle for Django REST framework that counts in Redis, atomically, with the room's rate limits.

    REST_FRAMEWORK = {
        "DEFAULT_THROTTLE_CLASSES": ["django_redis_components.contrib.drf.RedisRateThrottle"],
        "DEFAULT_THROTTLE_RATES": {"api": "100/m"},
    }

Like the framework's own it is a class with a `scope` in ``DEFAULT_THROTTLE_RATES``, or a `rate`; subclasses set others.
Where those read a list from Django's cache, change it and write it back, so that requests at the same time are not
counted, this asks one script. ``DEFAULT_THROTTLE_RATES`` may name several rates for a scope: ``["10/s", "1000/h"]``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.rates import RateLike
from django_redis_components.ratelimits import Decision, RateLimit
from django_redis_components.ratelimits.limiter import Penalty
from django_redis_components.ratelimits.visitors import visitor


class RedisRateThrottle:
    """Limits requests by user, or by address of who is not signed in.

    Attributes:
        scope: names the limit, and its rate in ``DEFAULT_THROTTLE_RATES``.
        rate: a rate, or a list of them; None asks the framework's settings.
        key: "ip", "user" or "user_or_ip".
        algorithm, penalty, on_error, using: see `RateLimit`.
    """

    scope: ClassVar[str] = "api"
    rate: ClassVar[RateLike | list[RateLike] | None] = None
    key: ClassVar[str] = "user_or_ip"
    algorithm: ClassVar[str] = "gcra"
    penalty: ClassVar[Penalty | None] = None
    on_error: ClassVar[str] = "open"
    using: ClassVar[str] = "default"

    #: The answer to the request; the framework makes a throttle for each.
    decision: Decision | None = None

    def allow_request(self, request: Any, view: Any) -> bool:
        """Count the request. It is limited unless `get_key` returns None, or the scope has no rate (None)."""
        rates = self.get_rates()
        key = self.get_key(request, view) if rates else None
        if key is None:
            return True
        limit = _limit(self.scope, rates, self.algorithm, self.penalty, self.on_error, self.using)
        self.decision = limit.hit_of(request._request, key)
        return self.decision.allowed

    def wait(self) -> float | None:
        """Seconds until the request would be allowed; the framework puts them into Retry-After."""
        return None if self.decision is None else self.decision.retry_after

    def get_key(self, request: Any, view: Any) -> str | None:
        """Whose request it is; None if it is not limited."""
        return visitor(self.key, request)

    def get_rates(self) -> tuple[RateLike, ...]:
        """The rates; none if the scope is not limited.

        Raises:
            ConfigurationError: the framework's settings do not name the scope.
        """
        if self.rate is not None:
            return _several(self.rate)
        from rest_framework.settings import api_settings

        named = api_settings.DEFAULT_THROTTLE_RATES
        if self.scope not in named:
            raise ConfigurationError(
                f'REST_FRAMEWORK["DEFAULT_THROTTLE_RATES"] has no {self.scope!r}, '
                f"the scope of {type(self).__name__}; or set its rate."
            )
        return _several(named[self.scope])


def _several(rates: Any) -> tuple[RateLike, ...]:
    if rates is None:
        return ()
    return tuple(rates) if isinstance(rates, list) else (rates,)


@lru_cache(maxsize=256)
def _limit(
    scope: str, rates: tuple[RateLike, ...], algorithm: str, penalty: Penalty | None, on_error: str, using: str
) -> RateLimit:
    return RateLimit(scope, *rates, algorithm=algorithm, penalty=penalty, on_error=on_error, using=using)

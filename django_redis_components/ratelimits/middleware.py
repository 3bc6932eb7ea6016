"""The middleware that limits the requests of a site."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from django_redis_components.core.request_middleware import RequestMiddleware
from django_redis_components.core.settings import conf
from django_redis_components.ratelimits.limit import RateLimit
from django_redis_components.ratelimits.request_keys import arequest_key, request_key
from django_redis_components.ratelimits.responses import add_rate_limit_headers, too_many_requests

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase

    from django_redis_components.ratelimits.decision import Decision

#: The limit's name.
NAME = "site"


class RateLimitMiddleware(RequestMiddleware):
    """Limit the requests of each visitor by `RATES` and `KEY` in ``REDIS_COMPONENTS["RATELIMITS"]``.

    With "ip", list it near the top, above the session middleware. With "user" and "user_or_ip", list it below the
    session and authentication middlewares. Without rates nothing is limited.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._acall(request)
        limit = _limit_for(request)
        if limit is None:
            return self._next(request)
        decision = limit.hit(request_key(conf.settings().ratelimits.key, request), request=request)
        return _respond(limit, decision, None if not decision.is_allowed else self._next(request))

    async def _acall(self, request: HttpRequest) -> HttpResponseBase:
        limit = _limit_for(request)
        if limit is None:
            return await self._anext(request)
        decision = await limit.ahit(await arequest_key(conf.settings().ratelimits.key, request), request=request)
        return _respond(limit, decision, None if not decision.is_allowed else await self._anext(request))


def _respond(limit: RateLimit, decision: Decision, response: HttpResponseBase | None) -> HttpResponseBase:
    response = too_many_requests(decision) if response is None else response
    add_rate_limit_headers(response, limit.rates, decision)
    return response


_limits: list[RateLimit] = []
conf.on_change(_limits.clear)


def _limit_for(request: HttpRequest) -> RateLimit | None:
    options = conf.settings().ratelimits
    if not options.rates or request.path.startswith(tuple(options.exclude_paths)):
        return None
    if not _limits:
        _limits.append(
            RateLimit(
                NAME,
                *options.rates,
                algorithm=options.algorithm,
                penalty=options.penalty,
                on_error=options.on_error,
                using=options.using,
            )
        )
    return _limits[0]

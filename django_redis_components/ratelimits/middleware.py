"""The middleware that limits all requests of a site."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction

from django_redis_components.core import conf
from django_redis_components.ratelimits.limit import RateLimit
from django_redis_components.ratelimits.responses import describe, too_many_requests
from django_redis_components.ratelimits.visitors import avisitor, visitor

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase

    from django_redis_components.ratelimits.decision import Decision

#: The limit's name.
NAME = "site"


class RateLimitMiddleware:
    """Limits how many requests each visitor makes: `RATES` and `KEY` in ``REDIS_COMPONENTS["RATELIMITS"]``.

    With "ip" it stands near the top, above the session. With "user" and "user_or_ip" it stands below the session and
    authentication middlewares. Without rates it limits nothing.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._acall(request)
        limit = _limit_for(request)
        if limit is None:
            return cast("HttpResponseBase", self.get_response(request))
        decision = limit.hit_of(request, visitor(conf.settings().ratelimits.key, request))
        return _described(limit, decision, None if not decision.allowed else self.get_response(request))

    async def _acall(self, request: HttpRequest) -> HttpResponseBase:
        limit = _limit_for(request)
        if limit is None:
            return cast("HttpResponseBase", await self.get_response(request))
        decision = await limit.ahit_of(request, await avisitor(conf.settings().ratelimits.key, request))
        return _described(limit, decision, None if not decision.allowed else await self.get_response(request))


def _described(limit: RateLimit, decision: Decision, response: HttpResponseBase | None) -> HttpResponseBase:
    answer = too_many_requests(decision) if response is None else response
    describe(answer, limit.rates, decision)
    return answer


_limits: list[RateLimit] = []
conf.on_change(_limits.clear)


def _limit_for(request: HttpRequest) -> RateLimit | None:
    chosen = conf.settings().ratelimits
    if not chosen.rates or request.path.startswith(tuple(chosen.exclude_paths)):
        return None
    if not _limits:
        _limits.append(
            RateLimit(
                NAME,
                *chosen.rates,
                algorithm=chosen.algorithm,
                penalty=chosen.penalty,
                on_error=chosen.on_error,
                using=chosen.using,
            )
        )
    return _limits[0]

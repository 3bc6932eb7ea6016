"""The middleware that makes requests known as the origin of the tasks that they enqueue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction

from django_redis_components.core.leasing.holder import working_for

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase


class TaskOriginMiddleware:
    """Name the request in the tasks that it enqueues, with ``TASKQUEUE["RECORD_ORIGIN"]``, and in the locks it holds.

    `AnalyticsMiddleware` and `RateLimitMiddleware` do the same: a site with one of them does not need it.
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
        with working_for(request):
            return cast("HttpResponseBase", self.get_response(request))

    async def _acall(self, request: HttpRequest) -> HttpResponseBase:
        with working_for(request):
            return cast("HttpResponseBase", await self.get_response(request))

"""The base class of the package's middlewares of requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction

from django_redis_components.core.leasing.holder import working_for

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase


class RequestMiddleware:
    """Take sync and async requests, and name each in the locks and tasks of what follows (`working_for`)."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        return self._anext(request) if self._is_async else self._next(request)

    def _next(self, request: HttpRequest) -> HttpResponseBase:
        with working_for(request):
            return cast("HttpResponseBase", self.get_response(request))

    async def _anext(self, request: HttpRequest) -> HttpResponseBase:
        with working_for(request):
            return cast("HttpResponseBase", await self.get_response(request))

"""The middleware that makes requests known as the origin of the tasks that they enqueue."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from django_redis_components.core.request_middleware import RequestMiddleware

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase


class TaskOriginMiddleware(RequestMiddleware):
    """Name the request in the tasks that it enqueues, with ``TASKQUEUE["RECORD_ORIGIN"]``, and in the locks it holds.

    `AnalyticsMiddleware` and `RateLimitMiddleware` do the same: a site with one of them does not need it.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        return self._anext(request) if self._is_async else self._next(request)

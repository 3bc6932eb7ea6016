"""The middleware that makes requests known as the origin of the tasks that they enqueue."""

from __future__ import annotations

from django_redis_components.core.request_middleware import RequestMiddleware


class TaskOriginMiddleware(RequestMiddleware):
    """Name the request in the tasks that it enqueues, with ``TASKQUEUE["RECORD_ORIGIN"]``, and in the locks it holds.

    `AnalyticsMiddleware` and `RateLimitMiddleware` do the same: a site with one of them does not need it.
    """

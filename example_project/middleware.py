"""Two small middlewares: a strict policy for the browser, and what pages do while Redis is unavailable."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_redis_components.core.client.budget import page_budget
from example_project.market.views.notices import try_later

#: Nothing inline and nothing from elsewhere. ``data:`` images are the icons in the admin's own stylesheets.
POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)

#: Seconds after which a browser may retry.
RETRY_AFTER_S = 5
#: Seconds that a page which only reads waits for Redis, in total. Then it is shown without its numbers.
PAGE_BUDGET_S = 1.0


class ContentSecurityPolicy:
    """Add the policy to every response."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        return response


class RedisUnavailableMiddleware:
    """Show pages without their numbers while Redis is slow or unavailable, and 503 if they need it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            return self.get_response(request)
        with page_budget(PAGE_BUDGET_S):
            return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return the 503 page for connection errors and timeouts of Redis."""
        if not isinstance(exception, RedisConnectionError | RedisTimeoutError):
            return None
        return try_later(request, "market/unavailable.html", retry_after_s=RETRY_AFTER_S)

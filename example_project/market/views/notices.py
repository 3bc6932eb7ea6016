"""Error pages with a `Retry-After` header."""

from __future__ import annotations

import math

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from django_redis_components.ratelimits import Decision


def try_later(
    request: HttpRequest, template: str, *, retry_after_s: int, status: int = 503, **context: object
) -> HttpResponse:
    """Render an error page with `Retry-After`."""
    response = render(request, template, context, status=status)
    response["Retry-After"] = str(retry_after_s)
    return response


def too_many_attempts(request: HttpRequest, decision: Decision) -> HttpResponse:
    """Render the page of a denied sign-in attempt (429)."""
    seconds = max(1, math.ceil(decision.retry_after))
    minutes = math.ceil(seconds / 60) if seconds >= 90 else 0
    return try_later(
        request, "market/too_many_attempts.html", retry_after_s=seconds, status=429, seconds=seconds, minutes=minutes
    )

"""The pages for "not now, but soon"."""

from __future__ import annotations

import math

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from django_redis_components.ratelimits import Decision


def not_now(
    request: HttpRequest, template: str, *, retry_after_s: int, status: int = 503, **context: object
) -> HttpResponse:
    """A page that says when to try again, in words and in a header."""
    response = render(request, template, context, status=status)
    response["Retry-After"] = str(retry_after_s)
    return response


def too_often(request: HttpRequest, decision: Decision) -> HttpResponse:
    """The page for who tries too often (429)."""
    seconds = max(1, math.ceil(decision.retry_after))
    minutes = math.ceil(seconds / 60) if seconds >= 90 else 0
    return not_now(
        request, "market/too_often.html", retry_after_s=seconds, status=429, seconds=seconds, minutes=minutes
    )

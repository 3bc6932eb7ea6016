"""The page for "not now, but soon"."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def not_now(request: HttpRequest, template: str, *, retry_after_s: int, **context: object) -> HttpResponse:
    """A page with status 503 that says when to come back, to people in words and to programs in a header."""
    response = render(request, template, context, status=503)
    response["Retry-After"] = str(retry_after_s)
    return response

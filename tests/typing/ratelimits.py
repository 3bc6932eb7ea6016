"""Rate limits."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

from django.http import HttpRequest, HttpResponse

from django_redis_components.ratelimits import Decision, RateLimit, rate_limit


@rate_limit("5/m", (10, timedelta(hours=1)), key="user", algorithm="sliding", on_error="closed")
def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


async def right() -> None:
    limit = RateLimit("login", "5/m", penalty=(3, 60))
    assert_type(limit.hit("ada"), Decision)
    assert_type((await limit.ahit("ada", timeout=1)).retry_after, float)
    assert_type(page(HttpRequest()), HttpResponse)


def wrong() -> None:
    RateLimit("login", "5/m", algorithm="leaky")  # type: ignore[arg-type]
    RateLimit("login", "5/m", on_error="deny")  # type: ignore[arg-type]
    RateLimit("login", 5)  # type: ignore[arg-type]
    RateLimit("login", "5/m").hit(None)  # type: ignore[arg-type]
    rate_limit("5/m", on_error="raise")  # type: ignore[arg-type]
    rate_limit("5/m", algorythm="gcra")  # type: ignore[call-arg]

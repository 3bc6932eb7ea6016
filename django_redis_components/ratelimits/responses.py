"""HTTP responses: 429, Retry-After, and the RateLimit header fields of the IETF draft.

    RateLimit-Policy: "5/m";q=5;w=60, "100/h";q=100;w=3600        quota, window in seconds
    RateLimit: "5/m";r=3;t=24                                      allowed: remaining, seconds until the full limit
    RateLimit: "5/m";r=0;t=12                                      denied: remaining, seconds until a retry

(draft-ietf-httpapi-ratelimit-headers-11 of May 2026; the fields are those of -10, lists of structured fields.) The
policy's name is the rate. As the draft requires, Retry-After is never before the `t` of a rate that denies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import ngettext

from django_redis_components.core.rates import ParsedRate
from django_redis_components.ratelimits.algorithms import RateState
from django_redis_components.ratelimits.decision import Decision


def too_many_requests(decision: Decision) -> HttpResponse:
    """Return the response to a denied request: one line of text."""
    seconds = whole_seconds(decision.retry_after)
    text = ngettext(
        "Too many requests. Try again in %(seconds)d second.",
        "Too many requests. Try again in %(seconds)d seconds.",
        seconds,
    )
    return HttpResponse(text % {"seconds": seconds}, content_type="text/plain; charset=utf-8", status=429)


def add_rate_limit_headers(response: HttpResponseBase, rates: Sequence[ParsedRate], decision: Decision) -> None:
    """Add the RateLimit fields, and Retry-After to a denial. Fields of other limits are kept."""
    add_fields(response.headers, rates, decision)
    if not decision.is_allowed:
        response.headers["Retry-After"] = str(whole_seconds(decision.retry_after))


def add_fields(headers: Any, rates: Sequence[ParsedRate], decision: Decision) -> None:
    """Add the RateLimit fields to a mapping of header fields."""
    _add(headers, "RateLimit-Policy", [f'"{rate}";q={rate.limit};w={_window_s(rate)}' for rate in rates])
    if decision.is_blocked:
        _add(headers, "RateLimit", [f'"{rates[0]}";r=0;t={whole_seconds(decision.retry_after)}'])
    elif decision.is_checked:
        _add(headers, "RateLimit", [_service_limit(state, _age(decision)) for state in decision.states])


def whole_seconds(seconds: float) -> int:
    """Round up, to at least 1: a retry after this time is allowed."""
    return max(1, math.ceil(seconds))


def _service_limit(state: RateState, age_s: float) -> str:
    left_s = max(0.0, (state.retry_after or state.reset_after) - age_s)
    return f'"{state.rate}";r={state.remaining};t={math.ceil(round(left_s, 6))}'


def _age(decision: Decision) -> float:
    """Return the seconds since the server decided: a cached denial has the states of that time."""
    if decision.is_allowed:
        return 0.0
    return max(state.retry_after for state in decision.states) - decision.retry_after


def _window_s(rate: ParsedRate) -> int:
    return max(1, -(-rate.period_us // 1_000_000))


def _add(headers: Any, name: str, items: list[str]) -> None:
    present = headers.get(name)
    headers[name] = ", ".join([present, *items] if present else items)

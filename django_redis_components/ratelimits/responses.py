"""What a browser or an API client is told: 429, Retry-After, and the RateLimit header fields of the IETF's draft.

    RateLimit-Policy: "5/m";q=5;w=60, "100/h";q=100;w=3600        quota and window, in seconds
    RateLimit: "5/m";r=3;t=24                                      what remains, and when all of it is there again
    RateLimit: "5/m";r=0;t=12                                      denied: what remains, and when to come again

(draft-ietf-httpapi-ratelimit-headers-11 of May 2026, whose fields are those of -10; both are lists of structured
fields.) The policy's name is the rate. Retry-After never lies before the `t` of a rate that denies, as the draft asks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils.translation import ngettext

from django_redis_components.core.rates import Rate
from django_redis_components.ratelimits.algorithms import State
from django_redis_components.ratelimits.decision import Decision


def too_many_requests(decision: Decision) -> HttpResponse:
    """The answer to a request that is denied: one line of text."""
    seconds = whole_seconds(decision.retry_after)
    words = ngettext(
        "Too many requests. Try again in %(seconds)d second.",
        "Too many requests. Try again in %(seconds)d seconds.",
        seconds,
    )
    return HttpResponse(words % {"seconds": seconds}, content_type="text/plain; charset=utf-8", status=429)


def describe(response: HttpResponseBase, rates: Sequence[Rate], decision: Decision) -> None:
    """Put the header fields on a response. Where there are some of another limit, these are added to them."""
    add_fields(response.headers, rates, decision)
    if not decision.allowed:
        response.headers["Retry-After"] = str(whole_seconds(decision.retry_after))


def add_fields(headers: Any, rates: Sequence[Rate], decision: Decision) -> None:
    """Add the RateLimit fields to a mapping of header fields."""
    _add(headers, "RateLimit-Policy", [f'"{rate}";q={rate.limit};w={_window_s(rate)}' for rate in rates])
    if decision.blocked:
        _add(headers, "RateLimit", [f'"{rates[0]}";r=0;t={whole_seconds(decision.retry_after)}'])
    elif decision.checked:
        _add(headers, "RateLimit", [_service_limit(state, _age_us(decision)) for state in decision.states])


def whole_seconds(seconds: float) -> int:
    """Rounded up, and never 0: who comes back then is let in."""
    return max(1, math.ceil(seconds))


def _service_limit(state: State, age_us: int) -> str:
    window_us = max(0, (state.retry_us or state.reset_us) - age_us)
    return f'"{state.rate}";r={state.remaining};t={-(-window_us // 1_000_000)}'


def _age_us(decision: Decision) -> int:
    """How long ago the server was asked: a denial from memory has the states of that moment."""
    if decision.allowed:
        return 0
    return max(state.retry_us for state in decision.states) - round(decision.retry_after * 1_000_000)


def _window_s(rate: Rate) -> int:
    return max(1, -(-rate.period_us // 1_000_000))


def _add(headers: Any, name: str, items: list[str]) -> None:
    there = headers.get(name)
    headers[name] = ", ".join([there, *items] if there else items)

"""`allow_hits()` and `deny_hits()`."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from django_redis_components.ratelimits import RateLimit, rate_limit, rate_limited
from django_redis_components.testing import allow_hits, deny_hits


@pytest.fixture(autouse=True)
def _no_server(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {
        "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0", "RETRIES": 0}},
        "RATELIMITS": {"ON_ERROR": "closed"},
    }


@rate_limit("5/m", name="page", on_error="closed")
def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("page")


def get_page() -> int:
    return page(RequestFactory().get("/")).status_code


def test_allow_hits_allows_any_number_without_redis() -> None:
    limit = RateLimit("login", "2/h", "9/d", on_error="closed")

    with allow_hits():
        decisions = [limit.hit("ada") for _ in range(20)]

    assert all(decision.is_allowed and decision.is_checked for decision in decisions)
    assert (decisions[0].limit, decisions[0].remaining) == (2, 1)


def test_deny_hits_denies_the_requests_of_a_view() -> None:
    with deny_hits(retry_after=30):
        response = page(RequestFactory().get("/"))

    assert (response.status_code, response["Retry-After"]) == (429, "30")


def test_deny_hits_applies_to_the_named_limits_only() -> None:
    with allow_hits(), deny_hits("page"):
        assert RateLimit("login", "2/h").hit("ada")
        assert get_page() == 429


def test_inner_block_wins_and_the_outer_one_is_restored() -> None:
    with deny_hits():
        with allow_hits():
            assert get_page() == 200
        assert get_page() == 429


def test_hits_are_counted_again_after_the_block() -> None:
    with allow_hits():
        pass

    assert not RateLimit("login", "2/h", on_error="closed").hit("ada").is_checked


def test_denied_hit_sends_the_signal() -> None:
    keys = []

    def receive(key: str, **_: Any) -> None:
        keys.append(key)

    rate_limited.connect(receive)
    try:
        with deny_hits():
            RateLimit("login", "2/h").hit("ada")
    finally:
        rate_limited.disconnect(receive)

    assert keys == ["ada"]


def test_impossible_cost_raises_as_it_does_with_redis() -> None:
    with allow_hits(), pytest.raises(ValueError, match="cost=3"):
        RateLimit("login", "2/h").hit("ada", 3)


async def hit_twice() -> list[bool]:
    limit = RateLimit("login", "1/h", on_error="closed")
    return [bool(await limit.ahit("ada")) for _ in range(2)]


@pytest.mark.parametrize(("block", "expected"), [(allow_hits(), [True, True]), (deny_hits(), [False, False])])
def test_decorates_coroutine_functions(block: Any, expected: list[bool]) -> None:
    import asyncio

    assert asyncio.run(block(hit_twice)()) == expected


def test_decorates_functions() -> None:
    assert deny_hits("page")(get_page)() == 429


def test_refuses_a_class_and_an_impossible_name() -> None:
    with pytest.raises(TypeError, match=r"use self\.enterContext"):
        allow_hits()(type)
    with pytest.raises(ValueError, match="rate limit name"):
        allow_hits("a{b}")

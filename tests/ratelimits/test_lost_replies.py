"""Each operation when the request is executed and its reply is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.client.connections import client
from django_redis_components.core.protocol import run
from django_redis_components.ratelimits import RateLimit
from django_redis_components.ratelimits.algorithms import ALGORITHMS
from django_redis_components.ratelimits.limiter import Limiter
from tests.support import Proxy, Store, run_async

KEY = b"{api:"

Do = Callable[..., Any]

every_algorithm = pytest.mark.parametrize("algorithm", list(ALGORITHMS))


@pytest.fixture(params=["sync", "async"])
def do(request: pytest.FixtureRequest) -> Do:
    """``do(limit, "hit", …)`` calls the method, or its asyncio twin in a new event loop."""

    def call(limit: RateLimit, method: str, *args: Any) -> Any:
        if request.param == "sync":
            return getattr(limit, method)(*args)
        return run_async(getattr(limit, f"a{method}"), *args)

    return call


def drive(flow: Any) -> Any:
    return run(client(), flow)


@every_algorithm
def test_hit_with_a_lost_reply_is_counted_once(proxy: Proxy, redis_server: Store, do: Do, algorithm: str) -> None:
    limit = RateLimit("api", "5/h", "9/d", algorithm=algorithm, using="proxied")
    proxy.drop_next_reply(after=KEY, times=2)

    decision = do(limit, "hit", "ada", 2)

    assert proxy.dropped == 2
    assert (decision.is_allowed, decision.remaining, decision.is_checked) == (True, 3, True)
    assert RateLimit("api", "5/h", "9/d", algorithm=algorithm).peek("ada").remaining == 3


@every_algorithm
def test_last_hit_of_a_limit_is_allowed_when_repeated(
    proxy: Proxy, redis_server: Store, do: Do, algorithm: str
) -> None:
    limit = RateLimit("api", "1/h", algorithm=algorithm, using="proxied")
    proxy.drop_next_reply(after=KEY)

    assert do(limit, "hit", "ada")

    assert proxy.dropped == 1


def test_hit_is_recognized_after_up_to_seven_other_hits(redis_server: Store) -> None:
    limiter = Limiter(
        "api",
        ("100/h",),
        algorithm="gcra",
        penalty=None,
        on_error="open",
        deny_cache=True,
        using="default",
    )
    ids = [bytes([number]) * 8 for number in range(9)]

    left = [drive(limiter.hit("ada", 1, hit_id=hit_id)).remaining for hit_id in ids]
    again = [drive(limiter.hit("ada", 1, hit_id=hit_id)).remaining for hit_id in ids[1:]]
    forgotten = drive(limiter.hit("ada", 1, hit_id=ids[0])).remaining

    assert left == list(range(99, 90, -1))
    assert set(again) == {91}
    assert forgotten == 90


@every_algorithm
def test_denial_with_a_lost_reply_is_counted_once(proxy: Proxy, redis_server: Store, do: Do, algorithm: str) -> None:
    limit = RateLimit("api", "1/h", algorithm=algorithm, penalty=(3, 60), using="proxied")
    do(limit, "hit", "ada")
    proxy.drop_next_reply(after=KEY, times=2)

    denials = [do(limit, "hit", "ada") for _ in range(3)]

    assert proxy.dropped == 2
    assert [denial.is_blocked for denial in denials] == [False, False, True]


def test_peek_and_reset_are_repeated(proxy: Proxy, redis_server: Store, do: Do) -> None:
    limit = RateLimit("api", "5/h", using="proxied")
    do(limit, "hit", "ada")
    proxy.drop_next_reply(after=KEY)
    assert do(limit, "peek", "ada").remaining == 4
    proxy.drop_next_reply(after=KEY)

    do(limit, "reset", "ada")

    assert proxy.dropped == 2
    assert redis_server.keys() == []


@every_algorithm
def test_refund_is_sent_once(proxy: Proxy, redis_server: Store, do: Do, algorithm: str) -> None:
    limit = RateLimit("api", "5/h", algorithm=algorithm, using="proxied")
    do(limit, "hit", "ada", 3)
    do(limit, "refund", "bob")  # loads the script
    proxy.drop_next_reply(after=KEY)

    with pytest.raises(ConnectionError):
        do(limit, "refund", "ada")

    assert RateLimit("api", "5/h", algorithm=algorithm).peek("ada").remaining == 3

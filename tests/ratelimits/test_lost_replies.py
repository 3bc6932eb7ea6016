"""Each operation while the reply, and only the reply, is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.client.connections import client
from django_redis_components.core.protocol import run
from django_redis_components.ratelimits import RateLimit
from django_redis_components.ratelimits.algorithms import ALGORITHMS
from tests.support import Proxy, Store, run_async

KEY = b"{api:"

Do = Callable[..., Any]

every_algorithm = pytest.mark.parametrize("algorithm", list(ALGORITHMS))


@pytest.fixture(params=["sync", "async"])
def do(request: pytest.FixtureRequest) -> Do:
    """``do(limit, "hit", …)`` calls the method, or its twin in an event loop of its own."""

    def call(limit: RateLimit, method: str, *args: Any) -> Any:
        if request.param == "sync":
            return getattr(limit, method)(*args)
        return run_async(getattr(limit, f"a{method}"), *args)

    return call


def ask(flow: Any) -> Any:
    return run(client(), flow)


@every_algorithm
def test_a_hit_is_counted_once(proxy: Proxy, redis_server: Store, do: Do, algorithm: str) -> None:
    limit = RateLimit("api", "5/h", "9/d", algorithm=algorithm, using="proxied")
    proxy.drop_next_reply(after=KEY, times=2)

    decision = do(limit, "hit", "ada", 2)

    assert proxy.dropped == 2
    assert (decision.allowed, decision.remaining, decision.checked) == (True, 3, True)
    assert RateLimit("api", "5/h", "9/d", algorithm=algorithm).peek("ada").remaining == 3


@every_algorithm
def test_the_last_hit_that_was_free_is_allowed_and_not_denied_by_itself(
    proxy: Proxy, redis_server: Store, do: Do, algorithm: str
) -> None:
    limit = RateLimit("api", "1/h", algorithm=algorithm, using="proxied")
    proxy.drop_next_reply(after=KEY)

    assert do(limit, "hit", "ada")

    assert proxy.dropped == 1


def test_others_may_come_in_between(redis_server: Store) -> None:
    limiter = RateLimit("api", "100/h")._limiter
    visitor = limiter._visitor("ada")
    ids = [bytes([number]) * 8 for number in range(9)]

    left = [ask(limiter._ask(visitor, 1, call_id, 0)).remaining for call_id in ids]
    again = [ask(limiter._ask(visitor, 1, call_id, 0)).remaining for call_id in ids[1:]]
    forgotten = ask(limiter._ask(visitor, 1, ids[0], 0)).remaining

    assert left == list(range(99, 90, -1))
    assert set(again) == {91}
    assert forgotten == 90


@every_algorithm
def test_a_denial_is_counted_once(proxy: Proxy, redis_server: Store, do: Do, algorithm: str) -> None:
    limit = RateLimit("api", "1/h", algorithm=algorithm, penalty=(3, 60), using="proxied")
    do(limit, "hit", "ada")
    proxy.drop_next_reply(after=KEY, times=2)

    denials = [do(limit, "hit", "ada") for _ in range(3)]

    assert proxy.dropped == 2
    assert [denial.blocked for denial in denials] == [False, False, True]


def test_a_peek_and_a_reset_are_repeated(proxy: Proxy, redis_server: Store, do: Do) -> None:
    limit = RateLimit("api", "5/h", using="proxied")
    do(limit, "hit", "ada")
    proxy.drop_next_reply(after=KEY)
    assert do(limit, "peek", "ada").remaining == 4
    proxy.drop_next_reply(after=KEY)

    do(limit, "reset", "ada")

    assert proxy.dropped == 2
    assert redis_server.keys() == []


@every_algorithm
def test_a_refund_is_sent_once(proxy: Proxy, redis_server: Store, do: Do, algorithm: str) -> None:
    limit = RateLimit("api", "5/h", algorithm=algorithm, using="proxied")
    do(limit, "hit", "ada", 3)
    do(limit, "refund", "bob")  # the server knows the script now
    proxy.drop_next_reply(after=KEY)

    with pytest.raises(ConnectionError):
        do(limit, "refund", "ada")

    assert RateLimit("api", "5/h", algorithm=algorithm).peek("ada").remaining == 3

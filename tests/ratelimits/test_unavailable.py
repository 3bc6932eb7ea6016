"""Redis unavailable: hits are allowed or denied, and only the first one waits for the timeout."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.circuit_breaker import LOG_EVERY_S, CircuitBreaker
from django_redis_components.ratelimits import Decision, RateLimit, limiter
from tests.conftest import components_settings
from tests.ratelimits.redis_keys import gcra_key
from tests.support import Proxy, Store, eventually, run_async
from tests.support.pools import close_pools


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("on_error", "allowed"), [("open", True), ("closed", False)])
def test_on_error_decides_while_redis_is_down(own_server: Store, on_error: str, allowed: bool, is_async: bool) -> None:
    limit = RateLimit("api", "5/m", on_error=on_error)
    own_server.servers[0].kill()

    decision = run_async(limit.ahit, "ada") if is_async else limit.hit("ada")

    assert (decision.is_allowed, decision.is_checked, decision.is_blocked) == (allowed, False, False)
    assert (decision.retry_after > 0) is not allowed
    assert decision.remaining == (4 if allowed else 0)


def test_no_request_is_sent_for_a_while_after_a_failure(proxy: Proxy, redis_server: Store, settings: Any) -> None:
    short_timeout = components_settings(redis_server, proxied=proxy.url)
    short_timeout["CONNECTIONS"]["proxied"] |= {"SOCKET_TIMEOUT": 1.0, "RETRIES": 0}
    settings.REDIS_COMPONENTS = short_timeout
    limit = RateLimit("api", "5/m", using="proxied")
    assert limit.hit("ada").is_checked
    proxy.delay(60)
    assert not limit.hit("ada").is_checked
    proxy.delay(0)
    proxy.drop_next_reply(after=b"{api:", times=10)

    decisions = [limit.hit("ada"), RateLimit("api", "9/m", using="proxied").hit("bob"), limit.peek("ada")]

    assert [decision.is_checked for decision in decisions] == [False, False, False]
    assert proxy.dropped == 0  # no request was sent
    assert RateLimit("api", "5/m").hit("ada").is_checked  # another connection has its own breaker


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_hits_that_fail_open_do_not_wait_for_late_replies(proxy: Proxy, settings: Any, is_async: bool) -> None:
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"RATELIMITS": {"TIMEOUT": 0.2, "COUNT_HITS": False}}
    limit = RateLimit("api", "5/m", using="proxied")

    async def hit_at_once() -> list[Decision]:
        await limit.ahit("ada")
        proxy.hold()
        return await asyncio.gather(*(limit.ahit(number) for number in range(200)))

    limit.hit("ada")
    if not is_async:
        proxy.hold()
    decisions = run_async(hit_at_once) if is_async else [limit.hit(number) for number in range(20)]

    assert {(decision.is_allowed, decision.is_checked) for decision in decisions} == {(True, False)}


def test_limit_that_fails_closed_waits_for_a_slow_server(proxy: Proxy, settings: Any) -> None:
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"RATELIMITS": {"TIMEOUT": 0.01, "COUNT_HITS": False}}
    opened = RateLimit("api", "5/m", using="proxied")
    closed = RateLimit("api", "5/m", on_error="closed", using="proxied")
    closed.hit("ada")
    proxy.delay(0.15)

    assert not opened.hit("bob").is_checked
    assert all(closed.hit("ada").is_checked for _ in range(4))


def test_late_reply_is_never_read_as_the_reply_of_a_later_hit(proxy: Proxy, settings: Any) -> None:
    limit = RateLimit("api", "1/m", using="proxied", deny_cache=False)
    limit.hit("ada")
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"RATELIMITS": {"TIMEOUT": 0.05, "COUNT_HITS": False}}
    eventually(lambda: limit.hit("kim").is_checked)  # opens the connection
    proxy.delay(0.3)
    assert not limit.hit("ada").is_checked
    proxy.delay(0)
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"RATELIMITS": {"TIMEOUT": 10, "COUNT_HITS": False}}

    assert [limit.hit("bob").is_allowed, limit.hit("ada").is_allowed, limit.hit("eve").is_allowed] == [
        True,
        False,
        True,
    ]


def test_redis_is_tried_again_after_the_pause(own_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = RateLimit("api", "5/m")
    own_server.servers[0].stop()
    assert not limit.hit("ada").is_checked
    own_server.servers[0].start()
    assert not limit.hit("ada").is_checked

    limiter.breaker_for("default", fails_open=True).record_failure(open_s=0)

    assert limit.hit("ada").is_checked
    assert limit.hit("ada").is_checked


def test_one_warning_is_logged_for_several_failures(own_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    own_server.servers[0].kill()
    for _ in range(3):
        RateLimit("api", "5/m", on_error="closed").hit("ada")

    lines = [record.getMessage() for record in caplog.records if record.name.endswith("ratelimits")]
    assert len(lines) == 1
    assert lines[0].startswith("Rate limits cannot be checked, hits are denied: ")


def test_error_reply_does_not_open_the_breaker(redis_server: Store) -> None:
    limit = RateLimit("api", "5/m")
    redis_server.raw.lpush(gcra_key("api", "ada", 5, 60), "not a record")

    assert not limit.hit("ada").is_checked

    assert limit.hit("bob").is_checked


def test_error_reply_closes_the_breaker(redis_server: Store) -> None:
    limit = RateLimit("api", "5/m")
    redis_server.raw.lpush(gcra_key("api", "ada", 5, 60), "not a record")
    limit.hit("bob")
    limiter.breaker_for("default", fails_open=True).record_failure(open_s=0)

    assert not limit.hit("ada").is_checked

    assert limit.hit("bob").is_checked


def test_refund_and_reset_raise_while_redis_is_down(own_server: Store) -> None:
    limit = RateLimit("api", "5/m")
    own_server.servers[0].kill()

    for method in (limit.refund, limit.reset):
        with pytest.raises(ConnectionError):
            method("ada")


def test_wait_returns_the_decision_of_on_error_while_redis_is_down(own_server: Store) -> None:
    own_server.servers[0].kill()
    close_pools()

    assert RateLimit("api", "5/m").hit("ada", timeout=1)
    assert not RateLimit("api", "5/m", on_error="closed").hit("ada", timeout=1)


def test_breaker_allows_one_try_after_its_pause() -> None:
    breaker = CircuitBreaker()
    assert (breaker.allows_request(), breaker.retry_after_s()) == (True, 0.0)

    breaker.record_failure(60)
    assert not breaker.allows_request()
    assert 0 < breaker.retry_after_s() <= 60

    breaker.record_failure(0)
    assert [breaker.allows_request(60), breaker.allows_request(60)] == [True, False]
    breaker.record_success()
    assert [breaker.allows_request(), breaker.allows_request()] == [True, True]


def test_breaker_allows_one_log_line_per_minute() -> None:
    breaker = CircuitBreaker()

    assert [breaker.should_log(), breaker.should_log(), breaker.should_log(0.0)] == [True, False, False]
    breaker.reset()
    assert breaker.should_log(0.0)
    assert breaker.should_log(LOG_EVERY_S)

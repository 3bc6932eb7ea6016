"""Redis away: hits are let through or denied, and only the first one waits for it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core import circuit_breaker as breaker
from django_redis_components.core.circuit_breaker import CircuitBreaker
from django_redis_components.ratelimits import Decision, RateLimit, limiter
from tests.conftest import components_settings
from tests.support import Proxy, Store, run_async
from tests.support.pools import close_pools


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("on_error", "allowed"), [("open", True), ("closed", False)])
def test_the_option_decides(own_server: Store, on_error: str, allowed: bool, is_async: bool) -> None:
    limit = RateLimit("api", "5/m", on_error=on_error)
    own_server.servers[0].kill()

    decision = run_async(limit.ahit, "ada") if is_async else limit.hit("ada")

    assert (decision.allowed, decision.checked, decision.blocked) == (allowed, False, False)
    assert (decision.retry_after > 0) is not allowed
    assert decision.remaining == (5 if allowed else 0)


def test_only_the_first_hit_waits(proxy: Proxy, redis_server: Store, settings: Any) -> None:
    impatient = components_settings(redis_server, proxied=proxy.url)
    impatient["CONNECTIONS"]["proxied"] |= {"SOCKET_TIMEOUT": 0.2, "RETRIES": 0}
    settings.REDIS_COMPONENTS = impatient
    limit = RateLimit("api", "5/m", using="proxied")
    assert limit.hit("ada").checked
    proxy.delay(60)
    assert not limit.hit("ada").checked
    proxy.delay(0)
    proxy.drop_next_reply(after=b"{api:", times=10)

    decisions = [limit.hit("ada"), RateLimit("api", "9/m", using="proxied").hit("bob"), limit.peek("ada")]

    assert [decision.checked for decision in decisions] == [False, False, False]
    assert proxy.dropped == 0  # nobody has asked
    assert RateLimit("api", "5/m").hit("ada").checked  # another connection is another matter


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_hits_of_a_limit_that_fails_open_wait_less_than_one_late_reply_takes(
    proxy: Proxy, settings: Any, is_async: bool
) -> None:
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"RATELIMITS": {"TIMEOUT": 0.2}}
    limit = RateLimit("api", "5/m", using="proxied")

    async def hit_at_once() -> list[Decision]:
        await limit.ahit("ada")
        proxy.delay(3)
        return await asyncio.gather(*(limit.ahit(number) for number in range(200)))

    limit.hit("ada")
    proxy.delay(0 if is_async else 3)
    begun = time.monotonic()
    decisions = run_async(hit_at_once) if is_async else [limit.hit(number) for number in range(20)]

    assert time.monotonic() - begun < 3
    assert {(decision.allowed, decision.checked) for decision in decisions} == {(True, False)}


def test_a_limit_that_fails_closed_waits_for_a_slow_server_and_is_not_paused(proxy: Proxy, settings: Any) -> None:
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"RATELIMITS": {"TIMEOUT": 0.01}}
    opened = RateLimit("api", "5/m", using="proxied")
    closed = RateLimit("api", "5/m", on_error="closed", using="proxied")
    closed.hit("ada")
    proxy.delay(0.15)

    assert not opened.hit("bob").checked
    assert all(closed.hit("ada").checked for _ in range(4))


def test_a_late_decision_is_never_read_as_that_of_a_later_hit(proxy: Proxy, settings: Any) -> None:
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"RATELIMITS": {"TIMEOUT": 0.05}}
    limit = RateLimit("api", "1/m", using="proxied", deny_cache=False)
    limit.hit("ada")
    proxy.delay(0.3)
    assert not limit.hit("ada").checked
    proxy.delay(0)
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"RATELIMITS": {"TIMEOUT": 10}}

    assert [limit.hit("bob").allowed, limit.hit("ada").allowed, limit.hit("eve").allowed] == [True, False, True]


def test_it_is_asked_again_after_a_while(own_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = RateLimit("api", "5/m")
    own_server.servers[0].stop()
    assert not limit.hit("ada").checked
    own_server.servers[0].start()
    assert not limit.hit("ada").checked

    limiter._breakers["default"]._paused_until = 1.0  # long ago

    assert limit.hit("ada").checked
    assert limit.hit("ada").checked


def test_the_log_gets_one_line(own_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    own_server.servers[0].kill()
    for _ in range(3):
        RateLimit("api", "5/m", on_error="closed").hit("ada")

    lines = [record.getMessage() for record in caplog.records if record.name.endswith("ratelimits")]
    assert len(lines) == 1
    assert lines[0].startswith("Redis does not check rate limits, hits are denied: ")


def test_an_error_that_is_an_answer_keeps_nobody_from_asking(redis_server: Store) -> None:
    limit = RateLimit("api", "5/m")
    place = limit._limiter._places(limit._limiter._visitor("ada"))[0]
    redis_server.raw.lpush(place, "no record")

    assert not limit.hit("ada").checked

    assert limit.hit("bob").checked


def test_an_error_that_is_an_answer_ends_the_pause(redis_server: Store) -> None:
    limit = RateLimit("api", "5/m")
    place = limit._limiter._places(limit._limiter._visitor("ada"))[0]
    redis_server.raw.lpush(place, "no record")
    limit.hit("bob")
    limiter._breakers["default"]._paused_until = 1.0  # Redis was away, long ago

    assert not limit.hit("ada").checked

    assert limit.hit("bob").checked


def test_refund_and_reset_say_that_they_failed(own_server: Store) -> None:
    limit = RateLimit("api", "5/m")
    own_server.servers[0].kill()

    for ask in (limit.refund, limit.reset):
        with pytest.raises(ConnectionError):
            ask("ada")


def test_who_waits_is_told(own_server: Store) -> None:
    own_server.servers[0].kill()
    close_pools()

    assert RateLimit("api", "5/m").wait("ada", timeout=0)
    assert not RateLimit("api", "5/m", on_error="closed").wait("ada", timeout=0)


def test_a_breaker_lets_one_through_after_its_pause() -> None:
    door = CircuitBreaker()
    assert (door.allows_request(), door.retry_after_s()) == (True, 0.0)

    door.record_failure(60)
    assert not door.allows_request()
    assert 0 < door.retry_after_s() <= 60

    door.record_failure(0)
    assert [door.allows_request(60), door.allows_request(60)] == [True, False]
    door.record_success()
    assert [door.allows_request(), door.allows_request()] == [True, True]


def test_a_breaker_lets_a_line_through_each_minute() -> None:
    door = CircuitBreaker()

    assert [door.should_log(), door.should_log(), door.should_log(0.0)] == [True, False, False]
    door.reset()
    assert door.should_log(0.0)
    assert door.should_log(breaker.LOG_EVERY_S)

"""Redis away: hits are let through or denied, and only the first one waits for it."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core import breaker
from django_redis_components.core.breaker import Breaker
from django_redis_components.ratelimits import RateLimit, limiter
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
    door = Breaker()
    assert (door.may_try(), door.left_s()) == (True, 0.0)

    door.failed(60)
    assert not door.may_try()
    assert 0 < door.left_s() <= 60

    door.failed(0)
    assert [door.may_try(60), door.may_try(60)] == [True, False]
    door.succeeded()
    assert [door.may_try(), door.may_try()] == [True, True]


def test_a_breaker_lets_a_line_through_each_minute() -> None:
    door = Breaker()

    assert [door.may_log(), door.may_log(), door.may_log(0.0)] == [True, False, False]
    door.reset()
    assert door.may_log(0.0)
    assert door.may_log(breaker.LOG_EVERY_S)

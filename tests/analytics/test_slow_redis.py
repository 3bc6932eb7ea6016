"""A Redis that answers slowly: logins wait for a short time in all, and pages not at all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient

from django_redis_components.analytics import PageViews, SignIns, flush, safeguard
from django_redis_components.analytics.dates import site_date
from django_redis_components.core import circuit_breaker as breaker
from django_redis_components.core.circuit_breaker import CircuitBreaker
from tests.analytics.browsing import Browser
from tests.support import Proxy, Store, eventually, run_async

pytestmark = pytest.mark.urls("tests.analytics.urls")

#: Seconds by which each reply is late; without a bound a page would wait for at least as long.
LATE_S = 10.0


@pytest.fixture(autouse=True)
def _middleware(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django_redis_components.analytics.AnalyticsMiddleware"]


def seconds_of(act: Callable[[], object]) -> float:
    started_at = time.monotonic()
    act()
    return time.monotonic() - started_at


@pytest.fixture
def slow(proxy: Proxy, configure: Callable[..., None]) -> Proxy:
    """A connection that was used, and whose replies are late from now on."""
    configure(USING="proxied", TIMEOUT=0.2)
    User.objects.create(username="anna")
    log_in()
    proxy.delay(LATE_S)
    return proxy


def log_in() -> None:
    assert Browser().get("/enter/?name=anna").status_code == 200


@pytest.mark.django_db
def test_logins_wait_less_than_one_late_reply(slow: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    took_s = seconds_of(lambda: [log_in() for _ in range(20)])

    assert took_s < LATE_S
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "did not answer within 0.2 s" in caplog.text


@pytest.mark.django_db
def test_new_connections_to_a_slow_server_are_bounded(slow: Proxy) -> None:
    slow.cut()

    assert seconds_of(lambda: [log_in() for _ in range(20)]) < LATE_S


def test_pages_do_not_wait_for_a_slow_server(proxy: Proxy, configure: Callable[..., None]) -> None:
    configure(USING="proxied", TIMEOUT=60)
    proxy.delay(LATE_S)

    async def visit() -> None:
        await asyncio.gather(*(AsyncClient().get("/async/") for _ in range(20)))

    assert seconds_of(lambda: [Browser().get("/page/") for _ in range(20)]) < LATE_S
    assert seconds_of(lambda: run_async(visit)) < LATE_S


@pytest.mark.django_db
def test_counting_resumes_when_redis_is_fast_again(slow: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safeguard, "OPEN_S", 0.05)
    bert = User.objects.create(username="bert")
    log_in()
    slow.delay(0)

    def is_counted() -> bool:
        Browser().get("/enter/?name=bert")
        return SignIns("default").has_signed_in(bert.pk)

    assert eventually(is_counted)


@pytest.mark.django_db
def test_slow_replies_within_the_timeout_use_the_budget(
    proxy: Proxy, configure: Callable[..., None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "SLOW_S", 0.1)
    configure(USING="proxied", TIMEOUT=10)
    users = [User.objects.create(username=f"user {number}") for number in range(30)]
    Browser().get("/enter/", {"name": "user 0"})
    proxy.delay(0.15)

    for user in users:
        Browser().get("/enter/", {"name": user.username})

    assert 2 <= SignIns("default").total(at=site_date()) < 20, "each login that is counted has waited 0.15 s"
    assert [record.getMessage() for record in caplog.records] == ["Redis is slow, some sign-ins are not counted."]
    proxy.delay(0)
    flush()  # the thread would log in the next test that it cannot


def test_breaker_limits_the_share_of_late_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker, "SLOW_S", 0.1)
    slow = CircuitBreaker()

    slow.record_late(breaker.SLOW_S / 2)
    slow.record_late(breaker.BURST_S)
    assert slow.allows_request()

    now = time.monotonic()
    monkeypatch.setattr(breaker, "time", SimpleNamespace(monotonic=lambda: now + 0.2))
    slow.record_late(0.2)
    assert not slow.allows_request()
    assert 1.5 < slow.retry_after_s() <= 0.2 / breaker.SLOW_SHARE
    slow.record_success()
    assert not slow.allows_request(), "the reply of another request does not refill the budget"

    monkeypatch.setattr(breaker, "time", SimpleNamespace(monotonic=lambda: now + 1_000))
    slow.record_late(1_000.0)
    assert 4 < slow.retry_after_s() <= breaker.OPEN_S + 0.001
    slow.reset()
    assert slow.allows_request()


def test_several_requests_that_wait_at_the_same_time_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker, "SLOW_S", 0.1)
    slow = CircuitBreaker()

    for _ in range(50):
        slow.record_late(0.3)

    assert slow.allows_request()


@pytest.mark.django_db
def test_misspelled_settings_fail_neither_request_nor_login(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    User.objects.create(username="anna")
    settings.REDIS_COMPONENTS = {"ANALITICS": {}}

    async def visit() -> int:
        return (await AsyncClient().get("/async/")).status_code

    assert [Browser().get("/page/").status_code for _ in range(3)] == [200] * 3
    assert run_async(visit) == 200
    assert Browser().get("/enter/?name=anna").status_code == 200
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage() == (
        'Invalid settings, page views are not counted: REDIS_COMPONENTS["ANALITICS"] is unknown. '
        'Did you mean "ANALYTICS"?'
    )


@pytest.mark.django_db
def test_invalid_settings_of_other_sections_fail_no_request(redis_server: Store, settings: Any) -> None:
    User.objects.create(username="anna")

    for wrong in ({"TASKQUEUE": 7}, {"CONNECTIONS": {}}, {"ANALYTICS": {"USING": "nowhere"}}, 5, {"PREFIX": "{"}):
        settings.REDIS_COMPONENTS = wrong
        assert Browser().get("/page/").status_code == 200
        assert Browser().get("/enter/?name=anna").status_code == 200
        flush()


@pytest.mark.django_db
def test_counting_resumes_with_valid_settings(redis_server: Store, settings: Any) -> None:
    right = settings.REDIS_COMPONENTS
    anna = User.objects.create(username="anna")
    settings.REDIS_COMPONENTS = {"ANALITICS": {}}
    Browser().get("/page/")
    settings.REDIS_COMPONENTS = right

    Browser().get("/page/")
    Browser().get("/enter/?name=anna")
    flush()

    assert PageViews().count("/page/", site_date()) == 1
    assert SignIns("default").has_signed_in(anna.pk)

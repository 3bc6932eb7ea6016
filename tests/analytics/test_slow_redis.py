"""A Redis that answers slowly: pages, logins and hits wait for a short time in all, and nothing is mixed up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import AsyncClient, Client, RequestFactory

from django_redis_components.analytics import AnalyticsMiddleware, PageViews, SignIns, safeguard
from django_redis_components.analytics.dates import site_date
from django_redis_components.core import circuit_breaker as breaker
from django_redis_components.core.circuit_breaker import CircuitBreaker
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
    assert Client().get("/page/").status_code == 200
    proxy.delay(LATE_S)
    return proxy


def test_twenty_requests_wait_less_than_one_late_reply(slow: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    took_s = seconds_of(lambda: [Client().get("/page/") for _ in range(20)])

    assert took_s < LATE_S
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "did not answer within 0.2 s" in caplog.text


def test_new_connections_to_a_slow_server_are_bounded(slow: Proxy) -> None:
    slow.cut()

    assert seconds_of(lambda: [Client().get("/page/") for _ in range(20)]) < LATE_S


def test_concurrent_async_requests_wait_less_than_one_late_reply(proxy: Proxy, configure: Callable[..., None]) -> None:
    configure(USING="proxied", TIMEOUT=0.2)

    async def view(request: object) -> HttpResponse:
        return HttpResponse("<p>page")

    async def visit() -> float:
        middleware: Any = AnalyticsMiddleware(view)
        await middleware(RequestFactory().get("/async/"))
        proxy.delay(LATE_S)
        started_at = time.monotonic()
        await asyncio.gather(*(middleware(RequestFactory().get("/async/")) for _ in range(200)))
        return time.monotonic() - started_at

    assert run_async(visit) < LATE_S


@pytest.mark.django_db
def test_logins_wait_less_than_one_late_reply(slow: Proxy) -> None:
    User.objects.create(username="anna")

    assert seconds_of(lambda: [Client().get("/enter/?name=anna") for _ in range(5)]) < LATE_S


def test_late_reply_is_never_read_by_a_later_request(
    proxy: Proxy, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safeguard, "PAUSE_S", 0.0)
    configure(USING="proxied", TIMEOUT=1.0)  # enough for the later requests on a busy machine
    Client().get("/page/")
    proxy.delay(LATE_S)
    for _ in range(2):
        Client().get("/page/")
    proxy.delay(0)

    for _ in range(5):
        Client().get("/internal/page/")

    assert PageViews().count("/internal/page/", site_date()) == 5


def test_counting_resumes_when_redis_is_fast_again(slow: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safeguard, "PAUSE_S", 0.05)
    Client().get("/page/")
    slow.delay(0)

    def is_counted() -> bool:
        Client().get("/internal/page/")
        return PageViews().count("/internal/page/", site_date()) > 0

    assert eventually(is_counted)


def test_slow_replies_within_the_timeout_use_the_budget(
    proxy: Proxy, configure: Callable[..., None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaker, "SLOW_S", 0.1)
    configure(USING="proxied", TIMEOUT=10)
    Client().get("/page/")
    proxy.delay(0.15)

    for _ in range(100):
        Client().get("/page/")

    assert 2 <= PageViews().count("/page/", site_date()) < 50, "each view that is counted has waited 0.15 s"
    assert [record.getMessage() for record in caplog.records] == ["Redis is slow, some page views are not counted."]


def test_breaker_limits_the_share_of_slow_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker, "SLOW_S", 0.1)
    slow = CircuitBreaker()

    slow.record_success(breaker.SLOW_S / 2)
    slow.record_success(breaker.BURST_S)
    assert slow.allows_request()

    slow.record_success(0.2)
    assert not slow.allows_request()
    assert 1.5 < slow.retry_after_s() <= 0.2 / breaker.SLOW_SHARE

    slow.record_success(1_000.0)
    assert 4 < slow.retry_after_s() <= breaker.PAUSE_S + 0.001
    slow.reset()
    assert slow.allows_request()


@pytest.mark.django_db
def test_misspelled_settings_fail_neither_request_nor_login(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    User.objects.create(username="anna")
    settings.REDIS_COMPONENTS = {"ANALITICS": {}}

    async def visit() -> int:
        return (await AsyncClient().get("/async/")).status_code

    assert [Client().get("/page/").status_code for _ in range(3)] == [200] * 3
    assert run_async(visit) == 200
    assert Client().get("/enter/?name=anna").status_code == 200
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
        assert Client().get("/page/").status_code == 200
        assert Client().get("/enter/?name=anna").status_code == 200


@pytest.mark.django_db
def test_counting_resumes_with_valid_settings(redis_server: Store, settings: Any) -> None:
    right = settings.REDIS_COMPONENTS
    anna = User.objects.create(username="anna")
    settings.REDIS_COMPONENTS = {"ANALITICS": {}}
    Client().get("/page/")
    settings.REDIS_COMPONENTS = right

    Client().get("/page/")
    Client().get("/enter/?name=anna")

    assert PageViews().count("/page/", site_date()) == 1
    assert SignIns("default").signed_in(anna.pk)

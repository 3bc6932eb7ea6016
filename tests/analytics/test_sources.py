"""What is kept of the headers of a visitor: bounded in bytes, whatever is sent."""

from __future__ import annotations

import tracemalloc

import pytest
from django.test import RequestFactory

from django_redis_components.analytics import AnalyticsMiddleware, buffer, sources
from django_redis_components.core.observability import flushing
from tests.analytics.browsing import CHROME
from tests.analytics.urls import page
from tests.support import Store


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("https://www.example.org/a?q=secret", "example.org"),
        ("HTTPS://Example.ORG:8443", "example.org"),
        ("http://user:secret@example.org/", "example.org"),
        ("https://example.org?x", "example.org"),
        ("https://example.org#x", "example.org"),
        ("https://[2001:db8::1]:8443/", "[2001:db8::1]"),
        ("https://a_b.example.org./", "a_b.example.org"),
        ("https://testserver./page/", None),
        ("https://example.org/" + "x" * 10_000, "example.org"),
        ("https://" + "x" * 10_000, None),
        ("https://" + "x" * 150 + ".example.org/", None),
        ("https://" + "x@" * 200 + "example.org/", None),
        ("https://[::1/", None),
        ("javascript:alert(1)", None),
        ("android-app://com.example/", None),
        ("https://testserver/page/", None),
        ("", None),
    ],
)
def test_referrer_is_the_host_of_another_site(header: str, host: str | None) -> None:
    assert sources.referrer(RequestFactory(headers={"Referer": header}).get("/")) == host


def test_long_headers_are_not_kept(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600)
    middleware = AnalyticsMiddleware(page)
    size = 16_384
    number = 200

    tracemalloc.start()
    for each in range(number):
        headers = {
            "User-Agent": f"{CHROME} {each} ".ljust(size, "x"),
            "Referer": f"https://example.org/{each}/".ljust(size, "x"),
            "X-Forwarded-For": f"{each} ".ljust(size, "x"),
        }
        middleware(RequestFactory(headers=headers, REMOTE_ADDR="10.0.0.1").get("/page/"))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < number * size / 4, "less than a quarter of one of the headers"
    buffer.BUFFER.flush()


def test_agent_of_a_view_is_truncated() -> None:
    request = RequestFactory(headers={"User-Agent": CHROME.ljust(8_192, "x")}).get("/")

    assert len(sources.user_agent(request)) == sources.MAX_AGENT_CHARS == 512
    assert sources.device(request) == "desktop"

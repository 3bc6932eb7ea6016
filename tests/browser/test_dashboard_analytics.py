"""The page of analytics in a real browser: accessible, dark, narrow, right to left, and without JavaScript."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

from django_redis_components.analytics import (
    Events,
    PageViews,
    Ranking,
    SignIns,
    UniqueVisitors,
    flush,
    roll_up_cohorts,
    roll_up_retention,
)
from django_redis_components.analytics.dates import site_date
from django_redis_components.bloom import BloomFilter
from tests.browser.support import ready_site, sign_in, violations
from tests.support import Store

ANALYTICS = "/admin/django_redis_components/analytics/"


@pytest.fixture
def site(
    live_server: Any, redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch, catalogued: None
) -> Iterator[str]:
    address = ready_site(live_server, monkeypatch)
    today = site_date()
    for ago in range(10):
        UniqueVisitors("default").add(*range(ago + 5), at=today - timedelta(days=ago))
        PageViews().hit("/items/7/", at=today - timedelta(days=ago))
        for user in range(ago, 12):
            SignIns("default").sign_in(user, at=today - timedelta(days=ago))
            Events("active").mark(user, at=today - timedelta(days=ago))
    Events("signup").mark(7, at=today - timedelta(days=9))
    roll_up_retention(SignIns("default"), days=10)
    roll_up_cohorts(Events("signup"), Events("active"), unit="week", periods=4)
    ranking, known = Ranking("quiz"), BloomFilter("known", 100)
    ranking.add("anna", 30)
    known.add(1)
    with settings_of_the_middleware(settings):
        for path in ("/admin/login/", "/admin/login/?utm_source=letter"):
            Client().get(path, headers={"Referer": "https://example.org/", "User-Agent": "Mozilla/5.0 (X11)"})
        flush()
    yield address
    del ranking, known


def settings_of_the_middleware(settings: Any) -> Any:
    from django.test import override_settings

    name = "django_redis_components.analytics.AnalyticsMiddleware"
    return override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, name])


@pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1280, {}),
        ("dark", 1280, {"extra_http_headers": {"Accept-Language": "zh-hans"}}),
        ("dark", 360, {"extra_http_headers": {"Accept-Language": "ar"}}),
        ("light", 360, {"java_script_enabled": False}),
    ],
    ids=["light", "dark, Chinese", "dark, narrow, right to left", "without JavaScript"],
)
def test_page_is_accessible_and_fits(
    scheme: str, width: int, options: dict[str, Any], site: str, open_page: Callable[..., Page]
) -> None:
    page = open_page(scheme, width, **options)
    sign_in(page, site)

    page.goto(f"{site}{ANALYTICS}?user=7")

    expect(page.locator(".drc-panel")).to_have_count(12)
    expect(page.locator(".drc-panel-note")).to_have_count(0)
    if options.get("java_script_enabled", True):
        for details in page.locator("details.drc-details").all():
            details.locator("summary").press("Enter")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.get_by_role("rowheader", name="example.org")).to_be_visible()
    expect(page.get_by_role("rowheader", name="anna")).to_be_visible()

"""The calendar of sign-ins in a real browser: accessible in both schemes, narrow and wide, without inline styles."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from django_redis_components.analytics import SignIns
from tests.browser.support import LAYOUT, LOOK_RULES, another_look
from tests.support import Store


@pytest.fixture
def site(redis_server: Store, settings: Any, live_server: Any) -> str:
    """The address of the page with the calendar."""
    settings.ROOT_URLCONF = "tests.analytics.calendar_pages"
    for day in (date(2025, 1, 1), date(2025, 1, 2), date(2025, 12, 31)):
        SignIns("check-in").sign_in(7, at=day)
    url: str = live_server.url
    return url


def test_calendar_is_accessible(page: Page, site: str, check_axe: Callable[..., None]) -> None:
    def check() -> None:
        check_axe(page)
        assert page.evaluate(LAYOUT) == []
        for scheme, width in (("dark", 1200), ("light", 320)):
            with another_look(page, scheme, width):
                check_axe(page, rules=LOOK_RULES)
                assert page.evaluate(LAYOUT) == [], (scheme, width)

    page.goto(site)

    image = page.get_by_role("img", name="Sign-ins of 2025")
    expect(image).to_be_visible()
    check()
    page.get_by_text("Show data").click()
    table = page.get_by_role("table", name="Sign-ins of 2025")
    expect(table.get_by_role("row", name="January 2 1–2")).to_be_visible()
    check()


def test_days_with_and_without_a_sign_in_differ(page: Page, site: str) -> None:
    page.goto(site)

    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        fill = "one => getComputedStyle(one).fill"
        on = page.locator(".drc-day-on").first.evaluate(fill)
        off = page.locator(".drc-day-off").first.evaluate(fill)

        assert off == "rgba(0, 0, 0, 0)", "the page's stylesheet is applied"
        assert on.startswith("rgb(")

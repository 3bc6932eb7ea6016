"""The page of workers in a real browser: accessible, narrow and dark, and usable without JavaScript by the keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.support import ready_site, sign_in, violations
from tests.dashboard.support import write_worker
from tests.dashboard.worker_pages import REPORT, WORKERS, fill, waiting
from tests.support import Store


@pytest.fixture
def site(live_server: Any, redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    return ready_site(live_server, monkeypatch)


@pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1280, {}),
        ("dark", 360, {"extra_http_headers": {"Accept-Language": "ar"}}),
    ],
    ids=["light", "dark, narrow, right to left"],
)
def test_a_worker_is_stopped_on_an_accessible_page(
    scheme: str, width: int, options: dict[str, Any], site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill(redis_server)
    runs = [
        [f"task-{number}", f"shop.tasks.{'a_rather_long_name_' * 4}{number}", "mail", number] for number in range(12)
    ]
    write_worker(redis_server, "app-1:aa.1", busy=12, **{**REPORT, "runs": runs})
    page = open_page(scheme, width, **options)
    sign_in(page, site)

    page.goto(site + WORKERS)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(f"a[href='{WORKERS}stop/?id=app-1%3Aaa']").press("Enter")
    page.wait_for_selector("form.drc-form[method=post]")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("form.drc-form[method=post] button").press("Enter")

    expect(page.locator(".messagelist")).to_be_visible()
    assert waiting() == {"app-1:aa": "stop"}

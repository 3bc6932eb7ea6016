"""The search of tasks in a real browser: accessible in each variant, and used without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.support import authenticate, sign_in, violations
from tests.dashboard.support import fail_with
from tests.support import Store
from tests.taskqueue.tasks import note

SEARCH = "/admin/django_redis_components/tasksearch/"


@pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1280, {}),
        ("dark", 390, {"locale": "ar"}),
    ],
    ids=["light", "dark, narrow and right to left"],
)
def test_the_search_is_accessible(
    scheme: str, width: int, options: dict[str, Any], site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fail_with("the mail to kim was refused by a server with a long answer " * 3)
    note.enqueue({"to": "kim", "note": "long text " * 20})
    page = open_page(scheme, width, **options)
    authenticate(page, site)

    for query in ("?q=kim", "?q=state:gone", "?q=nothing"):
        page.goto(f"{site}{SEARCH}{query}")
        assert violations(page) == [], query
        assert page.evaluate("document.documentElement.scrollWidth") <= width, query
    field, form = page.locator(".drc-search input").bounding_box(), page.locator(".drc-filter").bounding_box()
    assert field is not None
    assert form is not None
    assert field["width"] > form["width"] / 2


def test_a_text_is_found_from_the_overview_with_the_keyboard_and_without_javascript(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    result = note.enqueue({"to": "kim"})
    page = open_page(java_script_enabled=False)
    sign_in(page, site)

    page.get_by_role("combobox", name="Search tasks").fill("to=kim")
    page.get_by_role("combobox", name="Search tasks").press("Enter")

    expect(page.locator("h1").last).to_have_text("Search tasks")
    page.locator("tbody a").first.press("Enter")
    expect(page.locator("h1").last).to_have_text(f"Task {result.id}")

"""The page of failures in a real browser: accessible, fits the screen, and an error is deleted without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from django_redis_components.taskqueue import get_queue
from tests.browser.support import authenticate, violations
from tests.dashboard.failure_pages import FAILURES
from tests.dashboard.support import fail_with, group_of
from tests.support import Store


def fill() -> None:
    fail_with(*[f"connection to 'smtp-{number}.example.com' unexpectedly closed: timed out" for number in range(12)])
    fail_with("a rather_long_word_" * 20, queue="a-queue-with-a-rather-long-name")


@pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1280, {}),
        ("dark", 360, {"locale": "ar"}),
        ("light", 390, {"java_script_enabled": False}),
    ],
    ids=["light", "dark, narrow and right to left", "narrow without JavaScript"],
)
def test_an_error_is_read_and_its_tasks_deleted(
    scheme: str, width: int, options: dict[str, Any], site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    group = group_of("connection to '' unexpectedly closed: timed out")
    page = open_page(scheme, width, **options)
    authenticate(page, site)
    has_script = options.get("java_script_enabled", True)

    for address in (FAILURES, f"{FAILURES}?group={group}"):
        page.goto(site + address)
        assert not has_script or violations(page) == [], address
        assert not has_script or page.evaluate("document.documentElement.scrollWidth") <= width, address
    expect(page.locator(".drc-list a[aria-current]")).to_contain_text("smtp-11.example.com")
    page.locator("a.drc-danger").press("Enter")
    page.locator("form.drc-confirm button").press("Enter")
    expect(page.locator(".messagelist")).to_contain_text("12")
    assert get_queue("default").info().failed == 0

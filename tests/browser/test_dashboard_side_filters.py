"""Filters beside lists of tasks in a real browser: accessible in each variant, by keyboard, without JavaScript."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from django_redis_components.locks import Lock
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue.fields import Field
from tests.browser.support import authenticate, ready_site, sign_in, violations
from tests.dashboard.support import fail_with, now_ms
from tests.support import Store
from tests.taskqueue.support import base_key
from tests.taskqueue.tasks import note

QUEUE = "/admin/django_redis_components/queues/mail/?state=failed"
SEARCH = "/admin/django_redis_components/tasksearch/?q=state:failed"


@pytest.fixture
def site(live_server: Any, redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    now = now_ms(redis_server)
    failed = fail_with(*[f"no mail server {number}" for number in range(6)], queue="mail")
    note.using(queue_name="mail").enqueue("waits")
    redis_server.raw.zadd(
        base_key(redis_server, "deploys"), {"2026.10": now - 9_000_000, "2026.11.4+a81c2": now - 5_000}
    )
    worker = redis_server.raw.hget(base_key(redis_server, "t", failed[0]), Field.worker_ids)
    redis_server.raw.zadd(base_key(redis_server, "versions"), {worker: now - 5_000})
    hosts = {f"worker-{number}.eu.example.com:aa.{number}": now for number in range(4)}
    redis_server.raw.zadd(base_key(redis_server, "workers"), hosts)
    return ready_site(live_server)


@pytest.mark.parametrize(
    ("scheme", "width", "language"),
    [("light", 1280, "en"), ("dark", 1280, "zh-CN"), ("light", 390, "zh-CN"), ("dark", 390, "ar")],
)
def test_lists_with_filters_are_accessible_and_fit(
    scheme: str, width: int, language: str, site: str, open_page: Callable[..., Page]
) -> None:
    page = open_page(scheme, width, locale=language)
    authenticate(page, site)

    for name, address in (("queue", QUEUE), ("search", SEARCH)):
        page.goto(site + address)
        assert violations(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        side, section = (
            page.locator(".drc-side").bounding_box(),
            page.locator(".drc-beside > :first-child").bounding_box(),
        )
        assert side is not None
        assert section is not None
        is_beside = side["y"] < section["y"] + 20
        assert is_beside == (width > 1_000)
        if folder := os.environ.get("PICTURES"):
            page.screenshot(path=f"{folder}/side-{name}-{scheme}-{width}-{language}.png", full_page=True)


@pytest.fixture
def held(site: str) -> Iterator[None]:
    with Lock("stock:a-name-that-is-longer-than-the-others", timeout=600), Semaphore("mail", limit=2, timeout=600):
        yield


@pytest.mark.parametrize(
    ("scheme", "width", "language"), [("light", 1280, "en"), ("dark", 390, "ar"), ("light", 1024, "zh-CN")]
)
def test_other_lists_with_filters_are_accessible_and_fit(
    scheme: str, width: int, language: str, site: str, held: None, open_page: Callable[..., Page]
) -> None:
    page = open_page(scheme, width, locale=language)
    authenticate(page, site)

    for name in ("worker", "failure", "lock"):
        page.goto(f"{site}/admin/django_redis_components/{name}/")
        assert violations(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        expect(page.locator("#drc-side a[aria-current]").first).to_be_visible()
        if width == 390 or name == "worker":
            page.locator(".drc-to-side a").press("Enter")
            expect(page.locator("#drc-side")).to_be_in_viewport()
        else:
            expect(page.locator(".drc-to-side")).to_be_hidden()
        if folder := os.environ.get("PICTURES"):
            page.screenshot(path=f"{folder}/side-{name}-{scheme}-{width}-{language}.png", full_page=True)


def test_list_is_narrowed_with_the_keyboard_and_without_javascript(site: str, open_page: Callable[..., Page]) -> None:
    page = open_page("light", 390, java_script_enabled=False)
    sign_in(page, site, QUEUE)
    expect(page.locator(".drc-line-table tbody tr")).to_have_count(6)

    page.get_by_role("link", name="More filters").press("Enter")
    expect(page.locator("#drc-side")).to_be_in_viewport()
    page.locator("#drc-side").get_by_role("link", name="2026.10").press("Enter")

    expect(page.locator(".drc-tasks")).to_contain_text("No task among the scanned ones matches.")
    page.locator("#drc-side").get_by_role("link", name="2026.11.4+a81c2").press("Enter")
    expect(page.locator(".drc-line-table tbody tr")).to_have_count(6)
    page.locator("#drc-side summary").first.press("Enter")
    expect(page.locator("#drc-side details").first.get_by_role("link").first).to_be_hidden()

"""A task's page in a real browser: accessible in each variant, changed with the keyboard and without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.contrib.admin.utils import quote
from playwright.sync_api import Page, expect

from django_redis_components.taskqueue import TaskResult, chain, group
from tests.browser.support import sign_in, violations
from tests.dashboard.flow_pages import url_of as url_of_flow
from tests.dashboard.support import settle_tasks, write_worker
from tests.dashboard.task_pages import TASKS, url_of
from tests.support import Store
from tests.taskqueue.tasks import echo, note


def enqueue_retried(store: Store) -> TaskResult[Any]:
    write_worker(store, "here:1", seen_s=-600)  # alive however slow the browser is
    result = echo.using(concurrency=2, unique=True, metadata={"month": "2026-11"}).enqueue(
        "long text " * 40, password="x", order_ids=[*range(80)]
    )
    settle_tasks("retried", 1)
    settle_tasks("retried", delay_ms=3_600_000)
    return result


def test_page_is_accessible_and_changed_without_javascript(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    result = enqueue_retried(redis_server)
    for scheme, width, options in (
        ("light", 1280, {}),
        ("dark", 390, {"locale": "ar"}),
    ):
        page = open_page(scheme, width, **options)
        sign_in(page, site, url_of(result.id))
        assert violations(page) == [], scheme
        assert page.evaluate("document.documentElement.scrollWidth") <= width, scheme
        page.context.clear_cookies()

    page = open_page(java_script_enabled=False)
    sign_in(page, site)
    page.locator(".drc-jump input").fill(result.id)
    page.locator(".drc-jump input").press("Enter")
    expect(page.locator(".drc-answer")).to_contain_text("Not running: its retry after 2 errors is due at")
    page.get_by_role("button", name="Run now").press("Enter")
    expect(page.locator(".messagelist")).to_contain_text("Due now: tests.taskqueue.tasks.echo")
    expect(page.locator(".drc-answer")).to_contain_text("it is the next task")
    page.get_by_role("link", name="Cancel…").press("Enter")
    page.get_by_role("button", name="Cancel the task").press("Enter")
    expect(page.locator(".drc-answer")).to_contain_text("Cancelled at")


def test_form_of_a_pending_task_is_accessible_and_needs_no_javascript(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    result = note.using(run_after=86_400, expires=3_600).enqueue("wrong " * 40)
    page = open_page("dark", 390, locale="ar")
    sign_in(page, site, f"{TASKS}_verb/edit/{quote(result.id)}/")
    page.locator("button[name=show_arguments]").press("Enter")
    expect(page.locator("#id_args")).to_have_value(re.compile("wrong"))
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390

    page = open_page(java_script_enabled=False)
    sign_in(page, site, url_of(result.id))
    page.get_by_role("link", name="Edit…").press("Enter")
    page.get_by_role("button", name="Show arguments").press("Enter")
    page.get_by_label("Positional arguments").fill('["right"]')
    page.get_by_label("Priority").fill("5")
    page.get_by_role("button", name="Save").press("Enter")
    expect(page.locator(".messagelist")).to_contain_text("Saved: tests.taskqueue.tasks.note")
    result.refresh()
    assert result.args == ["right"]


def test_tree_of_a_flow_is_accessible_and_needs_no_javascript(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    step: Any = group(note.si(1))
    for _ in range(20):
        step = group(step, note.si(1))
    flow = group(chain(note.si(1), note.si(2)), chain(note.si(3), note.si(4)), step).enqueue()
    settle_tasks("succeeded", 1)
    settle_tasks("failed", 1)
    for scheme, width, options in (("light", 1280, {}), ("dark", 390, {"locale": "zh-Hans"})):
        page = open_page(scheme, width, **options)
        sign_in(page, site, url_of_flow(flow.id))
        assert violations(page) == [], scheme
        assert page.evaluate("document.documentElement.scrollWidth") <= width, scheme
        page.context.clear_cookies()

    page = open_page(java_script_enabled=False)
    sign_in(page, site, url_of_flow(flow.id))
    branch = page.locator(".drc-tree details details").first
    expect(branch.locator("li").first).to_be_visible()
    branch.locator("summary").press("Enter")
    expect(branch.locator("li").first).not_to_be_visible()
    branch.locator("summary").press("Enter")
    branch.locator("li a").first.press("Enter")
    expect(page).to_have_url(re.compile("/task/"))

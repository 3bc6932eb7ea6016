"""A queue's page in a real browser: accessible in each variant; changed with the keyboard and without JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from django_redis_components.taskqueue import get_queue
from tests.browser.support import ready_site, sign_in, violations
from tests.dashboard.queue_pages import url_of
from tests.dashboard.support import settle_tasks
from tests.support import Store, eventually
from tests.taskqueue.store.support import fail_many
from tests.taskqueue.support import base_key, work_off
from tests.taskqueue.tasks import note

DEFAULT = url_of("default")
#: Runs a test in a wide light window, and in a narrow dark one whose text is written from right to left.
in_two_schemes = pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1280, {}),
        ("dark", 360, {"extra_http_headers": {"Accept-Language": "ar"}}),
    ],
    ids=["light", "dark, narrow and right to left"],
)


@pytest.fixture
def site(live_server: Any, redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    return ready_site(live_server, monkeypatch)


def fill() -> None:
    fail_many(12)
    note.enqueue_many(
        [(({"order_id": number, "password": "x", "note": "long text " * 20},), {}) for number in range(3)]
    )


@in_two_schemes
def test_the_list_and_the_confirmation_of_ticked_tasks_are_accessible(
    scheme: str, width: int, options: dict[str, Any], site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    get_queue("default").pause("mail is down", author="ada")
    page = open_page(scheme, width, **options)
    sign_in(page, site)

    page.goto(f"{site}{DEFAULT}?state=failed")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("tbody input[type=checkbox]").first.check()
    page.locator("button[formaction*='/delete/']").first.click()
    page.wait_for_selector("form.drc-confirm")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@in_two_schemes
def test_finished_tasks_and_one_whose_result_has_expired_are_accessible(
    scheme: str, width: int, options: dict[str, Any], site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    mail = note.enqueue({"to": "kim@example.com", "password": "x", "note": "long text " * 20})
    work_off(worker="mailer:7")
    redis_server.raw.delete(base_key(redis_server, "t", mail.id))
    page = open_page(scheme, width, **options)
    sign_in(page, site)

    page.goto(f"{site}{DEFAULT}?state=successful")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".drc-task-table a").first.click()

    expect(page.locator(".drc-task-facts")).to_contain_text(mail.id)
    expect(page.locator(".drc-task-facts")).to_contain_text("mailer:7")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_refresh_changes_neither_ticked_rows_nor_filters(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    page = open_page()
    sign_in(page, site)
    page.goto(f"{site}{DEFAULT}?state=failed")
    ticked = page.locator("tbody input[type=checkbox]").nth(2)
    ticked.check()
    page.locator("input[name=text]").fill("order")

    settle_tasks("failed")

    expect(page.locator(".drc-states a[aria-current] .drc-count")).to_have_text("15")
    expect(ticked).to_be_checked()
    assert page.locator("tbody input[type=checkbox]").count() == 12
    assert page.locator("input[name=text]").input_value() == "order"


def test_tasks_are_deleted_and_restored_without_javascript_and_with_the_keyboard(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    page = open_page(java_script_enabled=False)
    page.goto(f"{site}/admin/login/?next={DEFAULT}")
    page.locator("#id_username").fill("admin")
    page.locator("#id_password").fill("secret")
    page.locator("#id_password").press("Enter")
    page.get_by_role("link", name="Failed").press("Enter")
    page.locator("tbody input[type=checkbox]").first.press("Space")
    page.get_by_role("button", name="Delete selected…").press("Enter")
    expect(page.locator("h2").first).to_have_text("Delete 1 task of the queue “default” in the state “Failed”?")

    page.get_by_role("button", name="Delete 1 task").press("Enter")
    expect(page.locator(".messagelist")).to_contain_text("Deleted 1 task.")
    assert get_queue("default").info().failed == 11
    page.locator(".messagelist a").press("Enter")
    page.get_by_role("button", name="Restore 1 task").press("Enter")
    eventually(lambda: get_queue("default").info().failed == 12)


def test_the_head_of_the_list_ticks_all_rows_and_the_number_is_said(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    page = open_page()
    sign_in(page, site)
    page.goto(f"{site}{DEFAULT}?state=failed")
    head, rows = page.locator("thead input[type=checkbox]"), page.locator("tbody input[type=checkbox]")
    selected = page.locator("[data-drc-selected]")
    expect(selected).to_be_hidden()

    head.check()
    expect(selected).to_have_text("12 selected")
    rows.nth(3).uncheck()

    expect(selected).to_have_text("11 selected")
    assert head.evaluate("(box) => [box.checked, box.indeterminate]") == [False, True]
    page.get_by_role("button", name="Retry selected…").click()
    expect(page.locator("h2").first).to_have_text("Retry 11 failed tasks of the queue “default”?")


def test_selection_is_announced_and_cleared_with_the_keyboard(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    page = open_page()
    sign_in(page, site)
    page.goto(f"{site}{DEFAULT}?state=failed")
    head, rows = page.locator("thead input[type=checkbox]"), page.locator("tbody input[type=checkbox]")
    status, clear = page.locator(".drc-bulk [role=status]"), page.get_by_role("button", name="Clear selection")
    expect(status).to_have_attribute("aria-live", "polite")
    expect(status).to_have_text("", use_inner_text=True)
    expect(clear).to_be_hidden()

    head.check()
    expect(status).to_have_text("12 selected")
    clear.press("Enter")

    expect(status).to_have_text("", use_inner_text=True)
    expect(clear).to_be_hidden()
    expect(head).to_be_focused()
    assert head.evaluate("(box) => [box.checked, box.indeterminate]") == [False, False]
    assert rows.evaluate_all("(boxes) => boxes.some((box) => box.checked)") is False


def test_the_head_of_the_list_selects_all_rows_without_javascript(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    page = open_page(java_script_enabled=False)
    page.goto(f"{site}/admin/login/?next={DEFAULT}")
    page.locator("#id_username").fill("admin")
    page.locator("#id_password").fill("secret")
    page.locator("#id_password").press("Enter")
    page.get_by_role("link", name="Failed").press("Enter")

    page.locator("thead input[type=checkbox]").press("Space")
    page.get_by_role("button", name="Retry selected…").press("Enter")

    expect(page.locator("h2").first).to_have_text("Retry 12 failed tasks of the queue “default”?")


@pytest.mark.parametrize("state", ["failed", "ready", "scheduled"])
def test_rows_are_one_line_high_and_no_name_is_cut_within_a_word(
    state: str, site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    note.using(run_after=3_600).enqueue_many([(({"note": "long text " * 20},), {}) for _ in range(3)])
    page = open_page("light", 1280)
    sign_in(page, site)
    page.goto(f"{site}{DEFAULT}?state={state}")

    rows = page.locator(".drc-line-table tbody tr")
    heights = rows.evaluate_all("(rows) => rows.map((row) => row.getBoundingClientRect().height)")
    assert heights
    assert max(heights) <= 50
    name = rows.first.locator("th")
    assert name.get_attribute("title") in ("tests.taskqueue.tasks.fail", "tests.taskqueue.tasks.note")
    assert name.locator("> a").evaluate("(link) => link.getClientRects().length") == 1, "on one line"

"""A queue's page in a real browser: accessible in each variant; changed with the keyboard and without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from django_redis_components.taskqueue import get_queue
from tests.browser.support import authenticate, sign_in, violations
from tests.dashboard.queue_pages import url_of
from tests.dashboard.support import settle_tasks
from tests.support import Store, eventually
from tests.taskqueue.store.support import fail_many, park_many
from tests.taskqueue.support import base_key, new_fetcher, work_off
from tests.taskqueue.tasks import note

DEFAULT = url_of("default")
#: Runs a test in a wide light window, and in a narrow dark one whose text is written from right to left.
in_two_schemes = pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1280, {}),
        ("dark", 360, {"locale": "ar"}),
    ],
    ids=["light", "dark, narrow and right to left"],
)


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
    sign_in(page, site, f"{DEFAULT}?state=failed")

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
    sign_in(page, site, f"{DEFAULT}?state=successful")

    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(".drc-task-table a").first.click()

    expect(page.locator(".drc-task-facts")).to_contain_text(mail.id)
    expect(page.locator(".drc-task-facts")).to_contain_text("mailer:7")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.usefixtures("refreshing")
def test_a_refresh_changes_neither_ticked_rows_nor_filters(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    page = open_page()
    sign_in(page, site, f"{DEFAULT}?state=failed")
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
    sign_in(page, site, DEFAULT)
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
    sign_in(page, site, f"{DEFAULT}?state=failed")
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
    sign_in(page, site, f"{DEFAULT}?state=failed")
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


def test_keys_move_between_rows_tick_and_open_them(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    page = open_page()
    sign_in(page, site, f"{DEFAULT}?state=failed")
    links, boxes = page.locator("tbody th > a:first-child"), page.locator("tbody input[type=checkbox]")
    expect(page.get_by_text("next row")).to_be_visible()
    expect(page.get_by_role("group", name="Tasks: Failed")).to_have_accessible_description(re.compile("next row"))
    page.get_by_role("group", name="Tasks: Failed").focus()

    for key, row in (("j", 0), ("k", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        expect(links.nth(row)).to_be_focused()
    assert links.nth(1).evaluate("(link) => link.matches(':focus-visible')")
    page.keyboard.press("x")
    expect(boxes.nth(1)).to_be_checked()
    expect(page.locator("[data-drc-selected]")).to_have_text("1 selected")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("x")
    expect(boxes.nth(1)).not_to_be_checked()
    boxes.nth(2).focus()
    page.keyboard.press("j")
    expect(links.nth(3)).to_be_focused()
    task = links.nth(3).get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{task}")


def test_enter_on_a_ticked_box_opens_the_task_of_its_row(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    page = open_page()
    sign_in(page, site, f"{DEFAULT}?state=failed")
    task = page.locator("tbody th > a:first-child").first.get_attribute("href")

    page.locator("tbody input[type=checkbox]").first.press("Enter")

    page.wait_for_url(f"**{task}")


def test_keys_do_nothing_outside_the_list_in_fields_and_with_modifiers(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    page = open_page()
    sign_in(page, site, f"{DEFAULT}?state=failed")
    links, field = page.locator("tbody th > a:first-child"), page.locator("input[name=name]")

    page.keyboard.press("j")
    assert page.evaluate("document.activeElement === document.body")
    field.press_sequentially("jkx")
    expect(field).to_be_focused()
    expect(field).to_have_value("jkx")
    links.first.focus()
    for key in ("Control+j", "Alt+j", "Meta+j", "Shift+J"):
        page.keyboard.press(key)
        expect(links.first).to_be_focused()
    page.keyboard.press("Control+x")
    assert page.locator("tbody input:checked").count() == 0


def test_keys_work_in_lists_without_boxes_and_are_not_named_without_javascript(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    page = open_page()
    sign_in(page, site, "/admin/django_redis_components/tasksearch/?q=order")
    links = page.locator("tbody th > a:first-child")
    expect(page.get_by_text("next row")).to_be_visible()
    expect(page.get_by_text("next row")).not_to_contain_text("select")

    page.locator(".drc-scroll").focus()
    for key, row in (("j", 0), ("x", 0), ("j", 1)):
        page.keyboard.press(key)
        expect(links.nth(row)).to_be_focused()

    page = open_page(java_script_enabled=False)
    sign_in(page, site, f"{DEFAULT}?state=failed")
    expect(page.locator("tbody th").first).to_be_visible()
    expect(page.get_by_text("next row")).to_be_hidden()


def test_the_head_of_the_list_selects_all_rows_without_javascript(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    page = open_page(java_script_enabled=False)
    sign_in(page, site, DEFAULT)
    page.get_by_role("link", name="Failed").press("Enter")

    page.locator("thead input[type=checkbox]").press("Space")
    page.get_by_role("button", name="Retry selected…").press("Enter")

    expect(page.locator("h2").first).to_have_text("Retry 12 failed tasks of the queue “default”?")


@in_two_schemes
def test_buttons_of_rows_are_accessible_and_need_no_sideways_scroll(
    scheme: str, width: int, options: dict[str, Any], site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    note.enqueue({"note": "long text " * 20})
    new_fetcher(worker="here:7").fetch("0", 1)
    park_many(2)
    fill()
    note.using(run_after=3_600).enqueue_many([(({"note": "long text " * 20},), {}) for _ in range(3)])
    page = open_page(scheme, width, **options)
    authenticate(page, site)

    for state, count in {"failed": 2, "scheduled": 2, "running": 1, "ready": 1, "unregistered": 1}.items():
        page.goto(f"{site}{DEFAULT}?state={state}")
        assert page.locator("tbody tr").first.locator(".drc-row-action button").count() == count, state
        assert page.evaluate("document.documentElement.scrollWidth") <= width, state
        lists = page.locator(".drc-scroll:has(.drc-line-table)")
        assert lists.evaluate("(list) => list.scrollWidth <= list.clientWidth"), state
        assert violations(page) == [], state


@pytest.mark.parametrize("state", ["failed", "ready", "scheduled"])
def test_rows_are_one_line_high_and_no_name_is_cut_within_a_word(
    state: str, site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill()
    note.using(run_after=3_600).enqueue_many([(({"note": "long text " * 20},), {}) for _ in range(3)])
    page = open_page("light", 1280)
    sign_in(page, site, f"{DEFAULT}?state={state}")

    rows = page.locator(".drc-line-table tbody tr")
    heights = rows.evaluate_all("(rows) => rows.map((row) => row.getBoundingClientRect().height)")
    assert heights
    assert max(heights) <= 50
    name = rows.first.locator("th")
    assert name.get_attribute("title") in ("tests.taskqueue.tasks.fail", "tests.taskqueue.tasks.note")
    assert name.locator("> a").evaluate("(link) => link.getClientRects().length") == 1, "on one line"
    ends = "(text) => [text, text.parentElement].map((each) => each.getBoundingClientRect().right)"
    end, limit = name.locator("> a > bdi").evaluate(ends)
    assert end <= limit + 1, "a long name is cut at its beginning"

"""The page of workers in a real browser: accessible, narrow and dark, and usable without JavaScript by the keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.support import sign_in, violations
from tests.dashboard.support import write_worker
from tests.dashboard.worker_pages import REPORT, WORKERS, fill, waiting
from tests.support import Store


@pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1280, {}),
        ("dark", 360, {"locale": "ar"}),
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
    write_worker(redis_server, "app-1:aa.1", seen_s=-600, busy=12, **{**REPORT, "runs": runs})
    page = open_page(scheme, width, **options)
    sign_in(page, site, WORKERS)

    page.locator("[data-drc-pause]").click()
    details = page.locator(".drc-row-details")
    expect(details.first).to_be_hidden()
    page.locator(".drc-more summary").first.press("Enter")
    expect(details.first).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(f"a[href='{WORKERS}stop/?id=app-1%3Aaa']").first.press("Enter")
    page.locator("form.drc-form[method=post] button").press("Enter")

    expect(page.locator(".messagelist")).to_be_visible()
    assert waiting() == {"app-1:aa": "stop"}


@pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [("light", 1280, {"locale": "zh-CN"}), ("dark", 360, {"locale": "ar"})],
    ids=["light, Chinese", "dark, narrow, right to left"],
)
def test_a_pool_is_changed_by_an_accessible_form(
    scheme: str, width: int, options: dict[str, Any], site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    line = "default --threads 8 --async-concurrency 100"
    changes = [["threads", "8", "anna", 1_790_000_000_000, 1]]
    report = {**REPORT, "command_line": line, "async_concurrency": 100, "threads": 6, "changes": changes}
    for worker in ("app-1:aa.1", "app-2:bb.1"):
        write_worker(redis_server, worker, seen_s=-600, **report)  # alive however slow the browser is
    page = open_page(scheme, width, **options)
    sign_in(page, site, WORKERS)

    page.locator("[data-drc-pause]").click()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator(f"a[href='{WORKERS}pool/?id=app-1%3Aaa&id=app-2%3Abb&all=1']").press("Enter")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("input[name=threads]").fill("4")
    page.locator("input[name=queues]").fill("mail=5,default=1")
    keep = page.locator("input[name=keep]")
    box = keep.bounding_box()
    label = page.locator("label:has(> [name=keep])").bounding_box()
    assert box
    assert label
    assert box["height"] <= label["height"] <= 1.5 * box["height"]  # beside its text, not below
    keep.press("Space")
    page.locator("form.drc-form[method=post] button").press("Enter")

    expect(page.locator(".messagelist")).to_be_visible()
    assert waiting() == {"app-1:aa": "pool", "app-2:bb": "pool"}


@pytest.mark.usefixtures("refreshing")
def test_fifty_processes_are_a_line_each_and_details_stay_open(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    for number in range(49):  # and one that appears later: a page has 50
        runs = [["task-1", "shop.tasks.send_receipt", "mail", 50, 60]] if number % 2 else []
        report = {**REPORT, "runs": runs, "host": f"app-{number % 4}", "pid": 100 + number, "version": str(number % 2)}
        write_worker(redis_server, f"app-{number % 4}:{number}.a", seen_s=-600, busy=number % 8, **report)
    page = open_page("light", 1280)
    sign_in(page, site, WORKERS)

    assert page.evaluate("document.documentElement.scrollHeight") < 3_000
    lines = page.locator("tr:has(details)").evaluate_all("(rows) => rows.map((row) => row.offsetHeight)")
    assert len(lines) == 49
    assert max(lines) < 45
    page.locator(".drc-more summary").nth(1).click()
    with page.expect_response(lambda response: "format=fragment" in response.url):
        write_worker(redis_server, "app-9:9.a", seen_s=-600, **REPORT)
    expect(page.locator("h2", has_text="app-9")).to_be_visible()
    expect(page.locator(".drc-workers details[open]")).to_have_count(1)
    expect(page.locator(".drc-row-details:visible")).to_have_count(1)

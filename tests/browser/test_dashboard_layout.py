"""How the pages look and feel: the first remedy by the keyboard, charts, commands, links, and narrow screens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.admin.utils import quote
from playwright.sync_api import Page, expect

from django_redis_components.core.observability import flushing
from django_redis_components.dashboard.page import Page as DashboardPage
from django_redis_components.locks import Lock
from django_redis_components.taskqueue import group
from tests.browser.support import ready_site, sign_in, violations
from tests.dashboard.live import LIVE, event, record_events, send
from tests.dashboard.queue_pages import url_of, write_error, write_past
from tests.dashboard.support import URL, fail_with, write_poller, write_queue, write_schedule, write_worker
from tests.dashboard.worker_pages import REPORT, WORKERS
from tests.support import Store
from tests.taskqueue.tasks import note

ADMIN = URL.removesuffix("overview/")


@pytest.fixture
def site(live_server: Any, redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    site = ready_site(live_server)
    monkeypatch.setattr(DashboardPage, "refresh_s", 60)
    return site


def fill(store: Store) -> None:
    fail_with(*["no stock"] * 3, queue="mail")
    write_queue(store, "mail", ready=1_284, age_s=400, scheduled=2, unregistered=5)
    write_queue(store, "a queue with a rather long name, as some have", running=1)
    write_worker(store, "web-1.example.com:a", queues=["high", "mail"], busy=2, **REPORT)
    write_worker(store, "web-2.example.com:b", seen_s=100)
    write_poller(store)
    write_schedule(store, "shop.tasks.refresh every 300 s", late_s=90)
    write_past(store, "mail")
    write_error(store, "mail")
    note.using(queue_name="mail").enqueue_many(
        [(({"order_id": number, "note": "long " * 20},), {}) for number in range(9)]
    )


def test_first_remedy_is_a_few_tabs_from_the_start(site: str, redis_server: Store, page: Page) -> None:
    fill(redis_server)
    sign_in(page, site)

    tabs = 0

    def tab_until(selector: str) -> None:
        nonlocal tabs
        while not page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            page.keyboard.press("Tab")
            tabs += 1
            assert tabs <= 8, selector

    tab_until(".skip-to-content-link")
    page.keyboard.press("Enter")
    tab_until(".drc-skip")
    expect(page.locator(".drc-skip")).to_be_in_viewport()
    assert page.locator(".drc-skip").text_content() == "Skip to the problems"
    page.keyboard.press("Enter")
    tab_until(".drc-problems .drc-actions a")


def test_crosshair_is_shared_and_survives_a_refresh(
    site: str, redis_server: Store, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DashboardPage, "refresh_s", 0.1)
    fill(redis_server)
    sign_in(page, site)
    charts, lines = page.locator(".drc-history svg.drc-chart"), page.locator(".drc-history .drc-crosshair")
    assert set(lines.evaluate_all("(all) => all.map((line) => getComputedStyle(line).visibility)")) == {"hidden"}

    charts.first.hover()

    for _ in range(2):
        expect(lines.first).to_have_attribute("x1", lines.last.get_attribute("x1") or "")
        expect(page.locator("[data-drc-readout]").first).to_contain_text("Finished")
        with page.expect_response(lambda response: "format=fragment" in response.url):
            pass
    assert set(lines.evaluate_all("(all) => all.map((line) => getComputedStyle(line).visibility)")) == {"visible"}
    assert len(set(lines.evaluate_all("(all) => all.map((line) => line.getAttribute('x1'))"))) == 1
    page.mouse.move(0, 0)
    expect(page.locator("[data-drc-readout]").first).to_have_text("")


def test_charts_fill_their_panels_and_bars_of_failures_are_links(site: str, redis_server: Store, page: Page) -> None:
    fill(redis_server)
    sign_in(page, site)

    widths = page.locator(".drc-history .drc-plot").evaluate_all(
        "(all) => all.map((plot) => [plot.clientWidth, plot.closest('section').clientWidth])"
    )
    assert all(panel - plot <= 34 for plot, panel in widths)
    bars = page.locator(".drc-history .drc-bar").evaluate_all(
        "(all) => all.map((bar) => bar.getBoundingClientRect().width)"
    )
    assert min(bars) >= 6
    assert page.locator(".drc-history .drc-since, .drc-history figcaption").first.text_content()
    page.locator(".drc-history a:has(.drc-bar-bad)").last.click()
    expect(page.locator("h1")).to_have_text("Queue mail")
    expect(page.get_by_label("From")).not_to_have_value("")
    expect(page.locator(".drc-tasks tbody tr")).not_to_have_count(0)


def test_command_is_on_the_baseline_and_is_copied(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill(redis_server)
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    sign_in(page, site)
    code = page.locator(".drc-problems code").first

    button = page.get_by_role("button", name=f"Copy {code.text_content()}").first
    button.press("Enter")

    expect(button).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == code.text_content()
    baselines = page.locator(".drc-problems p:has(code)").evaluate_all(
        """(all) => all.map((part) => {
            const mark = () => Object.assign(document.createElement("img"), { width: 1, height: 1, alt: "" });
            const [inside, outside] = [mark(), mark()];
            part.querySelector("code").prepend(inside);
            part.querySelector("code").before(outside);
            return Math.abs(inside.getBoundingClientRect().bottom - outside.getBoundingClientRect().bottom);
        })"""
    )
    assert max(baselines) <= 1


def test_links_are_underlined_in_texts_only(site: str, redis_server: Store, page: Page) -> None:
    fill(redis_server)
    for number in range(14):
        write_queue(redis_server, f"q{number}", ready=1)
    sign_in(page, site)

    def underlined(selector: str) -> set[str]:
        script = "(all) => all.map((link) => getComputedStyle(link).textDecorationLine)"
        return set(page.locator(f"#content-main {selector}").evaluate_all(script))

    for selector in (".drc-tabs a", ".drc-ranges a", ".drc-table a", ".drc-problems .drc-actions a", ".drc-tiles a"):
        assert underlined(selector) == {"none"}, selector
    assert underlined("p.drc-part a") == {"underline"}


@pytest.mark.parametrize("language", ["en", "ar", "zh-hans"])
def test_narrow_pages_fit_the_screen(
    language: str, site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill(redis_server)
    locks = [Lock(f"market:item:{number}", timeout=900) for number in range(12)]
    for lock in locks:
        lock.acquire()
    page = open_page("dark", 390, 844)
    sign_in(page, site, URL, language)

    box = page.locator(".drc-problems li").first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 700, "the first problem, with its remedy, is on the first screen"
    for path in (URL, url_of("mail"), f"{url_of('mail')}?state=failed", WORKERS, f"{ADMIN}lock/", f"{ADMIN}queues/"):
        page.goto(site + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        wide = (
            "(all) => all.filter((box) => box.scrollWidth > box.clientWidth).map((box) => box.outerHTML.slice(0, 90))"
        )
        assert page.locator(".drc-scroll").evaluate_all(wide) == [], path
    page.goto(f"{site}{ADMIN}lock/")
    release = page.locator("a.button[href*='/lock/release/']").first
    found = release.bounding_box()
    assert found is not None
    assert 0 <= found["x"] < found["x"] + found["width"] <= 390
    starts = page.locator(".drc-held tbody tr td[data-l]").evaluate_all(
        "(all) => all.filter((cell) => cell.offsetParent).map((cell) => Math.round(cell.getBoundingClientRect().left))"
    )
    assert len(set(starts)) <= 3, "values are in three columns"
    for lock in locks:
        lock.release()


def test_numbers_that_take_two_lines_on_a_narrow_page_begin_below_their_label(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    flow = group(note.s(number) for number in range(20)).enqueue(callback=note.s())
    page = open_page("light", 390, 844)
    sign_in(page, site, f"{ADMIN}taskflow/{quote(flow.id)}/")

    after = page.get_by_role("cell", name="0, 1, 2, 3, 4")
    expect(after).to_have_css("text-align", "start")


def test_release_is_reachable_where_the_table_is_wider_than_the_page(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    lock = Lock("a rather long name of a lock " * 4, timeout=900)
    lock.acquire()
    page = open_page("light", 760)
    sign_in(page, site, f"{ADMIN}lock/")

    box = page.locator("a.button[href*='/lock/release/']").first.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 760
    lock.release()


def test_a_hundred_events_are_a_bounded_list_on_a_narrow_page(
    site: str, open_page: Callable[..., Page], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600.0)
    record_events(settings)
    facts = {"queue": "mail", "source": "app-1.example.org:4711.2f6d8a"}
    send(
        *[
            event("succeeded", "shop.tasks.send_receipt", task_id=f"t{number}", duration_s=0.02, **facts)
            for number in range(100)
        ]
    )
    page = open_page("light", 390, 844)
    sign_in(page, site, LIVE)

    expect(page.locator(".drc-event-table tbody tr")).to_have_count(100)
    assert page.evaluate("document.documentElement.scrollHeight") < 2_000
    assert violations(page) == []


def test_wide_labels_of_an_axis_do_not_cover_the_border(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill(redis_server)
    page = open_page("light", 1280)
    sign_in(page, site, URL, "zh-hans")

    outside = page.locator(".drc-values li").evaluate_all(
        """(all) => all.filter((label) => {
            const range = document.createRange();
            range.selectNodeContents(label);
            const panel = label.closest("section").getBoundingClientRect();
            const plot = label.closest(".drc-plot").querySelector("svg").getBoundingClientRect();
            const text = range.getBoundingClientRect();
            return text.left < panel.left + 8 || text.right > plot.left;
        }).map((label) => label.textContent)"""
    )
    assert outside == []
    assert "毫秒" in (page.locator(".drc-history").text_content() or "")


def test_headings_of_columns_are_not_broken_between_chinese_characters(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    [task_id] = fail_with("no stock", queue="mail")
    page = open_page("light", 390, 844)
    sign_in(page, site, f"{ADMIN}task/{quote(task_id)}/", "zh-hans")
    page.get_by_text("显示数据").first.click()

    headings = page.locator(".drc-table thead th")
    heights = headings.evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().height)")
    assert headings.first.text_content() == "运行"
    assert max(heights) < 40, "one line"


#: Distances of elements from the edge at which lines start.
DISTANCES = """(selectors) => {
    const isMirrored = document.documentElement.dir === "rtl", width = document.documentElement.clientWidth;
    return Object.fromEntries(selectors.map((selector) => {
        const { left, right } = document.querySelector(selector).getBoundingClientRect();
        return [selector, Math.round(isMirrored ? width - right : left)];
    }));
}"""
#: Elements at the start, in the middle and at the end of lines. Arabic has no translations: the widths are the same.
MIRRORED = (
    ".drc-tabs li:first-child a",
    ".drc-tabs .drc-count",
    ".drc-tabs li:nth-child(5) a",
    ".drc-problems li .drc-actions a",
    ".drc-history .drc-plot",
    "[data-drc-live=queues] thead tr:last-child th:first-child",
    "[data-drc-live=queues] tbody tr:first-child td:last-child",
)


def test_page_is_mirrored_where_lines_are_written_from_right_to_left(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill(redis_server)
    page = open_page("light", 1280)
    sign_in(page, site)
    from_left = page.evaluate(DISTANCES, MIRRORED)

    page.context.add_cookies([{"name": django_settings.LANGUAGE_COOKIE_NAME, "value": "ar", "url": site}])
    page.goto(site + URL)

    assert page.evaluate("document.documentElement.dir") == "rtl"
    assert from_left[".drc-tabs li:first-child a"] < 100
    assert page.evaluate(DISTANCES, MIRRORED) == pytest.approx(from_left, abs=2)
    values, chart = (page.locator(f".drc-history {part}").first.bounding_box() for part in (".drc-values", "svg"))
    assert values is not None
    assert chart is not None
    assert values["x"] < chart["x"], "within a chart time runs from left to right in every language"


def test_fifty_tasks_are_a_bounded_list_on_a_narrow_page(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    note.using(queue_name="mail").enqueue_many([(({"note": "long text " * 20},), {}) for _ in range(60)])
    page = open_page("light", 390, 844)
    sign_in(page, site, f"{url_of('mail')}?state=ready")

    rows = page.locator(".drc-task-table tbody tr")
    heights = rows.evaluate_all("(rows) => rows.map((row) => row.offsetHeight)")
    assert len(heights) == 50
    assert max(heights) <= 200
    assert page.evaluate("document.documentElement.scrollHeight") < 3_000
    rows.last.scroll_into_view_if_needed()
    expect(rows.last).to_be_in_viewport()

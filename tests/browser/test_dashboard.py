"""The dashboard in a real browser: accessibility, content security policy, and refreshes that keep focus and input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

from django_redis_components.analytics import SignIns, UniqueVisitors
from tests.browser.support import LOOK_RULES, REFRESH_S, ready_site, sign_in, violations
from tests.browser.windows import Complaints
from tests.dashboard.queue_pages import write_error, write_past
from tests.dashboard.support import write_poller, write_queue, write_schedule, write_worker
from tests.support import Store, eventually


def fill(store: Store) -> None:
    write_queue(store, "mail", ready=1_284, age_s=400, scheduled=2, failed=4, unregistered=5)
    write_queue(store, "a queue with a rather long name, as some have", running=1)
    write_worker(store, "web-1.example.com:a", queues=["high", "mail"], busy=2, finished=12_345)
    write_worker(store, "web-2.example.com:b", seen_s=100)
    write_poller(store)
    write_schedule(store, "shop.tasks.send_the_report_of_the_day cron 0 3 * * * (Europe/Berlin)")
    write_schedule(store, "shop.tasks.refresh every 300 s", late_s=90)
    UniqueVisitors("default").add(*range(50))
    SignIns("default").sign_in(7)


#: Columns of the table of queues, counted behind their names.
READY, FAILED = 1, 7


def cell(page: Page, queue: str, column: int) -> Any:
    return page.locator(f"tr:has(bdi:text-is('{queue}')) td").nth(column)


@pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1280, {}),
        ("dark", 360, {}),
        ("light", 1280, {"locale": "zh-CN"}),
        ("dark", 1280, {"locale": "ar"}),
    ],
    ids=["wide", "narrow", "Chinese", "right to left"],
)
def test_the_page_is_accessible_and_does_not_scroll_sideways(
    scheme: str, width: int, options: dict[str, Any], site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill(redis_server)
    page = open_page(scheme, width, **options)
    sign_in(page, site)

    page.locator("[data-drc-pause]").click()
    for summary in page.locator("[data-drc-fragment] summary").all():
        summary.click()

    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.emulate_media(color_scheme="dark" if scheme == "light" else "light")
    assert violations(page, LOOK_RULES) == []
    if width < 500:
        tables = page.locator(".drc-scroll").evaluate_all(
            "(all) => all.map((box) => box.scrollWidth > box.clientWidth)"
        )
        assert not any(tables)


def test_an_empty_site_is_accessible(site: str, page: Page) -> None:
    sign_in(page, site)

    assert violations(page) == []


def test_pages_follow_the_theme_of_the_admin(site: str, redis_server: Store, open_page: Callable[..., Page]) -> None:
    fill(redis_server)
    page = open_page("light")
    sign_in(page, site)

    def fill_of_bars() -> str:
        return page.locator(".drc-bar").first.evaluate("(bar) => getComputedStyle(bar).fill")

    light = fill_of_bars()
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    dark = fill_of_bars()
    page.emulate_media(color_scheme="dark")
    page.evaluate("document.documentElement.dataset.theme = 'light'")

    assert light != dark
    assert fill_of_bars() == light


@pytest.mark.usefixtures("refreshing")
def test_figures_are_updated_in_place(site: str, redis_server: Store, page: Page) -> None:
    write_queue(redis_server, "mail", failed=1)
    write_poller(redis_server)
    write_worker(redis_server, "here:a", seen_s=-600, queues=["mail"])
    sign_in(page, site)
    expect(cell(page, "mail", FAILED)).to_have_text("1")
    page.locator("[data-drc-live=queues] thead a").first.focus()
    page.evaluate("document.querySelector('#drc-queues').closest('section').querySelector('tbody').mine = 'kept'")

    write_queue(redis_server, "mail", failed=7)

    expect(cell(page, "mail", FAILED)).to_have_text("7")
    assert (
        page.evaluate("document.querySelector('#drc-queues').closest('section').querySelector('tbody').mine") == "kept"
    )
    assert page.evaluate("document.activeElement.closest('th').textContent.trim()") == "Queue ▴"


@pytest.mark.usefixtures("refreshing")
def test_a_new_queue_and_its_problems_appear_and_are_announced(site: str, redis_server: Store, page: Page) -> None:
    write_poller(redis_server)
    sign_in(page, site)
    expect(page.locator("[data-drc-headline]")).to_have_text("No problems. No tasks have been enqueued yet.")
    assert page.locator("[data-drc-status]").text_content() == ""

    write_queue(redis_server, "<img src=x>", ready=2)

    expect(cell(page, "<img src=x>", READY)).to_have_text("2")
    expect(page.locator("[data-drc-status]")).to_have_text("1 problem")
    assert page.locator("[data-drc-status]").get_attribute("role") == "status"
    assert page.locator(".drc-problems li").count() == 1
    assert page.locator(".drc-dashboard img").count() == 0


@pytest.mark.usefixtures("refreshing")
def test_updates_paused_by_keyboard_stay_paused(site: str, redis_server: Store, page: Page) -> None:
    write_queue(redis_server, "mail", failed=1)
    sign_in(page, site)
    button = page.get_by_role("button", name="Pause updates")

    button.focus()
    page.keyboard.press("Enter")

    expect(page.locator("[data-drc-pause]")).to_have_text("Resume updates")
    page.reload()
    expect(page.locator("[data-drc-pause]")).to_have_text("Resume updates")
    with requests_of(page) as asked:
        page.wait_for_timeout(REFRESH_S * 1_000 * 4)
    assert asked == []
    write_queue(redis_server, "mail", failed=9)
    page.get_by_role("button", name="Resume updates").press("Space")
    expect(cell(page, "mail", FAILED)).to_have_text("9")
    expect(page.locator("[data-drc-pause]")).to_have_text("Pause updates")


@contextmanager
def requests_of(page: Page) -> Iterator[list[str]]:
    """Collect the refreshes that the page asks for."""
    asked: list[str] = []

    def on_request(request: Request) -> None:
        if "format=fragment" in request.url:
            asked.append(request.url)

    page.on("request", on_request)
    yield asked
    page.remove_listener("request", on_request)


@pytest.mark.usefixtures("refreshing")
def test_a_hidden_page_sends_no_requests(site: str, redis_server: Store, page: Page) -> None:
    sign_in(page, site)
    hide = """(hidden) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""

    page.evaluate(hide, True)
    with requests_of(page) as asked:
        page.wait_for_timeout(REFRESH_S * 1_000 * 4)
        while_hidden = list(asked)
        page.evaluate(hide, False)

        assert while_hidden == []
        eventually(lambda: (page.wait_for_timeout(20), asked)[1])


@pytest.mark.usefixtures("refreshing")
def test_only_one_refresh_is_in_flight(site: str, redis_server: Store, page: Page) -> None:
    sign_in(page, site)
    held = []
    page.route("**/*format=fragment*", lambda route: held.append(route))

    eventually(lambda: (page.wait_for_timeout(20), held)[1])
    page.wait_for_timeout(REFRESH_S * 1_000 * 4)

    assert len(held) == 1


@pytest.mark.usefixtures("refreshing")
def test_page_shows_stale_data_during_an_outage_and_recovers(
    live_server: Any, own_server: Store, page: Page, complaints: Complaints, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints.expect_status(503)
    site = ready_site(live_server)
    write_queue(own_server, "mail", failed=3)
    sign_in(page, site)
    expect(cell(page, "mail", FAILED)).to_have_text("3")

    with page.expect_response(lambda response: response.request.resource_type == "fetch"):
        pass  # a server that ends during an update leaves a page without the queues
    own_server.servers[0].kill()

    status = page.locator("[data-drc-status]")
    expect(status).to_have_text("Cannot connect to Redis. The data is stale; retrying.")
    expect(page.locator("[data-drc-dashboard]")).to_have_class("drc-dashboard drc-stale")
    expect(cell(page, "mail", FAILED)).to_have_text("3")
    page.reload()
    expect(page.locator("h2").first).to_have_text("Cannot connect to Redis.")
    assert violations(page) == []

    own_server.servers[0].start()

    expect(cell(page, "mail", FAILED)).to_have_text("3")


@pytest.mark.usefixtures("refreshing")
def test_an_open_page_recovers_when_redis_is_available_again(
    live_server: Any, own_server: Store, page: Page, complaints: Complaints, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints.expect_status(503)
    sign_in(page, ready_site(live_server))
    own_server.servers[0].kill()
    expect(page.locator(".drc-stale")).to_have_count(1)

    own_server.servers[0].start()

    expect(page.locator("[data-drc-status]")).to_have_text(
        "Redis is available again. No problems. No tasks have been enqueued yet."
    )
    expect(page.locator(".drc-stale")).to_have_count(0)


@pytest.mark.usefixtures("refreshing")
def test_a_signed_out_page_shows_a_message_and_stops_refreshing(site: str, redis_server: Store, page: Page) -> None:
    sign_in(page, site)

    page.context.clear_cookies()

    expect(page.locator("[data-drc-status]")).to_have_text("You are signed out. Reload the page to sign in.")
    with requests_of(page) as asked:
        page.wait_for_timeout(REFRESH_S * 1_000 * 4)
    assert asked == []


def test_pages_are_complete_without_javascript(site: str, redis_server: Store, open_page: Callable[..., Page]) -> None:
    fill(redis_server)
    page = open_page(java_script_enabled=False)
    sign_in(page, site)
    expect(cell(page, "mail", FAILED)).to_have_text("4")
    expect(page.locator("[data-drc-pause]")).to_be_hidden()

    write_queue(redis_server, "mail", failed=8)
    page.get_by_role("link", name="Refresh", exact=True).click()

    expect(cell(page, "mail", FAILED)).to_have_text("8")
    page.get_by_role("link", name="Oldest").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Oldest")


def test_tab_order_follows_the_page(site: str, redis_server: Store, page: Page) -> None:
    fill(redis_server)
    sign_in(page, site)
    page.get_by_role("button", name="Pause updates").click()

    problems = page.locator(".drc-problems :is(a, button)").evaluate_all(
        "(links) => links.map((link) => link.className)"
    )
    reached = []
    tiles = ["A", "A", "drc-note", "A"]  # failure rate, visitors, their month, sign-ins
    ranges = ["A"] * 4
    sorted_by, queues = ["A"] * 11, ["A", "A"]
    table_of_queues = ["INPUT", "button", "drc-scroll", *sorted_by, *queues]
    expected = ["drc-refresh", "A", *problems, *tiles, *ranges, *table_of_queues, "drc-end", "drc-scroll"]
    for _ in expected:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.className || document.activeElement.tagName"))

    assert reached == expected


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)], ids=["light", "dark and narrow"])
@pytest.mark.usefixtures("refreshing")
def test_a_queue_page_is_accessible_and_updated(
    scheme: str, width: int, site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill(redis_server)
    write_past(redis_server, "mail")
    write_error(redis_server, "mail")
    page = open_page(scheme, width)
    sign_in(page, site)
    page.get_by_role("link", name="mail", exact=True).first.click()
    expect(page.get_by_role("heading", name="Queue mail")).to_be_visible()

    write_queue(redis_server, "mail", failed=9)

    expect(page.locator(".drc-states")).to_contain_text("9")
    page.locator("[data-drc-pause]").click()
    for summary in page.locator("[data-drc-fragment] summary").all():
        summary.click()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width

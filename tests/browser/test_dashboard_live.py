"""The page Live in a real browser: rows arrive at the top, the focus stays on its row, links stay under the pointer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from django_redis_components.core.observability import flushing
from django_redis_components.core.observability.live_events import LiveEvent
from tests.browser.support import authenticate, ready_site, sign_in, violations
from tests.dashboard.live import LIVE, event, record_events, send
from tests.support import Store


@pytest.fixture
def site(live_server: Any, redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600.0)
    record_events(settings)
    return ready_site(live_server)


def fill() -> None:
    facts = {"queue": "mail", "source": "app-1.example.org:4711.2f6d8a"}
    send(
        event("started", "shop.tasks.send_receipt", task_id="QvJkR2", **facts),
        event("succeeded", "shop.tasks.send_receipt", task_id="QvJkR2", duration_s=0.023, **facts),
        event("retried", f"shop.tasks.{'a_rather_long_name_' * 4}", duration_s=1.4, error="requests.Timeout", **facts),
        event("failed", "shop.tasks.charge", duration_s=9.2, error="LookupError", message="no mail for user", **facts),
        event("delayed", "shop.tasks.export", duration_s=0.002, **facts),
        event("cancelled", "shop.tasks.export", duration_s=2.1, **facts),
        event("requeued", "shop.tasks.export", **facts),
        event("unregistered", "shop.tasks.gone", **facts),
        LiveEvent("waiting", "lock", "stock:42", duration_s=0.8),
        LiveEvent("acquired", "lock", "stock:42", duration_s=2.31),
        LiveEvent("gave_up", "semaphore", "printers", duration_s=5.0),
        LiveEvent("left_out", "", "", left_out=1_214),
    )


@pytest.mark.parametrize(
    ("scheme", "width", "language"),
    [("light", 1280, "en"), ("dark", 360, "ar")],
    ids=["light", "dark, narrow, right to left"],
)
def test_page_is_accessible(scheme: str, width: int, language: str, site: str, open_page: Callable[..., Page]) -> None:
    fill()
    page = open_page(scheme, width)
    sign_in(page, site, LIVE, language)

    assert page.evaluate("document.documentElement.dir") == ("rtl" if language == "ar" else "ltr")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("[data-drc-key]").count() == 12


@pytest.mark.usefixtures("refreshing")
def test_new_events_appear_above_a_focused_row(site: str, page: Page) -> None:
    fill()
    sign_in(page, site, LIVE)
    first = page.locator("[data-drc-key]").first
    receipt = page.locator("a", has_text="shop.tasks.charge")
    receipt.focus()

    send(event("started", "shop.tasks.newest", task_id="N3w"))

    expect(first).to_contain_text("shop.tasks.newest")
    expect(page.locator("[data-drc-key]")).to_have_count(13)
    expect(receipt).to_be_focused()


@pytest.mark.usefixtures("refreshing")
def test_rows_do_not_move_while_the_pointer_is_on_a_link(site: str, open_page: Callable[..., Page]) -> None:
    fill()
    page = open_page(is_shared=False)
    authenticate(page, site)
    page.clock.install()
    page.goto(site + LIVE)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.locator("a", has_text="shop.tasks.charge").hover()
    send(event("started", "shop.tasks.newest", task_id="N3w"))

    page.clock.run_for(10_000)
    assert [url for url in requests if "format=fragment" in url] == []
    page.mouse.move(0, 0)
    page.clock.run_for(3_000)

    expect(page.locator("[data-drc-key]").first).to_contain_text("shop.tasks.newest")


@pytest.mark.usefixtures("refreshing")
def test_first_event_replaces_the_empty_page_and_old_rows_leave(site: str, redis_server: Store, page: Page) -> None:
    sign_in(page, site, LIVE)
    expect(page.locator(".drc-empty")).to_be_visible()

    send(*[event("succeeded", f"shop.tasks.number_{number}") for number in range(100)])
    expect(page.locator("[data-drc-key]")).to_have_count(100)
    send(*[event("succeeded", f"shop.tasks.number_{number}") for number in range(100, 120)])

    expect(page.locator("[data-drc-key]").first).to_contain_text("number_119")
    expect(page.locator("[data-drc-key]")).to_have_count(100)
    expect(page.locator("[data-drc-key]").last).to_contain_text("number_20")

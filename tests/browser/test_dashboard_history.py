"""The history on the overview in a real browser: accessible, narrow and dark, and the range is kept by refreshes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.support import authenticate, sign_in, violations
from tests.dashboard.support import URL, now_ms, write_poller, write_queue
from tests.support import Store
from tests.taskqueue.support import base_key


def fill(store: Store) -> None:
    """Write the history of a site whose tasks fail and take longer since two thirds of each range."""
    rnd = random.Random(3)
    for minutes, count in ((1, 60), (10, 144), (60, 168), (1_440, 90)):
        newest = now_ms(store) // 60_000 // minutes
        for ago in range(count):
            is_late = ago < count // 3
            finished = round(minutes * rnd.randrange(350, 500) * (0.4 if not ago else 1))
            failed = round(finished * rnd.uniform(0.01, 0.05)) if is_late else 0
            numbers = [finished - failed, failed, *[0] * 102]
            for start, slowest in ((8, 34 if is_late else 22), (56, 27 if is_late else 20)):
                numbers[start + 12] = finished * 8 // 10
                numbers[start + slowest] = finished - numbers[start + 12]
            if ago == count // 2:
                continue
            key = base_key(store, "history", f"{minutes}:{newest - ago}")
            store.raw.set(key, struct.pack(">104I", *numbers), ex=3_600)
    write_queue(store, "mail", ready=3)
    write_poller(store)


@pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1280, {"locale": "zh-CN"}),
        ("dark", 360, {"locale": "ar"}),
    ],
    ids=["light, Chinese", "dark, narrow, right to left"],
)
def test_history_is_accessible_and_fits(
    scheme: str, width: int, options: dict[str, Any], site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill(redis_server)
    page = open_page(scheme, width, **options)
    authenticate(page, site)

    for name in ("1h", "24h", "7d", "90d"):
        page.goto(f"{site}{URL}?range={name}")
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        expect(page.locator(".drc-history svg.drc-chart")).to_have_count(4)


@pytest.mark.usefixtures("refreshing")
def test_range_is_chosen_by_the_keyboard_and_kept_by_a_refresh(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    fill(redis_server)
    page = open_page("light", 1280)
    sign_in(page, site)
    page.locator(".drc-ranges a[href='?range=7d']").press("Enter")
    expect(page.locator(".drc-ranges a[aria-current]")).to_have_text("7 d")
    redis_server.raw.delete(*[key for key in redis_server.keys() if b":history:60:" in key])  # noqa: SIM118 - a Store is no dict

    with page.expect_response(lambda response: "format=fragment" in response.url) as refreshed:
        page.evaluate("document.querySelector('[data-drc-pause]').click()")
        page.evaluate("document.querySelector('[data-drc-pause]').click()")

    assert "range=7d" in refreshed.value.url
    expect(page.locator(".drc-history .drc-empty")).to_contain_text("No task has finished in this range.")
    expect(page.locator(".drc-ranges a[aria-current]")).to_have_text("7 d")

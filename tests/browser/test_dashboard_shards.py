"""Pages over two shards in a real browser: accessible, narrow and dark, and following an outage of a shard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from django_redis_components.testing import drain
from tests.browser.support import (
    HEIGHT,
    LAYOUT,
    LOOK_RULES,
    WIDE,
    another_look,
    authenticate,
    ready_site,
    sign_in,
    violations,
)
from tests.support.stores import Stores
from tests.taskqueue.shards.support import TwoShards, in_both, two_servers
from tests.taskqueue.tasks import fail

START = "/admin/django_redis_components"
PAGES = (
    "overview",
    "queues",
    "worker",
    "failure",
    "tasksearch/?q=name:note",
    "taskflow",
    "queues/mail",
    "schedule",
    "liveevent",
    "memory",
)


@pytest.fixture
def shards(stores: Stores, settings: Any) -> Iterator[TwoShards]:
    with two_servers(stores, settings) as made:
        yield made


@pytest.fixture
def site(live_server: Any, shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> str:
    return ready_site(live_server)


def test_pages_of_two_shards_are_accessible_and_not_too_wide(
    site: str, shards: TwoShards, settings: Any, open_page: Callable[..., Page]
) -> None:
    fail.using(queue_name="mail", max_attempts=1).enqueue()
    drain("mail", raise_errors=False)
    in_both(settings)
    page = open_page("light", WIDE, HEIGHT)
    authenticate(page, site)

    for path in PAGES:
        page.goto(f"{site}{START}/{path.rstrip('/') + ('' if '?' in path else '/')}")
        expect(page.locator("nav[aria-label=Shards]")).to_be_visible()
        assert violations(page) == []
        assert page.evaluate(LAYOUT) == [], path
        with another_look(page):
            assert violations(page, LOOK_RULES) == [], path
            assert page.evaluate(LAYOUT) == [], path


@pytest.mark.usefixtures("refreshing")
def test_open_overview_follows_the_outage_of_a_shard(site: str, shards: TwoShards, settings: Any, page: Page) -> None:
    in_both(settings)
    sign_in(page, site)
    rows = page.locator("#drc-shards + div tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("answers")

    shards.server_b.kill()

    expect(rows.nth(1)).to_contain_text("away")
    expect(page.get_by_text("1 of 2 shards read.")).to_be_visible()
    shards.server_b.start()
    expect(rows.nth(1)).to_contain_text("answers")
    expect(page.get_by_text("1 of 2 shards read.")).to_have_count(0)

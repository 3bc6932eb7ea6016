"""The pages of locks, rate limits, actions and flows in a real browser: accessible, without JavaScript, up to date."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from django_redis_components.core.leasing.holder import current_work, describe_task
from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.ratelimits import RateLimit
from django_redis_components.ratelimits.hit_counts import COUNTER
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue import Schedules, chain, group
from tests.browser.support import authenticate, sign_in, violations
from tests.browser.windows import Complaints
from tests.dashboard.action_pages import ACTIONS, write_entries
from tests.dashboard.addresses import LIMITS, SCHEDULES
from tests.dashboard.flow_pages import url_of as flow_url
from tests.dashboard.lock_pages import LOCKS, wait_in_line
from tests.dashboard.queue_pages import QUEUES
from tests.dashboard.support import URL, hit_recorded, work_off_in_a_thread
from tests.ratelimits.support import count_hits
from tests.support import Store
from tests.taskqueue.tasks import add, fail, note


def hold(store: Store) -> Lock:
    held = Lock("stock:42")
    for each in (held, MultiLock("a", "b", group="accounts"), ReadWriteLock("page:7").read()):
        each.acquire()
    Lock("a rather long name of a lock, made from the names of an order and its customer").acquire()
    before = current_work.set(partial(describe_task, "shop.tasks.send_order_confirmation_to_customer", "a-task"))
    Semaphore("reports", 3, timeout=60, blocking=False).acquire()
    current_work.reset(before)
    wait_in_line(store, "stock:42")
    return held


@pytest.mark.parametrize(
    ("scheme", "width", "options"),
    [
        ("light", 1280, {}),
        ("dark", 360, {"locale": "ar"}),
    ],
    ids=["light", "dark, narrow, right to left"],
)
def test_the_pages_are_accessible_and_do_not_scroll_sideways(
    scheme: str,
    width: int,
    options: dict[str, Any],
    site: str,
    redis_server: Store,
    open_page: Callable[..., Page],
    settings: Any,
) -> None:
    hold(redis_server)
    count_hits(settings)
    limit = RateLimit("login", "1/m", "50/d", penalty=(20, 600))
    hit_recorded(limit, "ip:203.0.113.7")
    limit.hit("ip:203.0.113.7")
    COUNTER.flush()
    page = open_page(scheme, width, **options)
    authenticate(page, site)

    write_entries(2, message=f"Purge queue 'mail', {'which has a long name ' * 9}: requested.")
    write_entries(49, message="Purge queue 'mail': 2 tasks purged, trash 0123456789abcdef.")
    of_key = f"{LIMITS}?limit={limit.policy.id}&key=ip:203.0.113.7"
    Schedules().add("a rather long name of a schedule of a customer", note, every=3_600, args=[1])
    flow = chain(group(*[add.s(1, each) for each in range(7)]), fail.using(max_attempts=1).s(), note.s()).enqueue()
    work_off_in_a_thread()
    for address in (
        LOCKS,
        f"{LOCKS}?name=stock:42",
        LIMITS,
        of_key,
        ACTIONS,
        f"{ACTIONS}?object=mail&before=40",
        flow_url(flow.id),
        SCHEDULES,
    ):
        page.goto(site + address)
        assert violations(page) == [], address
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address


#: Texts of the cells that are cut, or are indented at the edge of their card.
BAD_CELLS = """
[...document.querySelectorAll(".drc-task-table tbody tr > *")].filter((cell) => {
  const style = getComputedStyle(cell);
  return style.paddingLeft !== "0px" || style.paddingRight !== "0px" || cell.scrollWidth > cell.clientWidth;
}).map((cell) => cell.textContent.trim())
"""


def test_rows_are_cards_on_narrow_pages_and_nothing_in_them_is_cut(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    hold(redis_server)
    Schedules().add("shop.tasks.send_order_confirmation_to_customer_after_payment", note, every=3_600, args=[1])
    note.enqueue("a text")
    page = open_page(width=390)
    authenticate(page, site)

    for address in (LOCKS, SCHEDULES, f"{QUEUES}_verb/purge/default/", URL):
        page.goto(site + address)
        assert page.locator(".drc-task-table tbody tr").count(), address
        assert page.evaluate(BAD_CELLS) == [], address


def test_a_lock_is_released_without_javascript_and_with_the_keyboard(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    held = hold(redis_server)
    page = open_page(java_script_enabled=False)
    sign_in(page, site, LOCKS)
    page.locator("input[name=name]").fill("stock:42")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Release…").press("Enter")
    expect(page.locator("h1")).to_have_text("Release stock:42")

    page.get_by_role("button", name="Release").press("Enter")

    expect(page.locator(".messagelist")).to_have_text(re.compile("Released: stock:42"))
    assert not held.owned()
    assert Lock("stock:42").inspect().holder == "waiter"


@pytest.mark.usefixtures("refreshing")
def test_held_names_are_updated_in_place_and_typed_text_stays(site: str, redis_server: Store, page: Page) -> None:
    sign_in(page, site, LOCKS)
    expect(page.locator("[data-drc-live=held]")).to_contain_text("No locks or semaphores are held.")
    page.locator("input[name=name]").fill("half a na")

    Lock("stock:42").acquire()

    expect(page.locator("[data-drc-live=held] th[scope=row]")).to_have_text("stock:42")
    assert page.locator("input[name=name]").input_value() == "half a na"
    assert page.evaluate("document.activeElement.name") == "name"


def test_a_key_is_reset(site: str, redis_server: Store, page: Page, complaints: Complaints) -> None:
    limit = RateLimit("login", "1/m")
    hit_recorded(limit, "ada")
    sign_in(page, site, LIMITS)
    page.locator("select[name=limit]").select_option(limit.policy.id)
    page.locator("input[name=key]").fill("ada")
    page.keyboard.press("Enter")
    expect(page.locator("[data-drc-live=state]")).to_contain_text("The next hit is denied")

    page.get_by_role("link", name="Reset…").click()
    page.get_by_role("button", name="Reset").click()

    expect(page.locator("[data-drc-live=state]")).to_contain_text("The next hit is allowed.")
    assert limit.hit("ada")

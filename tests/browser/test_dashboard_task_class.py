"""The page of a task class, deploys in charts and a hanging task in a real browser: accessible in each variant."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from playwright.sync_api import Page, expect

from django_redis_components.taskqueue import Schedules
from django_redis_components.taskqueue.store.job import Ack
from tests.browser.support import authenticate, sign_in, violations
from tests.dashboard.support import URL, fail_with, now_ms, write_hour, write_worker
from tests.dashboard.task_pages import url_of
from tests.support import Store
from tests.taskqueue.support import base_key, new_fetcher, settle_now
from tests.taskqueue.tasks import note

CLASS = f"/admin/django_redis_components/taskclass/{note.name}/"


def fill(store: Store) -> str:
    """Run tasks of one class in two queues, deploy twice, and start one that hangs; return its id."""
    now = now_ms(store)
    store.raw.zadd(base_key(store, "deploys"), {"2026.11.3": now - 7_500_000, "2026.11.4": now - 1_500_000})
    for queue, count, ran_us in (("mail", 60, 40_000), ("slow", 25, 2_500_000)):
        tasks = note.using(queue_name=queue)
        tasks.enqueue_many([((number,), {}) for number in range(count)])
        fetcher = new_fetcher(queue, worker=f"here:{queue}")
        acks = [
            Ack(job.id, job.token, "succeeded", b"null", ttl_ms=60_000, ran_us=ran_us * (1 + number % 7))
            for number, job in enumerate(fetcher.fetch("0", 100))
        ]
        settle_now(fetcher, *acks)
    fail_with("no mail server", "no stock", queue="mail")
    Schedules().add("hourly notes", note, every=3_600, args=["x"])
    hanging = note.using(queue_name="mail").enqueue("hangs")
    new_fetcher("mail", worker="app-1:f00.a").fetch("0", 1)
    store.raw.hset(base_key(store, "t", hanging.id), "l", (now - 600_000) * 1_000)
    write_worker(store, "app-1:f00.a", seen_s=-600, queues=["mail"])
    return hanging.id


def test_pages_are_accessible_and_fit(site: str, redis_server: Store, open_page: Callable[..., Page]) -> None:
    hanging = fill(redis_server)
    rnd = random.Random(7)
    for hours_ago in range(60, 0, -1):
        write_hour(redis_server, note.name, hours_ago, succeeded=rnd.randrange(5, 90), failed=rnd.randrange(0, 5))
    pages = {
        "class": CLASS,
        "class-days": f"{CLASS}?range=3d",
        "task": url_of(hanging),
        "overview": URL,
    }
    for scheme, width, options in (
        ("light", 1280, {}),
        ("dark", 390, {"locale": "ar"}),
    ):
        page = open_page(scheme, width, **options)
        authenticate(page, site)
        for name, address in pages.items():
            page.goto(site + address)
            assert violations(page) == [], (scheme, name)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (scheme, name)
            if folder := os.environ.get("PICTURES"):
                page.screenshot(path=f"{folder}/{name}-{scheme}-{width}-{len(options)}.png", full_page=True)
        page.context.clear_cookies()


def test_class_is_reached_from_a_task_and_leads_to_the_failed_ones(
    site: str, redis_server: Store, open_page: Callable[..., Page]
) -> None:
    hanging = fill(redis_server)
    page = open_page()
    sign_in(page, site, url_of(hanging))
    expect(page.locator(".drc-answer-caution")).to_contain_text("Running on app-1:f00.a")
    expect(page.get_by_role("button", name="Show the stack")).to_be_visible()

    page.locator("#drc-why").get_by_role("link", name=note.name).press("Enter")

    expect(page.locator("h1")).to_have_text(f"Task class {note.name}")
    expect(page.locator("line.drc-deploy").first).to_be_attached()
    page.get_by_role("link", name="Failed tasks in mail").press("Enter")
    expect(page.locator("#drc-tasks")).to_contain_text("Failed")
    page.get_by_role("link", name=f"All runs of {note.name}").first.press("Enter")
    expect(page.locator("h1")).to_have_text(f"Task class {note.name}")

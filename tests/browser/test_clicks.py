"""How many clicks from the overview answer a question of a supporter, an operator or a product owner.

A click is one on a link, a button or a check box, or Enter in a field. Typing is none. A test fails when its path is
longer, or when a step has another name.
"""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from django_redis_components.analytics import UniqueVisitors
from django_redis_components.analytics.dates import site_date
from django_redis_components.taskqueue import get_queue
from tests.browser.support import sign_in
from tests.dashboard.support import fail_with
from tests.support import Store
from tests.taskqueue.support import queue_key, server_ms, work_off
from tests.taskqueue.tasks import note


class Overview:
    """The open overview, whose clicks are counted."""

    def __init__(self, page: Page, site: str) -> None:
        sign_in(page, site)
        self.page = page
        self.clicks = 0

    def click(self, name: str | re.Pattern[str], *, role: Any = "link", inside: Locator | None = None) -> None:
        """Click the first link or button of this name on the page, or in a part of it."""
        (inside or self.page.locator("#content")).get_by_role(role, name=name).first.click()
        self.page.wait_for_load_state()
        self.clicks += 1

    def search(self, text: str) -> None:
        field = self.page.get_by_role("combobox", name="Search tasks")
        field.fill(text)
        field.press("Enter")
        self.page.wait_for_load_state()
        self.clicks += 1

    def expect_text(self, text: str | re.Pattern[str]) -> None:
        expect(self.page.locator("#content")).to_contain_text(text)


def test_a_succeeded_mail_is_found_by_two(page: Page, site: str) -> None:
    for person in ("kim", "eve"):
        note.enqueue({"to": person})
    work_off()
    overview = Overview(page, site)

    overview.search("to=kim state:succeeded")
    overview.click(note.name)

    overview.expect_text("Succeeded")
    overview.expect_text("kim")
    assert overview.clicks == 2


def test_why_a_task_does_not_run_and_where_is_answered_by_one(page: Page, site: str) -> None:
    task = note.enqueue({"to": "kim"})
    overview = Overview(page, site)

    overview.search(task.id)

    overview.expect_text("no live worker")
    assert overview.clicks == 1


def test_one_error_of_one_hour_is_retried_by_four(page: Page, site: str, redis_server: Store) -> None:
    fail_with(*["mail server is away"] * 30)
    failed = queue_key(redis_server, "failed")
    earlier = server_ms(redis_server) - 2 * 3_600_000
    redis_server.raw.zadd(failed, dict.fromkeys(redis_server.raw.zrange(failed, 0, 4), earlier))
    fail_with(*["unknown address"] * 3)
    overview = Overview(page, site)

    overview.click("Failure rate")
    overview.click(re.compile("mail server is away"))
    overview.click(re.compile(r"^Retry \d+…"))
    overview.click(re.compile("^Retry"), role="button")

    expect(page.locator(".messagelist")).to_contain_text("25")
    assert get_queue("default").info().failed == 3 + 5, "the others are not of this error, or not of this hour"
    assert overview.clicks == 4


def test_all_errors_of_a_failing_queue_are_retried_by_two(page: Page, site: str) -> None:
    fail_with(*["mail server is away"] * 25)
    fail_with(*["unknown address"] * 3)
    overview = Overview(page, site)

    overview.click(re.compile("^Retry all"))
    overview.click(re.compile("^Retry"), role="button")

    expect(page.locator(".messagelist")).to_contain_text("28")
    assert get_queue("default").info().failed == 0
    assert overview.clicks == 2


def test_fifty_tasks_are_rescheduled_by_four(page: Page, site: str) -> None:
    fail_with("mail server is away")
    note.using(run_after=3_600).enqueue_many([((number,), {}) for number in range(50)])
    overview = Overview(page, site)

    overview.click("default", inside=page.locator("section[aria-labelledby=drc-queues]"))
    overview.click(re.compile("^Scheduled"))
    overview.click("Reschedule all…", role="button")
    overview.click("Reschedule 50 tasks", role="button")

    expect(page.locator(".messagelist")).to_contain_text("50")
    assert overview.clicks == 4


def test_a_forgotten_pause_ends_by_two(page: Page, site: str) -> None:
    note.enqueue("a")
    get_queue("default").pause()
    overview = Overview(page, site)

    overview.click(re.compile("^Resume"))
    overview.click(re.compile("^Resume"), role="button")

    assert get_queue("default").info().paused is None
    assert overview.clicks == 2


def test_this_month_is_compared_with_the_last_by_one(page: Page, site: str) -> None:
    UniqueVisitors("default").add(1, 2, 3, at=site_date())
    overview = Overview(page, site)

    overview.click("This month against last")

    overview.expect_text(re.compile(r"compared with \w+ \d+ – \w+ \d+"))
    assert overview.clicks == 1

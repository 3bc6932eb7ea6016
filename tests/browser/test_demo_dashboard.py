"""The dashboard of the running demo, after some simulated days: what it shows is what Redis has."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta

import pytest
import redis
from playwright.sync_api import Page, expect

from tests.browser.market import authenticate, fits
from tests.browser.support import LOOK_RULES, another_look
from tests.support import eventually
from tests.support.demo import PASSWORD, Demo, demo_environment
from tests.support.processes import ROOT

TAG = "market:taskqueue:{default}"

#: Days on the charts.
DAYS = 30


@pytest.fixture(scope="module")
def simulated(demo: Demo) -> Demo:
    """The demo after three days with 60 members, its due tasks run."""
    command = [sys.executable, "manage.py", "simulate", "--days", "3", "--users", "60", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env=os.environ | demo_environment(demo.directory), check=True)
    with demo.raw() as raw:
        eventually(lambda: is_quiet(raw))
    return demo


@pytest.fixture
def raw(simulated: Demo):
    with simulated.raw() as client:
        yield client


def is_quiet(raw: redis.Redis) -> None:
    for queue in ("high", "default", "low"):
        assert depths(raw, queue)["Ready"] == depths(raw, queue)["Running"] == 0


def depths(raw: redis.Redis, queue: str) -> dict[str, int]:
    """Return the depths of a queue, read from Redis."""
    at = f"{TAG}:q:{queue}"
    now_ms = datetime.now(UTC).timestamp() * 1000
    due = raw.zcount(f"{at}:scheduled", "-inf", now_ms)
    return {
        "Ready": raw.llen(f"{at}:requeued") + raw.llen(f"{at}:ready") + raw.zcard(f"{at}:priority") + due,
        "Scheduled": raw.zcard(f"{at}:scheduled") - due,
        "Running": raw.zcard(f"{at}:running"),
        "Failed": raw.zcard(f"{at}:failed"),
    }


def days() -> list[date]:
    today = datetime.now(UTC).date()
    return [today - timedelta(days=ago) for ago in reversed(range(DAYS))]


def open_dashboard(page: Page, demo: Demo) -> None:
    authenticate(page, demo, "admin")
    page.goto(demo.dashboard)
    expect(page.get_by_role("heading", name="Redis operations")).to_be_visible()


def whole(text: str) -> int:
    """Return a number on the page: grouped, perhaps with a sign that it is an estimate."""
    return int(re.sub(r"[^\d]", "", text))


def queue_rows(page: Page) -> dict[str, dict[str, int]]:
    """Queue to column to number, as the table shows them."""
    table = page.locator("section[aria-labelledby=drc-queues] table")
    columns = table.locator("thead th").all_inner_texts()
    shown = {}
    for row in table.locator("tbody tr").all():
        cells = dict(zip(columns, row.locator("th, td").all_inner_texts(), strict=True))
        cells = {column.capitalize(): text for column, text in cells.items()}
        shown[cells["Queue ▴"]] = {name: whole(cells[name]) for name in ("Ready", "Scheduled", "Running", "Failed")}
    return shown


def day_rows(page: Page, panel: str) -> dict[str, int]:
    """Day to number, from the table below a chart."""
    section = page.locator(f"section[aria-labelledby={panel}]")
    section.get_by_text("Show data").click()
    rows = section.locator("tbody tr")
    expect(rows).not_to_have_count(0)
    return {
        row.locator("time").get_attribute("datetime") or "": whole(row.locator("td").inner_text()) for row in rows.all()
    }


def since_first(counts: dict[str, int]) -> dict[str, int]:
    """Return the counts from the first day on that has any, with which the chart begins."""
    return dict(itertools.dropwhile(lambda item: not item[1], counts.items()))


def test_analytics_shows_what_redis_has(page, simulated, raw):
    open_dashboard(page, simulated)
    page.get_by_role("link", name="Analytics", exact=True).first.click()

    visitors = day_rows(page, "drc-panel-visitors")
    counted = {f"{day}": raw.pfcount(f"market:analytics:{{default}}:uv:{day:%Y%m%d}") for day in days()}
    assert visitors == since_first(counted)
    assert max(visitors.values()) > 20, "today has few shortly after midnight"

    sign_ins = day_rows(page, "drc-panel-sign-ins")
    counted = {f"{day}": raw.bitcount(f"market:analytics:{{default}}:si:d:{day:%Y%m%d}") for day in days()}
    assert sign_ins == since_first(counted)
    assert max(sign_ins.values()) > 5


def test_the_page_shows_what_redis_has(page, simulated, raw):
    raw.rpush(f"{TAG}:q:unserved:ready", "one", "two")
    raw.zadd(f"{TAG}:queues", {"unserved": 1})

    page.goto(simulated.dashboard)
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Redis operations")).to_be_visible()

    shown = queue_rows(page)
    assert {name: shown[name] for name in ("high", "default", "low", "unserved")} == {
        name: depths(raw, name) for name in ("high", "default", "low", "unserved")
    }
    assert shown["default"]["Scheduled"] > 20
    assert shown["unserved"]["Ready"] == 2
    raw.delete(f"{TAG}:q:unserved:ready")
    raw.zrem(f"{TAG}:queues", "unserved")

    workers = page.locator("section[aria-labelledby=drc-workers]")
    expect(workers).to_contain_text("active")
    expect(workers.locator("tbody tr").filter(has_text="alive").first).to_contain_text("high, default, low")


def test_the_dashboard_is_accessible_in_both_schemes_and_narrow(page, simulated, check_axe):
    open_dashboard(page, simulated)

    check_axe(page)
    assert fits(page)
    with another_look(page, width=360):
        check_axe(page, rules=LOOK_RULES)
        assert fits(page)


def test_the_page_live_shows_a_task_that_runs_now(page, simulated):
    code = "from example_project.market.tasks import end_overdue_sales as task; task.enqueue()"
    env = os.environ | demo_environment(simulated.directory)
    open_dashboard(page, simulated)
    page.locator(".drc-tabs").get_by_role("link", name="Live").click()

    subprocess.run([sys.executable, "manage.py", "shell", "-v", "0", "-c", code], cwd=ROOT, env=env, check=True)

    rows = page.locator("[data-drc-key]").filter(has_text="end_overdue_sales")
    expect(rows.filter(has_text="Succeeded").first).to_be_visible()

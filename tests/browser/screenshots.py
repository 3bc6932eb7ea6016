"""Takes the pictures of the documentation from a running demo: ``python -m tests.browser.screenshots``.

Writes to docs/images a picture of each page of the dashboard in light and dark, of the market, and of its rush: a fresh
demo, a month simulated with the default seed, its tasks run by the worker, and then the failures, the flow and the
locks of `SCENE`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import redis
from django.contrib.admin.utils import quote
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS
from tests.support.demo import PASSWORD, Demo, demo_environment, running_demo
from tests.support.processes import ROOT
from tests.support.waiting import eventually

#: Where the documentation has its pictures.
FOLDER = ROOT / "docs" / "images"

#: Size of the browser's window in pixels. Larger ones make files that are slow to load.
WIDTH, HEIGHT = 1280, 900

#: The names of the buttons of the rush that kill a worker.
KILL = re.compile("^Kill process")

#: Bytes that a picture may have.
SIZE_LIMIT = 200_000

#: What the pages show beside the simulated month. Run in the demo's site; prints the ids that the pages need.
SCENE = """
import json
from django_redis_components.locks import Lock
from django_redis_components.taskqueue import Schedules, chain, get_queue, group
from example_project.market import searching
from example_project.market.limiting import BY_NAME
from example_project.market.tasks import deliver_letter, end_overdue_sales, end_sale, notify_seller

failing = notify_seller.using(max_attempts=1)
failing.enqueue_many([((f"A-{number}",), {}) for number in range(1001, 1013)])
end_sale.using(max_attempts=1).enqueue("B-17")
sales = group(*[end_sale.s(number) for number in range(1, 6)])
flow = chain(sales, failing.si("A-1013"), end_overdue_sales.si()).enqueue()
Schedules().add("weekly letter to customers", end_overdue_sales, every=7 * 86_400)
for number in (7, 12, 31):
    Lock(f"market:item:{number}", timeout=900).acquire()
for key in ["ada"] * 14 + ["grace"] * 6 + ["linus"] * 3:
    BY_NAME.hit(key)
for words in ["crystal ball"] * 3 + ["dragon egg", "unicorn"]:
    searching.items().search(words)
get_queue("low").pause("The mail provider is down.", author="ada")
letter = deliver_letter.using(queue_name="low", concurrency=2, unique=True).enqueue(7, 12, "Is it still for sale?")
print(json.dumps({"task": letter.id, "flow": flow.id, "limit": BY_NAME.policy.id}))
"""


def main() -> None:
    """Take all pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, running_demo(Path(directory)) as demo:
        env = os.environ | demo_environment(demo.directory)
        subprocess.run([sys.executable, "manage.py", "simulate"], cwd=ROOT, env=env, check=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            eventually(lambda: _nothing_ready(demo.raw(), "high", "default", "low"))
            for scheme in ("light", "dark"):
                page = _page(browser, scheme)
                _sign_in(page, demo)
                page.goto(demo.dashboard)
                _save(page, f"dashboard-{scheme}.png", full_page=True)
            _save_pages(browser, demo, _scene(env))
            page = _page(browser, "light")
            page.goto(f"{demo.base}/")
            _save(page, "market.png")
            page.goto(f"{demo.base}/rush/")
            page.get_by_role("button", name="Rush").click()
            page.get_by_role("button", name=KILL).first.click()
            page.get_by_text("runs again after its worker was killed").first.wait_for()
            page.locator("[data-part=figures]").evaluate("part => part.scrollIntoView()")
            _save(page, "rush.png")
            browser.close()


def _scene(env: dict[str, str]) -> dict[str, str]:
    """Let the demo have failures, a flow, locks and denied hits; return the paths of the pages that show them."""
    command = [sys.executable, "manage.py", "shell", "-v", "0", "-c", SCENE]
    ran = subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True)
    ids = json.loads(ran.stdout.splitlines()[-1])
    return {
        "live": "liveevent/",
        "queue": "queues/high/?state=failed",
        "task": f"task/{quote(ids['task'])}/",
        "failures": "failure/",
        "flow": f"taskflow/{quote(ids['flow'])}/",
        "schedules": "schedule/",
        "workers": "worker/",
        "locks": "lock/",
        "analytics": "analytics/",
        "limits": f"ratelimit/?limit={ids['limit']}",
        "autocomplete": "indexes/",
        "messaging": "messaging/",
        "actions": "action/",
    }


def _save_pages(browser: Browser, demo: Demo, paths: dict[str, str]) -> None:
    root = demo.dashboard.partition("overview/")[0]
    eventually(lambda: _nothing_ready(demo.raw(), "high", "default"))
    for scheme in ("light", "dark"):
        page = _page(browser, scheme)
        _sign_in(page, demo)
        page.goto(f"{root}schedule/run/?name=weekly letter to customers")  # an entry for the page of actions
        page.get_by_role("button", name="Run now").click()
        for name, path in paths.items():
            page.goto(root + path)
            _save(page, f"{name}-{scheme}.png")


def _page(browser: Browser, scheme: str) -> Page:
    context = browser.new_context(color_scheme=scheme, viewport={"width": WIDTH, "height": HEIGHT}, locale="en-US")
    return context.new_page()


def _sign_in(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.base}/login/")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{demo.base}/")


def _nothing_ready(raw: redis.Redis, *queues: str) -> None:
    """Every task of these queues that is due was run."""
    with raw:
        assert not any(raw.llen(f"market:taskqueue:{{default}}:q:{queue}:ready") for queue in queues)


def _save(page: Page, name: str, *, full_page: bool = False) -> None:
    path = FOLDER / name
    page.screenshot(path=path, full_page=full_page)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size} bytes")
    if size > SIZE_LIMIT:
        sys.exit(f"{name} has {size} bytes: at most {SIZE_LIMIT}.")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    main()

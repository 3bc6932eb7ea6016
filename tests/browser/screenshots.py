"""Takes pictures of the dashboard from a running demo.

``python -m tests.browser.screenshots`` writes those of the documentation to docs/images: pages of the dashboard in
light and dark, and the rush of the market. ``--all DIRECTORY`` writes every page of the dashboard there, whole: in
light, in dark, 390 pixels wide, and in Chinese; also forms, confirmations, and the page of an outage.

The demo is fresh: it has the sample data of its first start, and what `SCENE` adds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import redis
from django.contrib.admin.utils import quote
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.windows import CHROMIUM, FLAGS
from tests.support.demo import PASSWORD, Demo, demo_environment, running_demo
from tests.support.processes import ROOT
from tests.support.waiting import eventually

#: Where the documentation has its pictures.
FOLDER = ROOT / "docs" / "images"

#: Height of the picture of the overview in pixels: to the end of its table of queues.
OVERVIEW_HEIGHT = 1_430

#: The names of the buttons of the rush that kill a worker.
KILL = re.compile("^Kill process")

#: Bytes that a picture of the documentation may have.
SIZE_LIMIT = 250_000

#: What the pages show beside the sample data. Run in the demo's site; prints the ids that the pages need.
SCENE = """
import json
from django_redis_components.taskqueue import chain, get_queue, group
from example_project.market.limiting import BY_NAME
from example_project.market.tasks import deliver_letter, end_overdue_sales, end_sale, notify_seller

failed = end_sale.using(max_attempts=1, id="sale-B-17").enqueue("B-17")
sales = group(*[end_sale.s(number) for number in range(1, 6)])
flow = chain(sales, notify_seller.using(max_attempts=1).si("A-1013"), end_overdue_sales.si()).enqueue()
succeeded = end_sale.using(id="sale-1").enqueue(1)
succeeded.get(timeout=60)
get_queue("low").pause("The mail provider is down.", author="ada")
letter = deliver_letter.using(queue_name="low", concurrency=2, unique=True).enqueue(7, 12, "Is it still for sale?")
ids = {"task": letter, "succeeded": succeeded, "failed": failed, "flow": flow}
print(json.dumps({**{name: each.id for name, each in ids.items()}, "limit": BY_NAME.policy.id}))
"""

#: The pages of the documentation by the names of their pictures, with the ids of `_ids`.
DOCUMENTED = {
    "dashboard": "overview/",
    "incidents": "incident/",
    "live": "liveevent/",
    "queue": "queues/high/?state=failed",
    "task": "task/{task}/",
    "task-class": "taskclass/example_project.market.tasks.notify_seller/",
    "search": "tasksearch/?q=A-10",
    "failures": "failure/?group={error}",
    "flow": "taskflow/{flow}/",
    "schedules": "schedule/",
    "workers": "worker/",
    "locks": "lock/",
    "analytics": "analytics/",
    "limits": "ratelimit/?limit={limit}",
    "autocomplete": "indexes/",
    "messaging": "messaging/",
    "files": "files/",
    "memory": "memory/",
    "actions": "action/",
}

#: The other pages.
OTHERS = {
    "queue-paused": "queues/low/",
    "task-succeeded": "task/{succeeded}/",
    "task-failed": "task/{failed}/",
    "task-missing": "task/none/",
    "schedule-add": "schedule/edit/",
    "schedule-edit": "schedule/edit/?name=weekly letter to customers",
    "lock": "lock/?name=market:item:7",
    "limit-key": "ratelimit/?limit={limit}&key=ada",
    "confirm-pause": "queues/_verb/pause/high/",
    "confirm-purge": "queues/_verb/purge/low/",
    "confirm-retry": "failure/retry_error/?group={error}",
    "confirm-reschedule": "task/_verb/reschedule/{task}/",
    "confirm-reset": "ratelimit/reset/?limit={limit}&key=ada",
}


@dataclass(frozen=True)
class Look:
    """How a picture is taken. Larger windows make files that are slow to load."""

    name: str
    scheme: str = "light"
    width: int = 1280
    height: int = 900
    locale: str = "en-US"


LIGHT, DARK = Look("light"), Look("dark", scheme="dark")
LOOKS = (LIGHT, DARK, Look("narrow", width=390, height=844), Look("chinese", locale="zh-CN"))


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description="Take pictures of the dashboard.")
    parser.add_argument("--all", type=Path, metavar="DIRECTORY", help="write every page of the dashboard there instead")
    options = parser.parse_args()
    directory: Path | None = options.all
    with _scene() as (demo, env), _chromium() as browser:
        if directory is None:
            _document(browser, demo, env)
        else:
            directory.mkdir(parents=True, exist_ok=True)
            _save_all(browser, demo, env, directory)


def _document(browser: Browser, demo: Demo, env: dict[str, str]) -> None:
    """Take the pictures of the documentation."""
    save = _save_documented
    overview, *others = DOCUMENTED.items()
    _save_pages(browser, demo, (LIGHT, DARK), [overview], partial(save, height=OVERVIEW_HEIGHT))
    ids = _ids(browser, demo, env)
    _save_pages(browser, demo, (LIGHT, DARK), [(name, path.format(**ids)) for name, path in others], save)
    page = _page(browser, LIGHT)
    page.goto(f"{demo.base}/rush/")
    page.get_by_role("button", name="Rush").click()
    page.get_by_role("button", name=KILL).first.click()
    page.get_by_text("runs again after its worker was killed").first.wait_for()
    page.locator("[data-part=figures]").evaluate("part => part.scrollIntoView()")
    save(page, "rush")


def _save_all(browser: Browser, demo: Demo, env: dict[str, str], directory: Path) -> None:
    """Take the pictures of all pages."""

    def save(page: Page, name: str) -> None:
        page.screenshot(path=directory / f"{name}.png", full_page=True)

    ids = _ids(browser, demo, env)
    pages = [(name, path.format(**ids)) for name, path in (DOCUMENTED | OTHERS).items()]
    _save_pages(browser, demo, LOOKS, pages, save)
    with demo.raw() as raw:
        server = raw.info("server")["process_id"]
    signed_in = [(look, _signed_in(browser, demo, look)) for look in LOOKS]
    os.kill(server, signal.SIGSTOP)
    try:
        for look, page in signed_in:
            page.goto(demo.dashboard)
            save(page, f"outage-{look.name}")
    finally:
        os.kill(server, signal.SIGCONT)


@contextlib.contextmanager
def _scene() -> Iterator[tuple[Demo, dict[str, str]]]:
    """The demo with its sample data, and the environment of its commands."""
    with (
        tempfile.TemporaryDirectory(prefix="market-") as directory,
        running_demo(Path(directory), has_sample_data=True) as demo,
    ):
        eventually(lambda: _nothing_ready(demo.raw(), "high", "default", "low"))
        eventually(lambda: _memory_is_measured(demo.raw()), 90)
        yield demo, os.environ | demo_environment(demo.directory)


@contextlib.contextmanager
def _chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def _ids(browser: Browser, demo: Demo, env: dict[str, str]) -> dict[str, str]:
    """Run `SCENE`, and run a schedule by hand, for the page of actions. Return the ids of what the pages show."""
    command = [sys.executable, "manage.py", "shell", "-v", "0", "-c", SCENE]
    ran = subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True)
    ids = {name: quote(found) for name, found in json.loads(ran.stdout.splitlines()[-1]).items()}
    eventually(lambda: _nothing_ready(demo.raw(), "high", "default"))
    page = _signed_in(browser, demo, LIGHT)
    page.goto(f"{_root(demo)}schedule/run/?name=weekly letter to customers")
    page.get_by_role("button", name="Run now").click()
    page.goto(f"{_root(demo)}failure/")
    error = page.locator("a[href*='group=']").first.get_attribute("href") or ""
    page.context.close()
    return {**ids, "error": error.partition("group=")[2].partition("&")[0]}


def _save_pages(
    browser: Browser,
    demo: Demo,
    looks: Iterable[Look],
    paths: Sequence[tuple[str, str]],
    save: Callable[[Page, str], None],
) -> None:
    for look in looks:
        page = _signed_in(browser, demo, look)
        for name, path in paths:
            page.goto(_root(demo) + path)
            save(page, f"{name}-{look.name}")
        page.context.close()


def _root(demo: Demo) -> str:
    return demo.dashboard.partition("overview/")[0]


def _page(browser: Browser, look: Look) -> Page:
    viewport = {"width": look.width, "height": look.height}
    return browser.new_context(color_scheme=look.scheme, viewport=viewport, locale=look.locale).new_page()


def _signed_in(browser: Browser, demo: Demo, look: Look) -> Page:
    """Return a page of a new context, in which the superuser has signed in."""
    page = _page(browser, look)
    page.goto(f"{demo.base}/login/")
    page.locator("[name=username]").fill("admin")
    page.locator("[name=password]").fill(PASSWORD)
    page.locator("[name=password]").press("Enter")
    page.wait_for_url(f"{demo.base}/")
    return page


def _nothing_ready(raw: redis.Redis, *queues: str) -> None:
    """Every task of these queues that is due was run."""
    with raw:
        assert not any(raw.llen(f"market:taskqueue:{{default}}:q:{queue}:ready") for queue in queues)


def _memory_is_measured(raw: redis.Redis) -> None:
    """A worker process has looked at all keys, for the page of memory."""
    with raw:
        stored = [json.loads(raw.get(key)) for key in raw.keys("market:problems:*:facts")]
        assert [found["memory"][1]["whole"] for found in stored if "memory" in found]


def _save_documented(page: Page, name: str, *, height: int = LIGHT.height) -> None:
    path = FOLDER / f"{name}.png"
    page.set_viewport_size({"width": LIGHT.width, "height": height})
    page.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size} bytes")
    if size > SIZE_LIMIT:
        sys.exit(f"{path.name} has {size} bytes: at most {SIZE_LIMIT}.")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    import django

    django.setup()
    main()

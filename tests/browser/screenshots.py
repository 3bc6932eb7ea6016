"""Takes the pictures of the documentation from a running demo: ``python -m tests.browser.screenshots``.

Writes docs/images/dashboard-light.png, dashboard-dark.png and market.png: a fresh demo, a month simulated with the
default seed, its tasks run by the worker.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import redis
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS
from tests.support.demo import PASSWORD, Demo, demo_environment, running_demo
from tests.support.processes import ROOT
from tests.support.waiting import eventually

#: Where the documentation has its pictures.
FOLDER = ROOT / "docs" / "images"

#: Size of the browser's window in pixels. Larger ones make files that are slow to load.
WIDTH, HEIGHT = 1280, 900

#: Bytes that a picture may have.
SIZE_LIMIT = 200_000


def main() -> None:
    """Take all pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, running_demo(Path(directory)) as demo:
        env = os.environ | demo_environment(demo.directory)
        subprocess.run([sys.executable, "manage.py", "simulate"], cwd=ROOT, env=env, check=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            for scheme in ("light", "dark"):
                page = _page(browser, scheme)
                _sign_in(page, demo)
                eventually(lambda: _nothing_ready(demo.raw()))
                page.goto(demo.dashboard)
                _save(page, f"dashboard-{scheme}.png", full_page=True)
            page.emulate_media(color_scheme="light")
            page.goto(f"{demo.base}/")
            _save(page, "market.png")
            browser.close()


def _page(browser: Browser, scheme: str) -> Page:
    context = browser.new_context(color_scheme=scheme, viewport={"width": WIDTH, "height": HEIGHT}, locale="en-US")
    return context.new_page()


def _sign_in(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.base}/login/")
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{demo.base}/")


def _nothing_ready(raw: redis.Redis) -> None:
    """Every simulated task that is due was run."""
    with raw:
        assert [key for key in raw.scan_iter("market:taskqueue:*:ready", count=1000) if raw.llen(key)] == []


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

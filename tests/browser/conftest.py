"""A real Chromium, pages that fail the test on any console error, and the running demo.

===============  ==========================================================================================
``chromium``     the browser, one for the run
``open_page``    ``open_page(scheme="dark", width=400)``: an empty page, without cookies, in a used window; with
                 ``is_shared=False`` in a new one, for what nothing removes from a window, such as a clock
``page``         ``open_page()``
``site``         the address of the tests' site
``refreshing``   pages of the dashboard are refreshed all the time
``demo``         the example as ``manage.py demo`` runs it
``check_axe``    ``check_axe(page)``: axe-core finds nothing serious or critical
===============  ==========================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from django_redis_components.dashboard.page import Page as DashboardPage
from tests.browser.support import REFRESH_S, ready_site, run_axe
from tests.browser.windows import CHROMIUM, FLAGS, Complaints, Windows
from tests.support import Store
from tests.support.axe import install_axe
from tests.support.demo import Demo, running_demo
from tests.support.missing import skip_missing
from tests.support.waiting import TIMEOUT_S

#: Modules of tests that use the demo. One process runs all of them, and starts it once.
WITH_DEMO = ("test_chats.py", "test_demo_dashboard.py", "test_market.py")

#: Impacts that fail a test.
GRAVE = ("serious", "critical")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadfile``, give all modules with the demo to one process."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class DemoInOneProcess(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "demo" if file.endswith(WITH_DEMO) else file

    return DemoInOneProcess(config, log)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if not CHROMIUM.is_file():
        skip_missing(f"{CHROMIUM} is not installed: apt-get install chromium")
    # Playwright keeps an event loop in this thread, which Django would refuse to work beside.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    expect.set_options(timeout=TIMEOUT_S * 1_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="session")
def windows(chromium: Browser) -> Windows:
    install_axe()
    return Windows(chromium)


@pytest.fixture
def complaints() -> Complaints:
    return Complaints()


@pytest.fixture
def open_page(
    windows: Windows, complaints: Complaints, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Page]]:
    """Opens pages; at the end of the test none of them may have complained."""
    if "site" in request.fixturenames:
        request.getfixturevalue("site")  # it ends after the pages, whose refresh would fail without it
    failed = request.session.testsfailed
    used = []

    def opened(
        scheme: str = "light",
        width: int = 1200,
        height: int = 900,
        *,
        forced_colors: str = "none",
        is_shared: bool = True,
        **options: object,
    ) -> Page:
        window = windows.take({"locale": "en-US", **options}, is_shared=is_shared)
        window.complaints = complaints
        used.append(window)
        window.look(scheme, forced_colors, width, height)
        return window.page

    yield opened
    for window in used:
        window.collect()
        windows.give_back(window, is_usable=request.session.testsfailed == failed)
    assert complaints.unexpected() == []


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()


@pytest.fixture
def site(live_server: Any, redis_server: Store) -> str:
    """The address of the tests' site, with a superuser."""
    return ready_site(live_server)


@pytest.fixture
def refreshing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of the dashboard are refreshed every tenth of a second."""
    monkeypatch.setattr(DashboardPage, "refresh_s", REFRESH_S)


@pytest.fixture
def check_axe() -> Callable[..., None]:
    def check(page: Page, within: str = "html", rules: Sequence[str] = ()) -> None:
        found = run_axe(page, within, rules)
        grave = [f"{one['id']}: {one['help']} {one['targets']}" for one in found if one["impact"] in GRAVE]
        assert grave == [], page.url

    return check


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("demo")) as running:
        yield running

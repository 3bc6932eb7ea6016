"""A real Chromium, pages that fail the test on any console error, and the running demo.

===============  ==========================================================================================
``chromium``     the browser, one for the run
``open_page``    ``open_page(scheme="dark", width=400)``: a page of a new, empty browser context
``page``         ``open_page()``
``demo``         the example as ``manage.py demo`` runs it
``check_axe``    ``check_axe(page)``: axe-core finds nothing serious or critical
===============  ==========================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.support.axe import AXE_SCRIPT, install_axe
from tests.support.demo import Demo, running_demo
from tests.support.missing import skip_missing
from tests.support.waiting import TIMEOUT_S

#: Debian's browser. Playwright's own would have to be downloaded.
CHROMIUM = Path("/usr/bin/chromium")

#: The same without a user interface, if it is installed: it shows the same pages for three quarters of the processor.
HEADLESS_SHELL = Path("/usr/bin/chromium-headless-shell")

#: Chromium's own user interface: each context would draw two pages of its address bar, which no test reads, for half of
#: the processor time of a test, and keep a process for a next page.
UNSEEN = ["WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "SpareRendererForSitePerProcess"]

#: What Playwright disables itself: Chromium obeys the last list only.
DISABLED_BY_PLAYWRIGHT = [
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    f"--disable-features={','.join(DISABLED_BY_PLAYWRIGHT + UNSEEN)}",
]

#: Impacts that fail a test.
GRAVE = ("serious", "critical")

#: Console message of a browser about a response with this status.
STATUS = "the server responded with a status of {}"

#: Policy violations, reported by the browser itself.
COLLECT_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile || ""}`));
"""


class Complaints:
    """What a page's console and policy complained about, except for what the test expects."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._expected: list[str] = []

    def expect_status(self, status: int) -> None:
        self._expected.append(STATUS.format(status))

    def expect_offline(self) -> None:
        self._expected.append("net::ERR_INTERNET_DISCONNECTED")

    def on_console(self, message: ConsoleMessage) -> None:
        if (message.location.get("url") or "").endswith("/favicon.ico"):
            return  # which the browser asks for by itself, once
        if message.type in ("error", "warning"):
            self.found.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def on_error(self, error: object) -> None:
        self.found.append(f"uncaught: {error}")

    def unexpected(self) -> list[str]:
        return [text for text in self.found if not any(expected in text for expected in self._expected)]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    executable = HEADLESS_SHELL if HEADLESS_SHELL.is_file() else CHROMIUM
    if not executable.is_file():
        skip_missing(f"{executable} is not installed: apt-get install chromium")
    # Playwright keeps an event loop in this thread, which Django would refuse to work beside.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    expect.set_options(timeout=TIMEOUT_S * 1_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def complaints() -> Complaints:
    return Complaints()


@pytest.fixture
def open_page(
    chromium: Browser, complaints: Complaints, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Page]]:
    """Opens pages; at the end of the test none of them may have complained."""
    if "site" in request.fixturenames:
        request.getfixturevalue("site")  # it ends after the pages, whose refresh would fail without it
    contexts = []

    def opened(scheme: str = "light", width: int = 1200, height: int = 900, **options: object) -> Page:
        context = chromium.new_context(
            color_scheme=scheme, viewport={"width": width, "height": height}, **{"locale": "en-US", **options}
        )
        context.set_default_timeout(TIMEOUT_S * 1_000)
        context.add_init_script(COLLECT_VIOLATIONS)
        contexts.append(context)
        page = context.new_page()
        page.on("console", complaints.on_console)
        page.on("pageerror", complaints.on_error)
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            complaints.found += [f"policy: {text}" for text in page.evaluate("window.violations || []")]
        context.close()
    assert complaints.unexpected() == []


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()


@pytest.fixture
def check_axe() -> Callable[..., None]:
    problem = install_axe()
    if problem:
        skip_missing(f"accessibility cannot be checked: {problem}")
    script = AXE_SCRIPT.read_text() + ";0"

    def check(page: Page, within: str = "html") -> None:
        page.evaluate(script)
        options = {"preload": within == "html"}  # of a part of a page of Django it would apply inline styles
        found = page.evaluate("(args) => axe.run(...args).then((results) => results.violations)", [within, options])
        grave = [
            f"{one['id']}: {one['help']} {[node['target'] for node in one['nodes']]}"
            for one in found
            if one["impact"] in GRAVE
        ]
        assert grave == [], page.url

    return check


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("demo")) as running:
        yield running

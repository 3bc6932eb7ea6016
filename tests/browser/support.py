"""Helpers of the tests in a browser: sign in, and check the accessibility of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page

from tests.dashboard.catalogue import CATALOGUE, entries
from tests.dashboard.support import URL
from tests.support import skip_missing
from tests.support.axe import install_axe

#: Markup of Django's admin, of which axe reports that links look like the text around them.
NOT_OURS = [[".breadcrumbs"], ["#header"]]


#: Rules of axe about colors and sizes. All others find the same in each look of the same elements.
LOOK_RULES = ("color-contrast", "link-in-text-block", "scrollable-region-focusable")

#: Rows of a table after as many that axe has seen: they have the same elements, and axe needs a second for a hundred.
REPEATED = ["tbody > tr:nth-child(n + 16)"]

#: Sizes of a screen.
WIDE, NARROW, HEIGHT = 1280, 390, 844

#: Seconds between two refreshes here, instead of five.
REFRESH_S = 0.1


def ready_site(live_server: Any) -> str:
    User.objects.create_superuser("admin", password="secret")
    return live_server.url


def authenticate(page: Page, site: str, language: str = "") -> None:
    """Give the browser the session cookie of the superuser, and the cookie of a language."""
    client = Client()
    client.force_login(User.objects.get(username="admin"))
    cookies = {settings.SESSION_COOKIE_NAME: client.cookies[settings.SESSION_COOKIE_NAME].value}
    if language:
        cookies[settings.LANGUAGE_COOKIE_NAME] = language
    page.context.add_cookies([{"name": name, "value": value, "url": site} for name, value in cookies.items()])


def sign_in(page: Page, site: str, path: str = URL, language: str = "") -> None:
    """Open a page of the dashboard as the superuser: the page of the test, not the overview before it."""
    authenticate(page, site, language)
    page.goto(f"{site}{path}")


#: What the layout of the open page exceeds, and what its policy forbids.
LAYOUT = """() => [
    document.documentElement.scrollWidth <= innerWidth ? "" : `${document.documentElement.scrollWidth} px wide`,
    ...window.violations,
].filter(Boolean)"""


def faults(page: Page, *, resize_back: bool = True) -> list[str]:
    """Return what is wrong with the open page: for axe, on a wide and a narrow screen, and in Chinese.

    Args:
        resize_back: otherwise axe sees the next page on the other screen, and each page takes half of the processor
            time of its layout.
    """
    found: list[str] = page.evaluate(LAYOUT) + violations(page)
    width = page.evaluate("innerWidth")
    page.set_viewport_size({"width": NARROW if width == WIDE else WIDE, "height": HEIGHT})
    found += page.evaluate(LAYOUT)
    if resize_back:
        page.set_viewport_size({"width": width, "height": HEIGHT})
    return found + (untranslated(page) if page.evaluate("document.documentElement.lang") == "zh-hans" else [])


#: The texts of a page that a user reads, apart from code, the labels of keys, and what is marked as English.
TEXTS = """() => {
    const texts = document.createTreeWalker(document.querySelector("#container"), NodeFilter.SHOW_TEXT), found = [];
    while (texts.nextNode()) {
        const text = texts.currentNode.data.trim(), parent = texts.currentNode.parentElement;
        if (text && !parent.closest("script, style, code, kbd, pre, [lang=en]")) found.push(text);
    }
    return found;
}"""


def untranslated(page: Page) -> list[str]:
    """Return the English texts of the catalog that the page shows in Chinese."""
    whole, parts = _english()
    shown: list[str] = page.evaluate(TEXTS)
    joined = "\n".join(shown)
    return [f"in English: {text}" for text in [*whole.intersection(shown), *(part for part in parts if part in joined)]]


@cache
def _english() -> tuple[set[str], set[str]]:
    """Return the texts of the catalog without placeholders, and of the others the longest part of some words."""
    whole, parts = set(), set()
    for (_, text), translations in entries(CATALOGUE).items():
        part = max(re.split(r"%\(\w+\)[sd]|%s|%%|\{\w+\}|<[^>]+>", text), key=len).strip()
        if part == text not in translations and (" " in text or not text.islower()):  # other words may be data
            whole.add(text)
        elif part != text and part.count(" ") > 1:
            parts.add(part)
    return whole, parts


def violations(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """Return what axe-core reports about the page, of any impact, by these rules or all."""
    return [f"{one['id']}: {one['html']}" for one in run_axe(page, {"exclude": [*NOT_OURS, REPEATED]}, rules)]


#: In the page: runs axe-core, and returns of each violation what a test reports.
RUN_AXE = """async ([context, options]) => {
    if (!window.axe) loadAxe();
    const { violations } = await axe.run(context, options);
    return violations.map(({ id, help, impact, nodes }) => ({
        id, help, impact, html: nodes.map((node) => node.html), targets: nodes.map((node) => node.target),
    }));
}"""


@contextmanager
def another_look(page: Page, scheme: str = "dark", width: int = NARROW) -> Iterator[None]:
    """Show the open page in other colors and on a narrow screen: the elements that a test has checked."""
    size = page.viewport_size
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": HEIGHT})
    yield
    page.set_viewport_size(size or {"width": WIDE, "height": HEIGHT})
    page.emulate_media(color_scheme="light")


def run_axe(page: Page, context: Any, rules: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the violations that axe-core finds in a context of the page, by these rules or all."""
    if problem := install_axe():
        skip_missing(f"accessibility cannot be checked: {problem}")
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}  # no rule here reads stylesheets
    found: list[dict[str, Any]] = page.evaluate(RUN_AXE, [context, options | ({"runOnly": rules} if rules else {})])
    return found

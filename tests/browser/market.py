"""Helpers of the tests of the demo in a browser."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.support.demo import PASSWORD, Demo


def authenticate(page: Page, demo: Demo, username: str) -> None:
    """Give the browser the cookies of a member, whom the demo signs in once."""
    cookies = demo.visitor(username).cookies
    page.context.add_cookies([{"name": one.name, "value": one.value or "", "url": demo.base} for one in cookies])


def sign_in(page: Page, demo: Demo, username: str) -> None:
    """Sign in as visitors do."""
    page.goto(f"{demo.base}/login/")
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{demo.base}/")


def fits(page: Page) -> bool:
    """Return whether the page does not scroll sideways."""
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")

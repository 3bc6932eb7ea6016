"""Helpers of the tests in a browser: sign in, and check the accessibility of a page."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page

from django_redis_components.dashboard.page import Page as DashboardPage
from tests.dashboard.support import URL
from tests.support import skip_missing
from tests.support.axe import AXE_SCRIPT, install_axe

#: Markup of Django's admin, of which axe reports that links look like the text around them.
NOT_OURS = [[".breadcrumbs"], ["#header"]]


#: Seconds between two refreshes here, instead of five.
REFRESH_S = 0.1


def ready_site(live_server: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(DashboardPage, "refresh_s", REFRESH_S)
    User.objects.create_superuser("admin", password="secret")
    return live_server.url


def sign_in(page: Page, site: str) -> None:
    """Open the dashboard as the superuser, with the session cookie of a test client."""
    client = Client()
    client.force_login(User.objects.get(username="admin"))
    name = settings.SESSION_COOKIE_NAME
    page.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": site}])
    page.goto(f"{site}{URL}")
    page.wait_for_selector("[data-drc-dashboard]")


def violations(page: Page) -> list[str]:
    """Return what axe-core reports about the page, of any impact."""
    if problem := install_axe():
        skip_missing(f"accessibility cannot be checked: {problem}")
    page.evaluate(AXE_SCRIPT.read_text() + ";0")
    options = {"resultTypes": ["violations"], "preload": False}  # no rule that applies here reads stylesheets
    found = page.evaluate(
        "(args) => axe.run(...args).then(({ violations }) => violations)", [{"exclude": NOT_OURS}, options]
    )
    return [f"{one['id']}: {[node['html'] for node in one['nodes']]}" for one in found]

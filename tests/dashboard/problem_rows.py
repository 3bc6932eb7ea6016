"""The problems on the overview as a user reads them: text, links and buttons."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.test import Client

from tests.dashboard.support import URL, text_of
from tests.support import eventually
from tests.support.waiting import TIMEOUT_S

#: Seconds of a lease: the tests have the default.
LEASE_S = 15.0


class Row:
    """A problem on the overview: its text, its command, and its links by label."""

    def __init__(self, html: str) -> None:
        self.text = unescape(text_of(html))
        found = re.findall(r'<a class="[^"]*" href="([^"]+)">([^<]+)', html)
        self.links = {unescape(label).strip(): unescape(url) for url, label in found}


def rows(client: Client) -> list[Row]:
    html = client.get(URL).content.decode()
    section = html.partition('data-drc-live="health"')[2].partition("</section>")[0]
    return [Row(item) for item in re.findall(r"<li>(.*?)</li>", section, re.DOTALL)]


def row_with(client: Client, pattern: str, timeout_s: float = TIMEOUT_S) -> Row:
    """Wait for a problem whose text matches; return its row."""

    def find() -> Row:
        found = rows(client)
        matching = [row for row in found if re.search(pattern, row.text)]
        assert matching, [row.text for row in found]
        return matching[0]

    return eventually(find, timeout_s)


def set_option(settings: Any, **options: Any) -> None:
    dashboard = {**settings.REDIS_COMPONENTS["DASHBOARD"], **options}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": dashboard}


def text_at(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200, response.content
    return unescape(text_of(response.content.decode()))

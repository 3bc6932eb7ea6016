"""The panels of names: sketches and counters, presence, recent choices."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from django_redis_components.analytics import BitCounters
from django_redis_components.autocomplete import RecentList
from django_redis_components.bloom import CountMinSketch, TopK
from django_redis_components.messaging import Presence
from tests.dashboard.support import browser, connect, text_of
from tests.support import Store

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogued")]

PAGES = "/admin/django_redis_components/"


@pytest.fixture
def viewer() -> Client:
    return browser("view_analytics", "view_messaging", "view_indexes")


def names(client: Client, page: str, panel: str) -> list[tuple[str, str, str]]:
    rows: list[dict[str, Any]] = client.get(f"{PAGES}{page}/", {"format": "json"}).json()["panels"][panel]
    return sorted((row["kind"], row["name"], row["using"]) for row in rows)


def test_sketches_and_counters_are_listed(redis_server: Store, settings: Any, viewer: Client) -> None:
    connect(settings, other=redis_server.url)
    CountMinSketch("<views>").add("a")
    TopK("searches", 3).add("a")
    BitCounters("votes", using="other").incr(1)

    found = names(viewer, "analytics", "counters")
    html = viewer.get(f"{PAGES}analytics/").content.decode()

    assert found == [
        ("BitCounters", "votes", "other"),
        ("CountMinSketch", "<views>", "default"),
        ("TopK", "searches", "default"),
    ]
    assert "votes bit counters other" in text_of(html)
    assert "<views>" not in html


def test_presences_are_listed_until_they_are_pruned(redis_server: Store, viewer: Client) -> None:
    Presence("lobby").touch("ada")

    assert names(viewer, "messaging", "presences") == [("Presence", "lobby", "default")]


def test_recent_lists_are_listed_until_they_are_deleted(redis_server: Store, viewer: Client) -> None:
    recents = RecentList("user:7")
    recents.touch("7", "Ada")
    assert names(viewer, "indexes", "recent-lists") == [("RecentList", "user:7", "default")]

    recents.delete()

    assert names(viewer, "indexes", "recent-lists") == []


def test_page_without_names_says_so(redis_server: Store, viewer: Client) -> None:
    assert "None has been used yet." in text_of(viewer.get(f"{PAGES}messaging/").content.decode())

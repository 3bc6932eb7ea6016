"""The panel of Bloom filters on the page of analytics."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from django_redis_components.bloom import BloomFilter
from tests.dashboard.support import browser, connect, text_of
from tests.support import Store

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogued")]

ANALYTICS = "/admin/django_redis_components/analytics/"


@pytest.fixture
def viewer() -> Client:
    return browser("view_analytics")


def text(client: Client) -> str:
    response = client.get(ANALYTICS)
    assert response.status_code == 200, response.content
    return text_of(response.content.decode())


def filters(client: Client) -> dict[str, Any]:
    panels = client.get(ANALYTICS, {"format": "json"}).json()["panels"]
    return {row["name"]: row for row in panels["bloom"]}


@pytest.mark.contract
def test_filters_show_items_fill_and_expected_error(store: Store, viewer: Client) -> None:
    urls, small = BloomFilter("<urls>", 1_000, error_rate=0.01, scaling=False), BloomFilter("small panel", 100)
    urls.add_many(range(500))
    small.add_many(range(150))
    empty = BloomFilter("unused panel", 10)
    empty.contains(1)
    divided = BloomFilter("divided panel", 100, parts=3)
    divided.add_many(range(50))

    shown = text(viewer)

    data = filters(viewer)
    assert data["<urls>"]["info"]["items"] == urls.info().items
    assert data["small panel"]["info"]["layers"] == 2
    assert "2 layers" in shown
    assert "3 parts, 3 layers" in shown
    assert data["divided panel"]["info"]["items"] == divided.info().items
    assert data[empty.name]["info"]["layers"] == 0
    assert re.search(r"unused panel 0 10 0.00.% 0.00.% of 1.00.% 0.bytes empty", shown)
    assert "<urls>" not in viewer.get(ANALYTICS).content.decode()


def test_filter_above_its_capacity_or_with_other_parameters_is_named(redis_server: Store, viewer: Client) -> None:
    full, other = BloomFilter("full panel", 10, scaling=False), BloomFilter("other panel", 10)
    full.add_many(range(50))
    other.add(1)
    changed = BloomFilter("other panel", 20)

    shown = text(viewer)

    assert "More items than its capacity: rebuild it with a larger one." in shown
    assert filters(viewer)["full panel"]["info"]["is_over_capacity"]
    assert changed.name == other.name


def test_filters_that_are_not_read_are_listed_with_the_reason(
    redis_server: Store, settings: Any, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect(settings, other=redis_server.url)
    monkeypatch.setattr("django_redis_components.dashboard.panels.bloom.MAX_FILTERS", 2)
    kept = [BloomFilter(f"0 filter {number}", 10) for number in range(3)]
    remote = BloomFilter("0 remote", 10, using="other")
    for each in (*kept, remote):
        each.contains(1)

    shown, rows = text(viewer), filters(viewer)

    assert [rows[each.name]["info"] is not None for each in kept] == [True, True, False]
    assert rows[kept[2].name]["note"] == "only the first 2 are measured"
    assert rows[remote.name] == {"name": "0 remote", "info": None, "note": "on the connection “other”"}
    assert "0 remote" in shown

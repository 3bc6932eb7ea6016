"""The panel of log files."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from django_redis_components.aggregation import LogAggregator
from django_redis_components.core.observability import catalog
from django_redis_components.geoip import IpLookup, IpRange, Place
from tests.dashboard.support import browser, text_of
from tests.support import Store

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogued")]

FILES = "/admin/django_redis_components/files/"


@pytest.fixture
def viewer() -> Client:
    return browser("view_files")


def text(client: Client) -> str:
    response = client.get(FILES)
    assert response.status_code == 200, response.content
    return text_of(response.content.decode())


def panel(client: Client) -> dict[str, Any]:
    return dict(client.get(FILES, {"format": "json"}).json()["panels"]["logs"])


def write_log(path: Path, *requests: tuple[str, int]) -> Path:
    """Write a line of each address, dated this number of days ago at noon."""
    now = timezone.localtime().replace(hour=12)
    times = [(address, f"{now - timedelta(days=days):%d/%b/%Y:%H:%M:%S %z}") for address, days in requests]
    path.write_text("".join(f'{address} - - [{at}] "GET / HTTP/1.1" 200 1\n' for address, at in times) + "junk\n")
    return path


@pytest.mark.contract
def test_counts_places_and_files_are_shown(store: Store, viewer: Client, tmp_path: Path) -> None:
    IpLookup(source="ranges").rebuild([IpRange("8.8.8.0", "8.8.8.255", Place("US"))], source="a.csv")
    log = write_log(tmp_path / "<access>.log", ("8.8.8.8", 1), ("8.8.8.9", 1), ("9.9.9.9", 1), ("8.8.8.8", 3))
    LogAggregator("visits").add_file(log)

    found, shown = panel(viewer), text(viewer)

    [visits] = found["aggregators"]
    day = timezone.localdate() - timedelta(days=1)
    assert visits["top_day"] == day.isoformat()
    assert visits["top"] == [{"key": "US", "requests": 2}, {"key": "ZZ", "requests": 1}]
    assert sum(visits["days"].values()) == 4
    assert (visits["files"][0]["name"], visits["files"][0]["lines"], visits["files"][0]["bad"]) == (str(log), 4, 1)
    assert found["ranges"]["ranges"] == 1
    assert "Places: 1 range of addresses from a.csv" in shown
    assert "US 2 66" in shown
    html = viewer.get(FILES).content.decode()
    assert "&lt;access&gt;.log" in html
    assert "<access>" not in html


def test_page_without_counts_names_the_command(redis_server: Store, viewer: Client) -> None:
    assert "No log file was counted. To count one: manage.py aggregate_logs" in text(viewer)
    assert panel(viewer)["aggregators"] == []


def test_aggregators_that_the_site_used_last_are_shown(redis_server: Store, viewer: Client, tmp_path: Path) -> None:
    for rank, name in enumerate(("third", "pages", "cities")):
        LogAggregator(name, key=lambda entry: entry.path).add_file(write_log(tmp_path / name, ("8.8.8.8", 0)))
        redis_server.raw.zincrby(catalog.catalog_key("LogAggregator"), 1_000 * rank, f'["{name}","default",{{}}]')

    found = panel(viewer)

    assert [each["name"] for each in found["aggregators"]] == ["cities", "pages"]
    assert found["aggregators"][0]["top"] == [{"key": "/", "requests": 1}]


def test_panel_sends_few_commands_in_two_round_trips(redis_server: Store, viewer: Client, tmp_path: Path) -> None:
    LogAggregator("visits", key=lambda entry: entry.path).add_file(write_log(tmp_path / "access.log", ("8.8.8.8", 0)))

    cost = viewer.get(FILES, {"format": "json"}).json()["cost"]

    assert cost["round_trips"] == 3

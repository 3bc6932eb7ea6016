"""The panel of file channels."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from django_redis_components.files import FileChannel
from tests.dashboard.support import browser, connect, text_of
from tests.support import Store, eventually

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogued")]

FILES = "/admin/django_redis_components/files/"


@pytest.fixture
def viewer() -> Client:
    return browser("view_files")


def html(client: Client) -> str:
    response = client.get(FILES)
    assert response.status_code == 200, response.content
    return response.content.decode()


def channels(client: Client) -> dict[str, Any]:
    panels = client.get(FILES, {"format": "json"}).json()["panels"]
    return {row["name"]: row for row in panels["files"]}


@pytest.mark.contract
def test_channels_show_budget_files_and_progress(store: Store, viewer: Client, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(50_000))
    logs = FileChannel("<panel logs>", ["one", "two"], limit_bytes=100_000, chunk_bytes=5_000)
    logs.publish(tmp_path / "x", name="<x.log>")
    [file] = logs.consumer("one").files(timeout=0)
    file.read(25_000)
    [other] = logs.consumer("two").files(timeout=0)
    other.done()

    page = html(viewer)

    shown = text_of(page).replace("\xa0", " ")
    assert "48.8 KB of 97.7 KB, 50.0 % 1 0 one: 1 pending, two: 0 pending" in shown.replace("50.00 %", "50.0 %")
    assert "one: 40" in shown
    assert "two: done" in shown
    assert "<x.log>" not in page
    assert "<panel logs>" not in page
    row = channels(viewer)["<panel logs>"]
    assert (row["consumers"], row["info"]["reserved_bytes"], row["info"]["file_count"]) == (2, 50_000, 1)
    assert row["info"]["files"][0]["consumers"][0] == {"consumer": "one", "read": 20_000, "is_done": False}


def test_waiting_producers_are_named(redis_server: Store, viewer: Client, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(50))
    full = FileChannel("full panel", ["one"], limit_bytes=60)
    first = full.publish(tmp_path / "x")
    thread = threading.Thread(target=full.publish, args=(tmp_path / "x",))
    thread.start()
    eventually(lambda: full.info().waiting == 1)

    shown = text_of(html(viewer))

    full.remove(first.id)
    thread.join(30)
    assert "Producers wait for room." in shown


def test_channels_that_are_not_read_are_listed_with_the_reason(
    redis_server: Store, settings: Any, viewer: Client
) -> None:
    connect(settings, other=redis_server.url)
    kept = [FileChannel(f"0 panel {number}", [str(each) for each in range(10)]) for number in range(4)]
    remote = FileChannel("0 remote", ["one"], using="other")
    for channel in (*kept, remote):
        channel.info()

    rows, shown = channels(viewer), text_of(html(viewer))

    assert [rows[each.name]["info"] is not None for each in kept] == [True, True, True, False]
    assert rows[kept[3].name]["note"] == "only the first 3 are measured"
    assert rows[remote.name]["note"] == "on the connection “other”"
    assert "7: 0 pending, 2 more" in shown


def test_channels_of_one_name_on_two_connections_are_two_rows(
    redis_server: Store, settings: Any, viewer: Client
) -> None:
    connect(settings, other=redis_server.url)
    kept = [FileChannel("0 twice", ["one"], using=using) for using in ("default", "other")]
    for channel in kept:
        channel.info()

    rows = viewer.get(FILES, {"format": "json"}).json()["panels"]["files"]

    shown = [(row["using"], row["info"] is not None, row["note"]) for row in rows if row["name"] == kept[0].name]
    assert shown == [("default", True, ""), ("other", False, "on the connection “other”")]


def test_page_reads_channels_in_its_round_trips(redis_server: Store, viewer: Client, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(50))
    kept = [FileChannel(f"0 panel {number}", [str(each) for each in range(100)]) for number in range(3)]
    for channel in kept:
        for _ in range(5):
            channel.publish(tmp_path / "x")

    found = viewer.get(FILES, {"format": "json"}).json()

    assert found["errors"] == {}
    assert found["cost"]["round_trips"] == 3
    assert found["cost"]["commands"] <= 200

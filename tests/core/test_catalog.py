"""The names that the processes of a site use."""

from __future__ import annotations

import time
from typing import Any

import pytest

from django_redis_components.core.client.connections import client
from django_redis_components.core.observability import catalog
from django_redis_components.core.observability.catalog import (
    RECORDER,
    CatalogEntry,
    catalog_key,
    entries_flow,
    names_flow,
    objects,
)
from django_redis_components.core.protocol import run
from tests.core.notes import Note
from tests.support import eventually
from tests.support.processes import Children
from tests.support.stores import Store

#: No server listens there.
NOWHERE = {"URL": "redis://127.0.0.1:1/0"}


@pytest.fixture(autouse=True)
def _recorded(store: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CATALOG": True}


def entries(using: str = "default") -> list[CatalogEntry]:
    """What is listed on a connection, after what this process has still to record."""
    RECORDER.flush()
    return run(client(using), entries_flow("Note"))


def connect(settings: Any, **aliases: dict[str, Any]) -> None:
    known = settings.REDIS_COMPONENTS
    settings.REDIS_COMPONENTS = {**known, "CONNECTIONS": {**known["CONNECTIONS"], **aliases}}


def test_a_name_is_listed_after_its_first_use() -> None:
    Note("unused")
    Note("b", color="red").write("x")

    [entry] = entries()

    assert (entry.kind, entry.name, entry.using, entry.options) == ("Note", "b", "default", {"color": "red"})
    assert abs(entry.used_at - time.time()) < 3_600


def test_objects_are_made_from_the_entries() -> None:
    Note("b", color="red").write("x")
    Note("a").write("x")

    assert {(note.name, note.color) for note in objects(entries(), Note)} == {("a", ""), ("b", "red")}


def test_a_name_is_recorded_once_an_hour() -> None:
    Note("a").write("x")
    assert RECORDER.take()

    Note("a").write("y")

    assert RECORDER.take() == {}


def test_a_name_is_recorded_again_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "RECORD_S", 0.0)
    note = Note("a")
    note.write("x")
    assert RECORDER.take()

    note.write("y")

    assert RECORDER.take()


def test_the_thread_records_names_without_a_request_in_the_call(store: Store) -> None:
    Note("a").write("x")

    assert eventually(lambda: store.raw.zcard(catalog_key("Note"))) == 1


def test_the_list_and_its_names_expire(store: Store) -> None:
    store.raw.zadd(catalog_key("Note"), {'["old","default",{}]': time.time() - catalog.KEPT_S - 60})
    Note("a").write("x")

    assert [entry.name for entry in entries()] == ["a"]
    assert 0 < store.raw.ttl(catalog_key("Note")) <= catalog.KEPT_S


def test_a_deleted_name_is_not_listed_until_it_is_used_again() -> None:
    note = Note("a")
    note.write("x")
    assert entries()

    note.delete()
    assert entries() == []

    note.write("x")
    assert [entry.name for entry in entries()] == ["a"]


def test_the_latest_names_are_kept(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setattr(catalog, "MAX_NAMES", 3)
    store.raw.zadd(catalog_key("Note"), {f'["old {n}","default",{{}}]': time.time() - 5_000 + n for n in (1, 2)})
    Note("a").write("x")
    Note("b").write("x")

    assert {entry.name for entry in entries()} == {"b", "a", "old 2"}


def test_a_process_records_a_bounded_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    Note("first").write("x")
    monkeypatch.setattr(catalog, "MAX_USES", 0)
    Note("second").write("x")
    Note("first").write("x")

    assert [entry.name for entry in entries()] == ["first"]


def test_names_of_the_last_hour_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "RECORD_S", 0.0)
    Note("first").write("x")
    monkeypatch.setattr(catalog, "MAX_USES", 1)
    Note("second").write("x")

    assert {entry.name for entry in entries()} == {"second", "first"}


def test_of_a_name_with_several_options_the_latest_is_listed(store: Store) -> None:
    store.raw.zadd(catalog_key("Note"), {'["a","default",{"color":"red"}]': time.time() - 60})
    Note("b").write("x")
    Note("a", color="blue").write("x")

    assert len(entries()) == 3
    names = run(client(), names_flow("Note"))
    assert [(entry.name, entry.options) for entry in names] == [("a", {"color": "blue"}), ("b", {})]


def test_an_entry_that_is_too_large_is_not_recorded() -> None:
    Note("a", color="x" * catalog.MAX_ENTRY_BYTES).write("x")
    Note("b").write("x")

    assert [entry.name for entry in entries()] == ["b"]


@pytest.mark.parametrize(
    "member",
    [b"\xff", b"[]", b'["","default",{}]', b'["a",7,{}]', b'["a","default",7]', b'{"a": 1}', b"[" * 10_000],
    ids=["bytes", "empty", "name", "alias", "options", "object", "nested"],
)
def test_a_corrupt_entry_is_left_out(member: bytes, store: Store) -> None:
    store.raw.zadd(catalog_key("Note"), {member: time.time()})
    Note("a").write("x")

    assert [entry.name for entry in entries()] == ["a"]


def test_an_entry_of_another_version_of_the_code_makes_no_object() -> None:
    known = CatalogEntry("Note", "a", "default", {"color": "red"})

    assert [note.name for note in objects([CatalogEntry("Note", "b", "default", {"size": 3}), known], Note)] == ["a"]


def test_the_same_name_on_two_connections_is_listed_twice(store: Store, settings: Any) -> None:
    connect(settings, other={"URL": store.url})
    Note("a").write("x")
    Note("a", using="other").write("x")

    assert sorted((entry.name, entry.using) for entry in entries()) == [("a", "default"), ("a", "other")]


def test_names_of_other_connections_are_listed_on_that_of_the_dashboard(
    store: Store, own_server: Store, settings: Any
) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CATALOG": True}
    connect(settings, other={"URL": store.url})
    Note("a", using="other").write("x")

    assert [entry.using for entry in entries()] == ["other"]
    assert [entry.using for entry in entries("other")] == ["other"]


def test_a_use_is_recorded_later_if_redis_is_away(
    store: Store, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(catalog, "RETRY_S", 0.0)
    connect(settings, dashboards=NOWHERE)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"USING": "dashboards"}}
    note = Note("a")

    note.write("x")

    assert [entry.name for entry in entries()] == ["a"]
    assert "Names for the dashboard cannot be recorded" in caplog.text
    note.write("y")
    assert set(RECORDER.take()) == {"default", "dashboards"}


def test_nothing_is_recorded_while_the_setting_is_off(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CATALOG": False}
    note = Note("a")
    note.write("x")
    note.delete()
    assert entries() == []

    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CATALOG": True}
    note.write("x")
    assert [entry.name for entry in entries()] == ["a"]


def test_each_process_adds_its_names(children: Children) -> None:
    Note("here").write("x")
    for name in ("there", "elsewhere"):
        children.call("tests.core.notes:write", name).wait_for("done")

    assert sorted(entry.name for entry in entries()) == ["elsewhere", "here", "there"]

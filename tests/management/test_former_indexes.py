"""`manage.py redis migrate` lists indexes of former versions, which this release does not read, and deletes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_redis_components import autocomplete, search
from django_redis_components.autocomplete import ModelIndex, PrefixIndex
from django_redis_components.search import ModelSearch, SearchIndex
from tests.dashboard.support import write_queue
from tests.management.support import Terminal, command_data, refusal, run_command
from tests.support import Store

FORMER = (
    "search:{auth.user}:v3:0:docs",
    "search:{auth.user}:v3:0:w:caf\u00e9: a",
    "search:{notes}:v1:state",
    "autocomplete:{members}:v3.2:lex",
    "autocomplete:{members of:7}:v3.2:lex",
    "autocomplete:{members of:8}:v2:lex",
    "autocomplete:{cities}:v3.2:lex",
)
OTHER = (
    "search:{notes}:v99:state",
    "search:{notes}:v99:d:}:v1:state",
    "autocomplete:{cities}:v99.1:d:}:v3:x",
    "autocomplete:{cities}:v99.1:lex",
    "locks:{v1}:v1:x",
    "search:{a}:check",
)


class People(ModelSearch):
    model, fields = User, {"username": 1}


class Members(ModelIndex):
    model, name, text = User, "members", "username"


class MembersOf(ModelIndex):
    model, name, text = User, "members of", "username"

    def scope(self, obj: Any) -> str:
        return str(obj.pk)


@pytest.fixture
def former(redis_server: Store) -> Iterator[Store]:
    """A server with indexes of former and of newer versions, and of this one."""
    registered = [search.register(People), autocomplete.register(Members), autocomplete.register(MembersOf)]
    try:
        SearchIndex("notes").add(1, "lamp")
        SearchIndex("stems", stemmer="english").add(1, "lamps")
        PrefixIndex("cities").add(1, "Berlin")
        for key in (*FORMER, *OTHER):
            redis_server.raw.set(f"{redis_server.prefix}:{key}", "")
        redis_server.raw.set(f"{redis_server.prefix}x:search:{{notes}}:v1:state", "")
        yield redis_server
    finally:
        search.unregister(registered[0].name)
        for each in registered[1:]:
            autocomplete.unregister(each.name)


def keys_of(store: Store) -> set[str]:
    return {key.decode() for key in store.raw.scan_iter(match=f"{store.prefix}*")}


def test_former_indexes_are_listed_with_what_rebuilds_them(former: Store) -> None:
    before = keys_of(former)

    shown = run_command("redis", "migrate", "--dry-run", "--delete-former")

    assert shown.startswith("COMPONENT     INDEX       STORED  READS  FORMER KEYS  NEW KEYS  REBUILD BY\n")
    assert "python manage.py redis migrate --delete-former" in shown
    assert "Nothing to convert." in shown
    assert keys_of(former) == before
    rows = command_data("redis", "migrate", "--dry-run")["indexes"]
    assert [(row["component"], row["name"], row["stored"], row["keys"], row["rebuild"]) for row in rows] == [
        ("autocomplete", "cities", "v3.2", 1, "PrefixIndex('cities').rebuild(…)"),
        ("autocomplete", "members", "v3.2", 1, "python manage.py rebuild_autocomplete members"),
        ("autocomplete", "members of", "v2", 1, "python manage.py rebuild_autocomplete 'members of'"),
        ("autocomplete", "members of", "v3.2", 1, "python manage.py rebuild_autocomplete 'members of'"),
        ("search", "auth.user", "v3", 2, "python manage.py rebuild_search auth.user"),
        ("search", "notes", "v1", 1, "SearchIndex('notes').rebuild(…)"),
    ]


def test_listing_tells_which_index_was_rebuilt(former: Store) -> None:
    def new_keys() -> dict[str, int]:
        rows = command_data("redis", "migrate", "--dry-run")["indexes"]
        return {f"{row['component']} {row['name']}": row["new_keys"] for row in rows}

    before = new_keys()
    search.registered()[0].index.add(1, {"username": "anna"})

    assert (before["search auth.user"], before["autocomplete members"]) == (0, 0)
    assert before["search notes"] > 0, "the test has written to it"
    assert new_keys()["search auth.user"] > 0


def test_former_indexes_are_deleted_after_a_confirmation(former: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_command("redis", "migrate")
    before = keys_of(former)

    assert "No terminal to ask for confirmation; pass --yes." in refusal("redis", "migrate", "--delete-former")
    assert keys_of(former) >= before
    assert run_command("redis", "migrate", "--delete-former", "--yes").endswith("Deleted 7 keys of former indexes.\n")

    assert before - keys_of(former) == {f"{former.prefix}:{key}" for key in FORMER}
    assert run_command("redis", "migrate").startswith("Nothing to do. Formats:")
    assert SearchIndex("notes").search("lamp").ids == ["1"]


def test_index_of_a_model_with_another_stemmer_is_a_former_one(redis_server: Store) -> None:
    SearchIndex("auth.user").add(1, "lamps")
    stemmed: Any = search.register(type("Stemmed", (ModelSearch,), {**vars(People), "stemmer": "english"}))
    try:
        stemmed.index.add(1, "lamps")

        [row] = command_data("redis", "migrate")["indexes"]
    finally:
        search.unregister(stemmed.name)

    assert (row["name"], row["reads"]) == ("auth.user", f"{row['stored']}-english")


def test_former_indexes_whose_keys_are_not_text_are_shown_and_deleted(redis_server: Store) -> None:
    key = f"{redis_server.prefix}:search:{{notes".encode() + b"\xff}:v1:w:\xfe"
    redis_server.raw.set(key, "")

    [row] = command_data("redis", "migrate", "--delete-former", "--yes")["indexes"]

    assert row["name"] == r"notes\xff"
    assert redis_server.raw.exists(key) == 0


def test_command_shows_on_a_terminal_how_much_of_the_server_it_has_looked_at(
    former: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Terminal()) as terminal:
        monkeypatch.setattr(sys, "stderr", terminal.stream)
        run_command("redis", "migrate", "--delete-former", "--yes")
        shown = terminal.shown()

    for bar in ("delete former indexes", "former indexes"):
        assert f"{bar}: 100%" in shown


@pytest.mark.django_db
def test_doctor_names_former_indexes_with_the_command_that_deletes_them(former: Store) -> None:
    write_queue(former, "mail", ready=1)  # a critical problem, whatever else the server has

    def findings() -> list[dict[str, Any]]:
        found = command_data("redis", "doctor", "--scan", "10000000", code=2)["findings"]
        return [each for each in found if each["code"] == "former_indexes"]

    [finding] = findings()
    assert finding["text"] == (
        "6 indexes that this release does not read: autocomplete 'cities' v3.2, autocomplete 'members' v3.2,"
        " autocomplete 'members of' v2, autocomplete 'members of' v3.2, search 'auth.user' v3, and 1 more."
    )
    assert finding["command"] == "python manage.py redis migrate --delete-former"
    run_command("redis", "migrate", "--delete-former", "--yes")
    assert findings() == []

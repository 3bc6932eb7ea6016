"""The page of autocomplete and search: registered indexes, their size and drift, and the queries of search."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from django_redis_components import autocomplete, search
from django_redis_components.autocomplete import Entry, ModelIndex, PrefixIndex
from django_redis_components.autocomplete.registry import registered
from django_redis_components.exceptions import RebuildSuperseded
from tests.dashboard.support import HOSTILE, Page, browser, dump, text_of
from tests.support import Store

pytestmark = pytest.mark.django_db

INDEXES = "/admin/django_redis_components/indexes/"


@pytest.fixture(autouse=True)
def _own_indexes() -> Iterator[None]:
    before = registered()
    for source in before:
        autocomplete.unregister(source.name)
    yield
    for source in registered():
        autocomplete.unregister(source.name)
    for source in before:
        autocomplete.register(source)


@pytest.fixture
def viewer() -> Client:
    return browser("view_indexes")


def indexes(client: Client) -> dict[str, Any]:
    response = client.get(INDEXES, {"format": "json"})
    assert response.status_code == 200, response.content
    assert response.json()["errors"] == {}
    return {row["name"]: row for row in response.json()["panels"]["indexes"]}


def text(client: Client) -> str:
    response = client.get(INDEXES)
    assert response.status_code == 200, response.content
    return text_of(response.content.decode())


@pytest.mark.contract
def test_page_shows_the_size_of_indexes(store: Store, viewer: Client) -> None:
    autocomplete.register("contacts")
    autocomplete.register("empty")
    PrefixIndex("contacts").rebuild(Entry(n, f"Anna Number{n}") for n in range(500))
    before = dump(store)

    found = indexes(viewer)

    size = found["contacts"]["size"]
    assert (size["entries"], size["is_rebuilding"]) == (500, False)
    assert size["terms"] >= 1_000
    key = f"{store.prefix}:autocomplete:{{contacts}}:v5.2"
    parts = [store.raw.memory_usage(f"{key}:{part}", samples=5) or 0 for part in ("lex", "top", "entries")]
    assert size["bytes"] == pytest.approx(sum(parts), rel=0.2)
    assert found["empty"]["size"] == {"entries": 0, "terms": 0, "bytes": 0, "is_rebuilding": False}
    assert re.search(r"contacts 500 [\d,]+ [\d.]+ (KB|MB)", text(viewer)), text(viewer)
    assert re.search(r"15 commands · 1 round trip", text(viewer))
    assert dump(store) == before, "the page writes nothing"


def test_running_rebuild_is_shown(redis_server: Store, viewer: Client) -> None:
    autocomplete.register("contacts")
    seen = []

    def entries() -> Iterator[Entry]:
        yield Entry(1, "Anna")
        seen.append(text(viewer))

    PrefixIndex("contacts").rebuild(entries())

    assert "a rebuild is running" in seen[0]
    assert "a rebuild is running" not in text(viewer)


def test_indexes_that_are_not_measured_say_why(redis_server: Store, viewer: Client, settings) -> None:
    connections = settings.REDIS_COMPONENTS["CONNECTIONS"]
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "CONNECTIONS": {**connections, "other": connections["default"]},
    }
    for number in range(32):
        autocomplete.register(f"a{number:02}")
    autocomplete.register("guilds", scoped=True)
    autocomplete.register("remote", using="other")

    found = indexes(viewer)

    assert sum(1 for row in found.values() if row["size"]) == 30
    assert found["a31"]["note"] == "only the first 30 are measured"
    assert found["guilds"]["note"] == "one index for each scope; scopes are not listed"
    assert found["remote"]["note"] == "on the connection “other”"
    assert "183 commands · 1 round trip" in text(viewer)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped(name: str, redis_server: Store, viewer: Client) -> None:
    clean = Page(viewer.get(INDEXES).content.decode())
    plain = name.replace("{", "(").replace("}", ")").replace("/", "|")
    autocomplete.register(plain)

    page = Page(viewer.get(INDEXES).content.decode())

    for tag in ("b", "script", "img"):
        assert len(page.all(tag)) == len(clean.all(tag)), tag
    assert list(indexes(viewer)) == [plain]


def test_invalid_data_fails_only_its_index(redis_server: Store, viewer: Client) -> None:
    autocomplete.register("broken")
    autocomplete.register("contacts")
    PrefixIndex("contacts").add(1, "Anna")
    redis_server.raw.set(f"{redis_server.prefix}:autocomplete:{{broken}}:v5.2:entries", "no hash")

    found = indexes(viewer)

    assert found["contacts"]["size"]["entries"] == 1
    assert "WRONGTYPE" in found["broken"]["note"]


@pytest.mark.parametrize(("denied", "has_bytes"), [((), True), (("-memory|usage",), False)])
def test_read_only_user_is_sufficient(
    denied: tuple[str, ...], has_bytes: bool, redis_server: Store, viewer: Client, settings
) -> None:
    autocomplete.register("contacts")
    PrefixIndex("contacts").add(1, "Anna")
    name = f"reader-{redis_server.prefix}"
    rights = ["+@read", "-@dangerous", "+info", "+time", "+evalsha_ro", "+eval_ro", *denied]
    redis_server.raw.execute_command("ACL", "SETUSER", name, "on", ">secret", "~*", *rights)
    url = re.sub("//", f"//{name}:secret@", redis_server.url, count=1)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}

    try:
        size = indexes(viewer)["contacts"]["size"]
    finally:
        redis_server.raw.execute_command("ACL", "DELUSER", name)

    assert size["entries"] == 1
    assert (size["bytes"] is not None) == has_bytes


def test_empty_registry_shows_the_next_step(redis_server: Store, viewer: Client) -> None:
    assert 'No index is registered in this process. Register one: autocomplete.register("contacts")' in text(viewer)


def test_page_requires_its_permission(redis_server: Store) -> None:
    assert browser("view_overview", "view_analytics").get(INDEXES).status_code == 403


@pytest.mark.django_db(transaction=True)
def test_drift_of_an_index_of_a_model_is_shown(redis_server: Store, viewer: Client) -> None:
    class Groups(ModelIndex):
        model = Group

    index = autocomplete.register(Groups)
    Group.objects.bulk_create(Group(name=f"group {n}") for n in range(3))
    assert "auth.group 0 0 0 bytes not compared yet" in text(viewer)

    drift = index.find_drift()
    assert "auth.group 0 0 0 bytes 3 differences, " in text(viewer)
    assert indexes(viewer)["auth.group"]["check"]["differences"] == 3
    index.repair(drift)

    assert re.search(r"auth\.group 3 .* none, .* ago", text(viewer))


class GroupSearch(search.ModelSearch):
    model = Group
    name = "groups"
    fields = {"name": 1}


@pytest.fixture
def groups(redis_server: Store) -> Iterator[search.ModelSearch]:
    yield search.register(GroupSearch)
    search.unregister("groups")


@pytest.mark.django_db(transaction=True)
def test_search_index_shows_size_drift_slow_queries_and_those_without_result(
    groups: search.ModelSearch, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_redis_components.search.query_log.SLOW_S", 0.0)
    Group.objects.create(name="black cats")
    groups.search("cats")
    for _ in range(3):
        groups.search("<b>dragon</b>")
    Group.objects.bulk_create([Group(name="unseen")])
    assert "groups 1 2 not compared yet" in text(viewer)

    groups.find_drift()
    shown = text(viewer)

    assert "groups 1 2 1 difference, " in shown
    assert re.search(r"Slowest queries of groups Query Longest .*cats \S", shown)
    assert re.search(r"Queries of groups without a result Query Searches .*dragon\S* 3 ", shown)
    assert "<b>dragon" not in viewer.get(INDEXES).content.decode()
    data = viewer.get(INDEXES, {"format": "json"}).json()["panels"]["search"]
    assert data[0]["size"] == {
        "documents": 1, "terms": 2, "words": 2, "is_rebuilding": False, "has_old_data": False
    }  # fmt: skip
    assert data[0]["queries"]["without_result"] == [["<b>dragon</b>", 3]]


@pytest.mark.django_db(transaction=True)
def test_rebuild_of_a_search_index_is_shown_and_an_abandoned_one_too(
    redis_server: Store, groups: search.ModelSearch, viewer: Client
) -> None:
    seen = []

    def documents() -> Iterator[tuple[int, search.Document]]:
        seen.append(text(viewer))
        yield from ((number, search.Document("lamp")) for number in range(1_000))
        redis_server.raw.delete(f"{redis_server.prefix}:search:{{groups}}:v5:build")  # as if it had been killed
        seen.append(text(viewer))
        yield 1_000, search.Document("lamp")

    with pytest.raises(RebuildSuperseded):
        groups.index.rebuild(documents())

    assert "groups 0 0 not compared yet a rebuild is running" in seen[0]
    assert "groups 0 0 not compared yet data of an abandoned rebuild is deleted by the next writes" in seen[1]


def test_unreadable_search_index_does_not_hide_the_others(
    redis_server: Store, groups: search.ModelSearch, viewer: Client
) -> None:
    redis_server.raw.set(f"{redis_server.prefix}:search:{{groups}}:v5:0:docs", "no hash")
    autocomplete.register("contacts")

    shown = text(viewer)

    assert "groups – – not compared yet WRONGTYPE" in shown
    assert "contacts 0 0" in shown


def test_without_search_indexes_the_panel_says_so(redis_server: Store, viewer: Client) -> None:
    before = search.registered()
    for one in before:
        search.unregister(one.name)

    try:
        assert "No search index has been used in the last 90 days." in text(viewer)
    finally:
        for one in before:
            search.register(type(one))


def test_search_indexes_that_are_not_read_are_listed_with_the_reason(
    redis_server: Store, groups: search.ModelSearch, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Remote(GroupSearch):
        name = "remote"

    search.register(Remote, using="other")
    monkeypatch.setattr("django_redis_components.dashboard.panels.search.MAX_INDEXES", 0)
    try:
        shown = text(viewer)
    finally:
        search.unregister("remote")

    assert "groups – – not compared yet only the first 0 are measured" in shown
    assert "remote – – not compared yet on the connection “other”" in shown


@pytest.mark.usefixtures("catalogued")
def test_index_without_a_model_is_listed_with_what_found_nothing(redis_server: Store, viewer: Client) -> None:
    index = search.SearchIndex("items")
    index.add("1", "a red lamp")
    for _ in range(3):
        index.search("unicorn")

    shown = text(viewer)

    assert "items 1 2 –" in shown
    assert "unicorn" in shown


@pytest.mark.usefixtures("catalogued")
def test_index_without_a_model_is_not_asked_for_a_comparison(
    redis_server: Store, groups: search.ModelSearch, viewer: Client
) -> None:
    def cost() -> int:
        commands: int = viewer.get(INDEXES, {"format": "json"}).json()["cost"]["commands"]
        return commands

    cost()  # the scripts are known to the server
    before = cost()
    search.SearchIndex("items").add("1", "a red lamp")

    assert cost() - before == 1 + 4, "the size, and the logged queries"

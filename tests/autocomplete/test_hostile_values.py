"""Values that visitors, sites and other clients of Redis send: an answer in words, never a 500."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from django import forms
from django.http import HttpRequest, HttpResponse
from django.template import RequestContext, Template
from django.test import Client, RequestFactory

from django_redis_components.autocomplete import (
    AutocompleteField,
    InvalidScope,
    PrefixIndex,
    RecentList,
    RegisteredIndex,
    Suggestion,
    register,
)
from django_redis_components.autocomplete.registry import sign_scope
from tests.autocomplete.hostile_values import HOSTILE
from tests.support import Store

URL = "/redis/autocomplete/contacts/"


def anybody(request: HttpRequest, scope: str) -> bool:
    return True


def scope_of_header(request: HttpRequest) -> str | None:
    return request.headers.get("X-Tenant")


@pytest.fixture
def index(redis_server: Store) -> PrefixIndex:
    index = PrefixIndex("contacts")
    index.rebuild((n, f"Anna {n:04d}") for n in range(1_200))
    return index


@pytest.mark.parametrize("page", ["00000000199", "01", "+1", " 1", "1 ", "100", "1" * 10])
def test_page_is_refused_unless_it_is_written_as_a_number_from_1_to_10(
    client: Client, index: PrefixIndex, page: str
) -> None:
    register("contacts", permission=anybody)

    response = client.get(URL, {"term": "an", "page": page})

    assert (response.status_code, response.json()) == (400, {"error": "Page not found."})


@pytest.mark.parametrize("limit", [1, 99, 100])
def test_tenth_page_is_served_with_every_accepted_limit(client: Client, index: PrefixIndex, limit: int) -> None:
    register("contacts", permission=anybody, limit=limit)

    answer = client.get(URL, {"term": "anna", "page": "10"}).json()

    assert [row["text"] for row in answer["results"]] == [f"Anna {n:04d}" for n in range(9 * limit, 10 * limit)]
    assert answer["pagination"] == {"more": False}


@pytest.mark.parametrize("limit", [0, -1, 101, 1.5, True, "10"])
def test_register_rejects_an_invalid_limit(limit: Any) -> None:
    with pytest.raises(ValueError, match=r"^limit=.*: expected an integer from 1 to 100\.$"):
        register("contacts", limit=limit)


@pytest.mark.parametrize("length", [-1, 21, True, "1"])
def test_register_rejects_an_invalid_min_length(length: Any) -> None:
    with pytest.raises(ValueError, match=r"^min_length=.*: expected an integer from 0 to 20\.$"):
        register("contacts", min_length=length)


def test_register_rejects_non_callables_and_non_boolean_flags() -> None:
    with pytest.raises(TypeError, match=r"^permission=True: expected a function\.$"):
        register("contacts", permission=True)
    with pytest.raises(TypeError, match=r"^scoped='no': expected True or False\.$"):
        register("contacts", scoped="no")


@pytest.mark.parametrize("scope", ["{", "a}b", "x" * 300, "a\x7fb"])
def test_invalid_scope_is_rejected(client: Client, redis_server: Store, scope: str) -> None:
    register("contacts", permission=anybody, scope_for=scope_of_header)

    response = client.get(URL, {"term": "a"}, headers={"X-Tenant": scope})

    assert (response.status_code, response.json()) == (400, {"error": "Invalid scope."})


@pytest.mark.parametrize("scope", [None, "", False, True])
def test_request_without_a_scope_is_refused_and_no_shared_index_is_served(
    client: Client, redis_server: Store, scope: Any
) -> None:
    PrefixIndex(f"contacts:{scope}").add(1, "Anna")
    register("contacts", permission=anybody, scope_for=lambda request: scope)

    response = client.get(URL, {"term": "a"})

    assert (response.status_code, response.json()) == (
        403,
        {"error": "You do not have permission to view these suggestions."},
    )


def test_scope_of_a_tenants_key_is_served(client: Client, redis_server: Store) -> None:
    PrefixIndex("contacts:0").add(1, "Anna")
    register("contacts", permission=anybody, scope_for=lambda request: 0)

    assert client.get(URL, {"term": "a"}).json()["results"] == [{"id": "1", "text": "Anna", "match": [0, 1]}]


def test_index_of_a_scope_with_braces_is_an_error_with_a_name() -> None:
    with pytest.raises(InvalidScope, match=r"^index name 'contacts:\{': braces are not accepted"):
        register("contacts", scoped=True).index("{")


@pytest.mark.parametrize("name", ["permission", "scope_for", "recents"])
def test_register_rejects_a_coroutine_function(name: str) -> None:
    async def callback(*args: object) -> bool:
        return False

    class Callback:
        async def __call__(self, *args: object) -> bool:
            return False

    for refused in (callback, Callback()):
        with pytest.raises(TypeError, match=rf"^{name}=.* is a coroutine function, which would not be awaited: .*\.$"):
            register("contacts", **{name: refused})


@pytest.mark.parametrize("name", ["permission", "scope_for", "recents"])
def test_callback_returning_a_coroutine_grants_nothing(client: Client, index: PrefixIndex, name: str) -> None:
    async def refuse() -> bool:
        return False

    register("contacts", **{"permission": anybody, name: lambda *args: refuse()})

    with pytest.raises(TypeError, match=r"must be awaited: autocomplete calls it without waiting\.$"):
        client.get(URL, {"term": "an"})


def test_async_permission_of_a_subclass_grants_nothing(client: Client, index: PrefixIndex) -> None:
    class Members(RegisteredIndex):
        async def is_permitted(self, request: HttpRequest, scope: str) -> bool:  # type: ignore[override]
            return False

    register(Members("contacts"))

    with pytest.raises(
        TypeError, match=r"is_permitted\(\) must be awaited: a coroutine would count as a permission\.$"
    ):
        client.get(URL, {"term": "an"})


def test_no_parameter_makes_the_view_fail(client: Client, index: PrefixIndex) -> None:
    recents = RecentList("user:7")
    recents.touch(7)
    register("contacts", permission=anybody, min_length=0, recents=lambda request: recents)
    PrefixIndex("guild:7").add(1, "Anna")
    register("guild", permission=anybody, scoped=True)
    seen = set()

    for value in HOSTILE:
        text = value.encode("utf-8", "replace").decode()
        signed = sign_scope("guild", text)
        for query in (
            {"term": text},
            {"term": "an", "page": text},
            {"term": ["an", text], "page": ["1", text]},
            {"term[]": text, text or "x": text},
            {"term": "an", "scope": text},
        ):
            seen.add(client.get(URL, query).status_code)
        seen.add(client.get("/redis/autocomplete/guild/", {"term": "a", "scope": text}).status_code)
        seen.add(client.get("/redis/autocomplete/guild/", {"term": "a", "scope": signed}).status_code)
    for raw in (b"term=%ff", b"term=%ed%a0%80", b"page=%00", b"&&&", b"=;=", b"term=%", b"term=a" * 200):
        seen.add(client.get(f"{URL}?{raw.decode()}").status_code)
    for name in ("x" * 3_000, "{", "contacts%00", "%ff", "%0a"):
        seen.add(client.get(f"/redis/autocomplete/{name}/").status_code)

    assert seen == {200, 400, 403, 404}


def corrupt(store: Store, index: str) -> None:
    """What no version of this package writes, beside what it writes, under the keys of an index and of recents."""
    base = f"{store.prefix}:autocomplete:{{{index}}}:v5.2"
    for member in (
        b"0anna",
        b"0anna\0",
        b"0anna\0\xff\xfe\x001",
        b"0anna\0Text\1heavy\x001",
        b"0anna\0Text\0",
        b"0anna\0\0\0\0\0",
    ):
        store.raw.zadd(f"{base}:lex", {member: 0})
        store.raw.zadd(f"{base}:top", {b"0an\1" + member: 0, b"0an\1000000001\0" + member: 0})
    store.raw.hset(
        f"{base}:entries", mapping={"77": b"\xff\x000anna", "78": b"no separator", "79": b"Text\1heavy\x000anna"}
    )
    for element in (b"no separator", b"\xff\0Text", b"\0nobody", b"77\0", b"78\0"):
        store.raw.lpush(f"{store.prefix}:autocomplete:{{user:7}}:recent", element)


@pytest.mark.parametrize("term", ["", "a", "an", "anna"])
def test_corrupt_members_and_recents_are_skipped(
    client: Client, redis_server: Store, caplog: pytest.LogCaptureFixture, term: str
) -> None:
    index, recents = PrefixIndex("contacts"), RecentList("user:7")
    index.add(1, "Anna")
    recents.touch(1)
    corrupt(redis_server, "contacts")
    register("contacts", permission=anybody, recents=lambda request: recents)

    response = client.get(URL, {"term": term})

    assert response.status_code == 200
    first = response.json()["results"][0]
    assert (first["id"], first["text"], first["group"]) == ("1", "Anna", "recent")
    assert "Skipped a corrupt" in caplog.text


def test_corrupt_values_do_not_keep_the_other_methods_from_working(redis_server: Store) -> None:
    index, recents = PrefixIndex("contacts"), RecentList("user:7")
    corrupt(redis_server, "contacts")

    index.add(78, "Anton")
    index.add(1, "An")
    index.remove(79)
    recents.touch(1, "Anna")
    recents.remove(78)

    assert index.get_many(["77", "78", "79"]) == {"78": Suggestion("78", "Anton")}
    assert [one.id for one in index.find_by_text("An")] == ["1"]
    assert recents.complete("an")[:1] == [Suggestion("1", "Anna")]
    assert recents.ids() == ["1", "77"]


@pytest.mark.parametrize("value", [*HOSTILE, 1.5, ["1"], object()], ids=itertools.count())
def test_form_renders_any_initial_value(redis_server: Store, value: Any) -> None:
    register("contacts")

    class LetterForm(forms.Form):
        to = AutocompleteField("contacts", required=False)

    request = RequestFactory().get("/")
    template = Template('{% load redis_components %}{{ form }}{% autocomplete name="b" index="contacts" value=to %}')
    context = RequestContext(request, {"form": LetterForm(initial={"to": value}), "to": value})

    assert HttpResponse(template.render(context)).status_code == 200
    changed = LetterForm({"to": "Anna"}, initial={"to": value})
    assert changed.has_changed()
    assert not changed.is_valid()


def test_invalid_initial_id_is_shown_as_text(redis_server: Store) -> None:
    register("contacts")

    shown = AutocompleteField("contacts").widget.render("to", "{<b>")

    assert 'value="{&lt;b&gt;"' in shown
    assert "<b>" not in shown


def test_form_of_a_scope_that_no_index_can_have_finds_nothing(redis_server: Store) -> None:
    register("guild", scoped=True)

    class LetterForm(forms.Form):
        to = AutocompleteField("guild", scope="{")

    form = LetterForm({"to": "Anna", "to-id": "1"}, initial={"to": "1"})

    assert form.as_p()
    assert form.has_changed()
    assert form.errors["to"] == ["“Anna” was not found. Choose one of the suggestions."]


def test_query_time_does_not_depend_on_the_length_of_the_text(redis_server: Store) -> None:
    index, recents = PrefixIndex("contacts"), RecentList("user:7")
    index.add(1, "Anna")
    begun = time.process_time()

    for typed in ("ﷺ" * 1_000_000, "e\u0301\u0323" * 300_000, "\u200b" * 1_000_000):
        index.complete(typed)
        index.find_by_text(typed)
        recents.complete(typed)

    assert time.process_time() - begun < 1.0  # folding the first one alone takes more


def test_remove_and_touch_know_a_longer_list_than_their_own_limit(store: Store) -> None:
    longer, shorter = RecentList("user:7", limit=50), RecentList("user:7", limit=2)
    for id_ in range(20):
        longer.touch(id_, f"Name {id_}")

    shorter.remove(3)

    assert "3" not in longer.ids()
    shorter.touch(5)
    assert shorter.all() == [Suggestion("5", "Name 5"), Suggestion("19", "Name 19")]

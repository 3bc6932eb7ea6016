"""The JSON view: the admin's format, nobody without permission, and an answer when Redis is away."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import Client
from django.urls import reverse
from django.utils.translation import override

from django_redis_components.autocomplete import Entry, PrefixIndex, RecentList, register
from django_redis_components.autocomplete.registry import sign_scope
from tests.conftest import components_settings
from tests.support import Proxy, Store

pytestmark = pytest.mark.integration

URL = "/redis/autocomplete/contacts/"


def anybody(request: HttpRequest, scope: str) -> bool:
    return True


@pytest.fixture
def index(redis_server: Store) -> PrefixIndex:
    index = PrefixIndex("contacts")
    for id_, text in enumerate(["Anna", "Anton", "Émile", "张三"], 1):
        index.add(id_, text)
    return index


def test_the_url_is_the_one_that_widgets_ask() -> None:
    assert reverse("django_redis_components:autocomplete", args=["contacts"]) == URL


def test_the_answer_has_the_format_of_the_admin(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody)

    response = client.get(URL, {"term": "AN"})

    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    assert response.json() == {
        "results": [{"id": "1", "text": "Anna"}, {"id": "2", "text": "Anton"}],
        "pagination": {"more": False},
        "status": "2 suggestions",
    }


@pytest.mark.parametrize(
    ("term", "status"), [("an", "2 suggestions"), ("émi", "1 suggestion"), ("x", "No suggestions")]
)
def test_the_status_says_how_many_there_are(client: Client, index: PrefixIndex, term: str, status: str) -> None:
    register("contacts", permission=anybody)

    assert client.get(URL, {"term": term}).json()["status"] == status


def test_recents_carry_their_group(client: Client, index: PrefixIndex) -> None:
    recents = RecentList("user:7")
    recents.touch(2)
    register("contacts", permission=anybody, recents=lambda request: recents)

    results = client.get(URL, {"term": "an"}).json()["results"]

    assert results == [{"id": "2", "text": "Anton", "group": "recent"}, {"id": "1", "text": "Anna"}]


def test_an_empty_term_shows_recents_only(client: Client, index: PrefixIndex) -> None:
    recents = RecentList("user:7")
    for id_ in (99, 3, 4):
        recents.touch(id_)
    register("contacts", permission=anybody, recents=lambda request: recents)

    answer = client.get(URL).json()

    assert [row["text"] for row in answer["results"]] == ["张三", "Émile"]
    assert answer["pagination"] == {"more": False}


@pytest.mark.parametrize("term", ["", " ", "\x00", "\u200b"])
def test_an_empty_term_without_recents_shows_nothing(client: Client, index: PrefixIndex, term: str) -> None:
    register("contacts", permission=anybody, recents=lambda request: None)

    assert client.get(URL, {"term": term}).json()["results"] == []


def test_a_term_below_the_least_length_shows_nothing(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody, min_length=3)

    assert client.get(URL, {"term": "an"}).json()["results"] == []
    assert len(client.get(URL, {"term": "ann"}).json()["results"]) == 1


def test_a_least_length_of_zero_shows_everything(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody, min_length=0)

    assert len(client.get(URL).json()["results"]) == 4


def test_least_length_and_limit_come_from_the_settings(
    client: Client, index: PrefixIndex, redis_server: Store, settings: Any
) -> None:
    settings.REDIS_COMPONENTS = components_settings(redis_server) | {"AUTOCOMPLETE": {"LIMIT": 1, "MIN_LENGTH": 2}}
    register("contacts", permission=anybody)

    assert client.get(URL, {"term": "a"}).json()["results"] == []
    assert client.get(URL, {"term": "an"}).json()["results"] == [{"id": "1", "text": "Anna"}]


def test_pages_follow_each_other_without_gap_or_repetition(client: Client, redis_server: Store) -> None:
    PrefixIndex("contacts").rebuild((n, f"Name {n:02d} Nab") for n in range(25))
    register("contacts", permission=anybody, limit=10)

    pages = [client.get(URL, {"term": "na", "page": str(page)}).json() for page in (1, 2, 3)]

    assert [page["pagination"]["more"] for page in pages] == [True, True, False]
    assert sorted(int(row["id"]) for page in pages for row in page["results"]) == list(range(25))


def test_the_last_page_that_may_be_asked_says_there_is_no_more(client: Client, redis_server: Store) -> None:
    PrefixIndex("contacts").rebuild((n, f"Name {n:02d}") for n in range(25))
    register("contacts", permission=anybody, limit=1)

    assert client.get(URL, {"term": "na", "page": "10"}).json()["pagination"] == {"more": False}


@pytest.mark.parametrize("page", ["0", "11", "-1", "x", "", "1e1", "²", "9" * 5000])
def test_a_page_that_does_not_exist_is_refused(client: Client, index: PrefixIndex, page: str) -> None:
    register("contacts", permission=anybody)

    response = client.get(URL, {"term": "an", "page": page})

    assert (response.status_code, response.json()) == (400, {"error": "There is no such page."})


def test_a_term_that_is_too_long_is_refused(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody)

    response = client.get(URL, {"term": "x" * 101})

    assert (response.status_code, response.json()) == (400, {"error": "At most 100 characters, please."})
    assert client.get(URL, {"term": "x" * 100}).status_code == 200


def test_an_index_that_is_not_registered_does_not_exist(client: Client, index: PrefixIndex) -> None:
    response = client.get(URL, {"term": "an"})

    assert (response.status_code, response.json()) == (404, {"error": "There is no such index."})


def test_by_default_nobody_is_answered_who_is_not_logged_in(client: Client, index: PrefixIndex) -> None:
    register("contacts")

    response = client.get(URL, {"term": "an"})

    assert (response.status_code, response.json()) == (403, {"error": "You may not see these suggestions."})


@pytest.mark.django_db
def test_by_default_users_who_are_logged_in_are_answered(client: Client, index: PrefixIndex) -> None:
    register("contacts")
    client.force_login(User.objects.create_user("anna"))

    assert client.get(URL, {"term": "an"}).status_code == 200


def test_the_permission_is_asked_before_redis(client: Client) -> None:
    """No server runs in this test: an answer of 503 would mean that Redis was asked."""
    register("contacts", permission=lambda request, scope: False)

    assert client.get(URL, {"term": "an"}).status_code == 403


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_other_methods_are_refused(client: Client, index: PrefixIndex, method: str) -> None:
    register("contacts", permission=anybody)

    assert getattr(client, method)(URL).status_code == 405


@pytest.mark.parametrize("permission", [True, False])
def test_no_answer_is_kept_by_shared_caches(client: Client, index: PrefixIndex, permission: bool) -> None:
    register("contacts", permission=lambda request, scope: permission)

    response = client.get(URL, {"term": "an"})

    assert {"private", "max-age=0"} <= set(response["Cache-Control"].split(", "))
    assert {"Cookie", "Accept-Language"} <= set(response["Vary"].split(", "))


def test_the_part_of_a_scoped_index_is_named_by_a_signed_scope(client: Client, redis_server: Store) -> None:
    PrefixIndex("guild:7").add(1, "Anna")
    PrefixIndex("guild:8").add(2, "Anton")
    asked = []
    register("guild", scoped=True, permission=lambda request, scope: asked.append(scope) or scope != "9")

    def answer(scope: str) -> tuple[int, Any]:
        response = client.get("/redis/autocomplete/guild/", {"term": "an", "scope": scope})
        return response.status_code, [row["text"] for row in response.json().get("results", [])]

    assert answer(sign_scope("guild", 7)) == (200, ["Anna"])
    assert answer(sign_scope("guild", "8")) == (200, ["Anton"])
    assert answer(sign_scope("guild", "9"))[0] == 403
    assert asked == ["7", "8", "9"]


@pytest.mark.parametrize("scope", ["", "7", "7:forged", sign_scope.__name__])
def test_a_scope_that_is_missing_or_tampered_with_is_refused(client: Client, redis_server: Store, scope: str) -> None:
    register("guild", scoped=True, permission=anybody)

    assert client.get("/redis/autocomplete/guild/", {"term": "an", "scope": scope}).status_code == 403


def test_a_scope_signed_for_another_index_is_refused(client: Client, redis_server: Store) -> None:
    register("guild", scoped=True, permission=anybody)
    register("tenant", scoped=True, permission=anybody)

    response = client.get("/redis/autocomplete/guild/", {"term": "an", "scope": sign_scope("tenant", 7)})

    assert response.status_code == 403


def test_a_scope_that_follows_from_the_request_cannot_be_chosen(client: Client, redis_server: Store) -> None:
    PrefixIndex("tenant:mine").add(1, "Anna")
    PrefixIndex("tenant:theirs").add(2, "Anton")
    register("tenant", scope_for=lambda request: "mine", permission=anybody)

    response = client.get("/redis/autocomplete/tenant/", {"term": "an", "scope": sign_scope("tenant", "theirs")})

    assert [row["text"] for row in response.json()["results"]] == ["Anna"]


def test_a_request_without_a_scope_of_its_own_is_refused(client: Client, redis_server: Store) -> None:
    register("tenant", scope_for=lambda request: "", permission=anybody)

    assert client.get("/redis/autocomplete/tenant/", {"term": "an"}).status_code == 403


def test_an_index_without_scopes_does_not_look_at_one(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody)

    assert client.get(URL, {"term": "ann", "scope": "anything"}).status_code == 200


def test_when_redis_is_away_the_answer_says_so(client: Client, proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    register("contacts", permission=anybody, using="proxied")
    PrefixIndex("contacts").add(1, "Anna")
    proxy.stop_accepting()
    proxy.cut()

    response = client.get(URL, {"term": "an"})

    assert response.status_code == 503
    assert response.json() == {"error": "Suggestions are not available at the moment."}
    assert response["Retry-After"] == "5"
    assert "private" in response["Cache-Control"]
    assert "Autocomplete of index 'contacts' has no answer" in caplog.text

    proxy.accept_again()
    assert client.get(URL, {"term": "an"}).status_code == 200


def test_text_from_the_index_is_not_html_in_the_answer(client: Client, redis_server: Store) -> None:
    PrefixIndex("contacts").add(1, "<script>alert(1)</script>")
    register("contacts", permission=anybody)

    response = client.get(URL, {"term": "<scr"})

    assert response["Content-Type"] == "application/json"
    assert response.json()["results"][0]["text"] == "<script>alert(1)</script>"


def test_the_status_speaks_the_readers_language(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody)

    with override("zh-hans"):
        response = client.get(URL, {"term": "an"}, headers={"Accept-Language": "zh-hans"})

    assert response.json()["status"] == "2 条建议"


def test_weights_order_the_answer(client: Client, redis_server: Store) -> None:
    PrefixIndex("contacts").rebuild([Entry(1, "Anna"), Entry(2, "Anton", weight=5)])
    register("contacts", permission=anybody)

    assert [row["id"] for row in client.get(URL, {"term": "an"}).json()["results"]] == ["2", "1"]

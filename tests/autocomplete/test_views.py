"""The JSON view: the format of the admin, permissions, and the response while Redis is unavailable."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import AsyncRequestFactory, Client, RequestFactory
from django.urls import reverse
from django.utils.translation import override

from django_redis_components.autocomplete import Entry, ModelIndex, PrefixIndex, RecentList, register
from django_redis_components.autocomplete.registry import sign_scope
from django_redis_components.autocomplete.views import aautocomplete, autocomplete
from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.ratelimits import rate_limit
from tests.conftest import components_settings
from tests.support import Proxy, Store, run_async

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


def test_url_of_the_view_is_the_url_of_the_widget() -> None:
    assert reverse("django_redis_components:autocomplete", args=["contacts"]) == URL


def test_response_has_the_format_of_the_admin(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody)

    response = client.get(URL, {"term": "AN"})

    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    assert response.json() == {
        "results": [{"id": "1", "text": "Anna", "match": [0, 2]}, {"id": "2", "text": "Anton", "match": [0, 2]}],
        "pagination": {"more": False},
        "status": "2 suggestions",
    }


@pytest.mark.parametrize(
    ("term", "status"), [("an", "2 suggestions"), ("émi", "1 suggestion"), ("x", "No suggestions")]
)
def test_status_contains_the_number_of_suggestions(client: Client, index: PrefixIndex, term: str, status: str) -> None:
    register("contacts", permission=anybody)

    assert client.get(URL, {"term": term}).json()["status"] == status


def test_recents_carry_their_group(client: Client, index: PrefixIndex) -> None:
    recents = RecentList("user:7")
    recents.touch(2)
    register("contacts", permission=anybody, recents=lambda request: recents)

    results = client.get(URL, {"term": "an"}).json()["results"]

    assert results == [
        {"id": "2", "text": "Anton", "group": "recent", "match": [0, 2]},
        {"id": "1", "text": "Anna", "match": [0, 2]},
    ]


def test_empty_term_shows_recents_only(client: Client, index: PrefixIndex) -> None:
    recents = RecentList("user:7")
    for id_ in (99, 3, 4):
        recents.touch(id_)
    register("contacts", permission=anybody, recents=lambda request: recents)

    answer = client.get(URL).json()

    assert [row["text"] for row in answer["results"]] == ["张三", "Émile"]
    assert answer["pagination"] == {"more": False}


@pytest.mark.parametrize("term", ["", " ", "\u200b"])
def test_empty_term_without_recents_shows_nothing(client: Client, index: PrefixIndex, term: str) -> None:
    register("contacts", permission=anybody, recents=lambda request: None)

    assert client.get(URL, {"term": term}).json()["results"] == []


def test_term_below_the_minimum_length_returns_nothing(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody, min_length=3)

    assert client.get(URL, {"term": "an"}).json()["results"] == []
    assert len(client.get(URL, {"term": "ann"}).json()["results"]) == 1


def test_minimum_length_zero_returns_everything(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody, min_length=0)

    assert len(client.get(URL).json()["results"]) == 4


def test_minimum_length_and_limit_default_to_the_settings(
    client: Client, index: PrefixIndex, redis_server: Store, settings: Any
) -> None:
    settings.REDIS_COMPONENTS = components_settings(redis_server) | {"AUTOCOMPLETE": {"LIMIT": 1, "MIN_LENGTH": 2}}
    register("contacts", permission=anybody)

    assert client.get(URL, {"term": "a"}).json()["results"] == []
    assert client.get(URL, {"term": "an"}).json()["results"] == [{"id": "1", "text": "Anna", "match": [0, 2]}]


def test_pages_follow_each_other_without_gap_or_repetition(client: Client, redis_server: Store) -> None:
    PrefixIndex("contacts").rebuild((n, f"Name {n:02d} Nab") for n in range(25))
    register("contacts", permission=anybody, limit=10)

    pages = [client.get(URL, {"term": "na", "page": str(page)}).json() for page in (1, 2, 3)]

    assert [page["pagination"]["more"] for page in pages] == [True, True, False]
    assert sorted(int(row["id"]) for page in pages for row in page["results"]) == list(range(25))


def test_last_page_reports_no_further_page(client: Client, redis_server: Store) -> None:
    PrefixIndex("contacts").rebuild((n, f"Name {n:02d}") for n in range(25))
    register("contacts", permission=anybody, limit=1)

    assert client.get(URL, {"term": "na", "page": "10"}).json()["pagination"] == {"more": False}


@pytest.mark.parametrize("page", ["0", "11", "-1", "x", "", "1e1", "²", "9" * 5000])
def test_unknown_page_is_rejected(client: Client, index: PrefixIndex, page: str) -> None:
    register("contacts", permission=anybody)

    response = client.get(URL, {"term": "an", "page": page})

    assert (response.status_code, response.json()) == (400, {"error": "Page not found."})


@pytest.mark.parametrize("term", ["An\x00na", "a\nb", "tab\there", "A\x7f"])
def test_term_with_control_characters_is_rejected(client: Client, index: PrefixIndex, term: str) -> None:
    register("contacts", permission=anybody)

    response = client.get(URL, {"term": term})

    assert (response.status_code, response.json()) == (400, {"error": "The text has invalid characters."})


def test_too_long_term_is_rejected(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody)

    response = client.get(URL, {"term": "x" * 101})

    assert (response.status_code, response.json()) == (400, {"error": "Enter at most 100 characters."})
    assert client.get(URL, {"term": "x" * 100}).status_code == 200


def test_unregistered_index_returns_404(client: Client, index: PrefixIndex) -> None:
    response = client.get(URL, {"term": "an"})

    assert (response.status_code, response.json()) == (404, {"error": "Index not found."})


def test_anonymous_users_are_rejected_by_default(client: Client, index: PrefixIndex) -> None:
    register("contacts")

    response = client.get(URL, {"term": "an"})

    assert (response.status_code, response.json()) == (
        403,
        {"error": "You do not have permission to view these suggestions."},
    )


@pytest.mark.django_db
def test_signed_in_users_are_permitted_by_default(client: Client, index: PrefixIndex) -> None:
    register("contacts")
    client.force_login(User.objects.create_user("anna"))

    assert client.get(URL, {"term": "an"}).status_code == 200


def test_permission_is_checked_before_redis_is_queried(client: Client) -> None:
    """No server runs in this test: an answer of 503 would mean that Redis was asked."""
    register("contacts", permission=lambda request, scope: False)

    assert client.get(URL, {"term": "an"}).status_code == 403


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_unsafe_methods_are_rejected(client: Client, index: PrefixIndex, method: str) -> None:
    register("contacts", permission=anybody)

    assert getattr(client, method)(URL).status_code == 405


@pytest.mark.parametrize("permission", [True, False])
def test_shared_caches_may_not_store_responses(client: Client, index: PrefixIndex, permission: bool) -> None:
    register("contacts", permission=lambda request, scope: permission)

    response = client.get(URL, {"term": "an"})

    assert {"private", "max-age=0"} <= set(response["Cache-Control"].split(", "))
    assert {"Cookie", "Accept-Language"} <= set(response["Vary"].split(", "))


def test_signed_scope_selects_the_index(client: Client, redis_server: Store) -> None:
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
def test_missing_or_modified_scope_is_rejected(client: Client, redis_server: Store, scope: str) -> None:
    register("guild", scoped=True, permission=anybody)

    assert client.get("/redis/autocomplete/guild/", {"term": "an", "scope": scope}).status_code == 403


def test_scope_signed_for_another_index_is_rejected(client: Client, redis_server: Store) -> None:
    register("guild", scoped=True, permission=anybody)
    register("tenant", scoped=True, permission=anybody)

    response = client.get("/redis/autocomplete/guild/", {"term": "an", "scope": sign_scope("tenant", 7)})

    assert response.status_code == 403


def test_request_scope_overrides_the_scope_parameter(client: Client, redis_server: Store) -> None:
    PrefixIndex("tenant:mine").add(1, "Anna")
    PrefixIndex("tenant:theirs").add(2, "Anton")
    register("tenant", scope_for=lambda request: "mine", permission=anybody)

    response = client.get("/redis/autocomplete/tenant/", {"term": "an", "scope": sign_scope("tenant", "theirs")})

    assert [row["text"] for row in response.json()["results"]] == ["Anna"]


def test_request_without_a_scope_is_rejected(client: Client, redis_server: Store) -> None:
    register("tenant", scope_for=lambda request: "", permission=anybody)

    assert client.get("/redis/autocomplete/tenant/", {"term": "an"}).status_code == 403


def test_index_without_scopes_ignores_the_scope_parameter(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody)

    assert client.get(URL, {"term": "ann", "scope": "anything"}).status_code == 200


def test_response_is_503_during_an_outage(client: Client, proxy: Proxy, caplog: pytest.LogCaptureFixture) -> None:
    register("contacts", permission=anybody, using="proxied")
    PrefixIndex("contacts").add(1, "Anna")
    proxy.stop_accepting()
    proxy.cut()

    response = client.get(URL, {"term": "an"})

    assert response.status_code == 503
    assert response.json() == {"error": "Suggestions are not available at the moment."}
    assert response["Retry-After"] == "5"
    assert "private" in response["Cache-Control"]
    assert "Autocomplete of index 'contacts' fails: " in caplog.text

    proxy.accept_again()
    breaker_for("proxied").reset()  # five seconds later
    assert client.get(URL, {"term": "an"}).status_code == 200


def test_text_from_the_index_is_not_html_in_the_response(client: Client, redis_server: Store) -> None:
    PrefixIndex("contacts").add(1, "<script>alert(1)</script>")
    register("contacts", permission=anybody)

    response = client.get(URL, {"term": "<scr"})

    assert response["Content-Type"] == "application/json"
    assert response.json()["results"][0]["text"] == "<script>alert(1)</script>"


def test_status_is_in_the_language_of_the_reader(client: Client, index: PrefixIndex) -> None:
    register("contacts", permission=anybody)

    with override("zh-hans"):
        response = client.get(URL, {"term": "an"}, headers={"Accept-Language": "zh-hans"})

    assert response.json()["status"] == "2 条建议"


def test_weights_order_the_response(client: Client, redis_server: Store) -> None:
    PrefixIndex("contacts").rebuild([Entry(1, "Anna"), Entry(2, "Anton", weight=5)])
    register("contacts", permission=anybody)

    assert [row["id"] for row in client.get(URL, {"term": "an"}).json()["results"]] == ["2", "1"]


@pytest.mark.contract
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_async_view_responds_like_the_sync_one(store: Store, method: str) -> None:
    recents = RecentList("user:7")
    index = PrefixIndex("contacts")
    for id_, text in enumerate(["Anna", "Anton", "Émile", "张三"], 1):
        index.add(id_, text)
    recents.touch(2)
    register("contacts", permission=anybody, recents=lambda request: recents, limit=1)
    register("closed", permission=lambda request, scope: False)
    register("guild", permission=anybody, scoped=True)
    PrefixIndex("guild:7").add(1, "Anna")
    queries = [
        ("contacts", {"term": "an"}),
        ("contacts", {"term": "an", "page": "2"}),
        ("contacts", {"term": "an", "page": "11"}),
        ("contacts", {}),
        ("contacts", {"term": "x" * 10_000}),
        ("contacts", {"term": "a\x00\n"}),
        ("closed", {"term": "an"}),
        ("unknown", {"term": "an"}),
        ("guild", {"term": "an", "scope": sign_scope("guild", 7)}),
        ("guild", {"term": "an", "scope": sign_scope("other", 7)}),
        ("guild", {"term": "an", "scope": "7"}),
    ]

    for name, query in queries:
        expected = autocomplete(RequestFactory().generic(method, f"/?{urlencode(query)}"), name)
        request = AsyncRequestFactory().generic(method, f"/?{urlencode(query)}")
        found = run_async(aautocomplete, request, name)
        assert found.status_code == expected.status_code, (name, query)
        if method != "POST":
            assert found.content == expected.content
            assert found.headers == expected.headers


def test_async_view_reports_that_redis_is_unavailable(index: PrefixIndex, settings: Any) -> None:
    register("contacts", permission=anybody)
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {
        "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}
    }

    response = run_async(aautocomplete, AsyncRequestFactory().get("/?term=an"), "contacts")

    assert (response.status_code, response["Retry-After"]) == (503, "5")


@pytest.mark.parametrize("typos", [True, False])
def test_view_corrects_a_typo_if_the_index_does(redis_server: Store, rf: RequestFactory, typos: bool) -> None:
    index = register("contacts", permission=anybody, typos=typos).index()
    index.add(1, "Meyer")
    index.add(2, "Mayer")
    asked = rf.get(URL, {"term": "meyer"})
    in_async = AsyncRequestFactory().get(URL, {"term": "meyer"})

    answers = [autocomplete(asked, "contacts"), run_async(lambda: aautocomplete(in_async, "contacts"))]

    for answer in answers:
        shown = [(row["text"], row.get("match")) for row in json.loads(answer.content)["results"]]
        assert shown == [("Meyer", [0, 5]), *([("Mayer", None)] if typos else [])]


def test_index_of_a_model_declares_whether_typos_are_corrected() -> None:
    class Users(ModelIndex):
        model = User
        typos = True

    assert (Users().typos, Users(typos=False).typos) == (True, False)
    with pytest.raises(TypeError, match="typos"):
        register("contacts", typos=1)


def test_views_can_be_limited(redis_server: Store, rf: RequestFactory) -> None:
    register("contacts", permission=anybody)
    limited = rate_limit("2/m", key="ip", name="suggestions")(autocomplete)
    in_async = rate_limit("2/m", key="ip", name="suggestions")(aautocomplete)

    answers = [limited(rf.get(URL, {"term": "a"}), "contacts") for _ in range(2)]
    refused = limited(rf.get(URL, {"term": "a"}), "contacts")
    later = run_async(lambda: in_async(AsyncRequestFactory().get(URL, {"term": "a"}), "contacts"))

    assert [answer.status_code for answer in answers] == [200, 200]
    assert (refused.status_code, later.status_code) == (429, 429)
    assert int(refused["Retry-After"]) > 0

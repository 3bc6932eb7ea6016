"""The JSON views and the event stream: permission by membership, ETag, long poll."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.test import Client, RequestFactory
from django.urls import reverse

from django_redis_components.core.circuit_breaker import forget_failures
from django_redis_components.messaging import Chat, views
from django_redis_components.messaging.subscriber import stop_all
from tests.conftest import components_settings
from tests.messaging.requests import FakeUser, request
from tests.messaging.waiters import subscriptions
from tests.support import Store, eventually, run_async

pytestmark = [pytest.mark.django_db, pytest.mark.integration]


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    yield
    stop_all()


@pytest.fixture
def user(client: Client) -> User:
    user = User.objects.create_user("nora")
    client.force_login(user)
    return user


@pytest.fixture
def chat(redis_server: Store, user: User) -> Chat:
    return Chat.create("other", [user.pk], "hi", chat_id="room")


def url(view: str, *args: str) -> str:
    return reverse(f"django_redis_components:{view}", args=args)


def post(client: Client, view: str, data: Any) -> Any:
    return client.post(url(view, "room"), json.dumps(data), content_type="application/json")


def test_older_messages_are_fetched_before_an_id(client: Client, chat: Chat) -> None:
    for number in range(2, 6):
        chat.send("other", number)

    pages = [client.get(url("chat_messages", "room"), {"before": before, "limit": 2}) for before in (6, 4, 2, 1)]
    refused = client.get(url("chat_messages", "room"), {"before": 0})

    assert [[row["id"] for row in page.json()["messages"]] for page in pages] == [[4, 5], [2, 3], [1], []]
    assert "ETag" not in pages[0]
    assert (refused.status_code, refused.json()["error"][:6]) == (400, "before")


def test_messages_are_fetched_sent_and_acknowledged(client: Client, chat: Chat, user: User) -> None:
    sent = post(client, "chat_messages", {"body": {"text": "hello"}, "key": "k"})
    again = post(client, "chat_messages", {"body": {"text": "hello"}, "key": "k"})
    fetched = client.get(url("chat_messages", "room"), {"after": 0, "limit": 10})
    acknowledged = post(client, "chat_ack", {"id": 2})

    assert [(each.status_code, each.json()) for each in (sent, again)] == [(201, {"id": 2})] * 2
    data = fetched.json()
    rows = [(row["id"], row["sender"], row["body"], row["edited_at"]) for row in data.pop("messages")]
    assert rows == [(1, "other", "hi", None), (2, str(user.pk), {"text": "hello"}, None)]
    epoch = chat.fetch(user.pk).epoch
    assert data == {"is_truncated": False, "last_id": 2, "last_seen": 0, "revision": 0, "epoch": epoch, "is_cut": False}
    assert acknowledged.json() == {"unread": 0, "last_seen": 2}
    for response in (sent, fetched, acknowledged):
        assert {"private", "no-cache"} <= set(response["Cache-Control"].split(", "))
        assert "Cookie" in response["Vary"]


def test_unchanged_chat_is_304_until_a_message_an_ack_or_an_edit(client: Client, chat: Chat, user: User) -> None:
    def status(etag: str) -> tuple[int, str]:
        response = client.get(url("chat_messages", "room"), HTTP_IF_NONE_MATCH=etag)
        return response.status_code, response["ETag"]

    code, etag = status("")
    assert (code, status(etag)) == (200, (304, etag))
    for change in (
        lambda: chat.send("other", 2),
        lambda: chat.ack(user.pk, 1),
        lambda: chat.edit_message("other", 1, "x"),
    ):
        change()
        code, changed = status(etag)
        assert (code, changed != etag) == (200, True)
        etag = changed


def test_a_poll_with_the_etag_of_a_response_that_the_limit_cut_returns_the_rest(
    client: Client, chat: Chat, user: User
) -> None:
    chat.send("other", 2)
    chat.send("other", 3)
    chat.ack(user.pk, 3)  # another device of the user

    def poll(after: int, etag: str) -> tuple[int, list[int], str]:
        query = {"after": after, "limit": 2}
        response = client.get(url("chat_messages", "room"), query, HTTP_IF_NONE_MATCH=etag)
        rows = response.json()["messages"] if response.status_code == 200 else []
        return response.status_code, [row["id"] for row in rows], response["ETag"]

    *first, cut = poll(0, "")
    *second, complete = poll(2, cut)
    *third, _ = poll(3, complete)

    assert (first, second, third) == ([200, [1, 2]], [200, [3]], [304, []])


def test_a_chat_that_was_created_again_has_another_etag(client: Client, chat: Chat) -> None:
    etag = client.get(url("chat_messages", "room"))["ETag"]
    members = list(chat.members())
    chat.delete()
    Chat.create("other", members, "another chat", chat_id="room")

    response = client.get(url("chat_messages", "room"), HTTP_IF_NONE_MATCH=etag)

    assert [row["body"] for row in response.json()["messages"]] == ["another chat"]


def test_unread_counts_have_an_etag(client: Client, chat: Chat) -> None:
    response = client.get(url("unread"))

    assert response.json() == {"chats": {"room": 1}, "total": 1}
    assert client.get(url("unread"), HTTP_IF_NONE_MATCH=response["ETag"]).status_code == 304
    assert client.get(url("unread"), HTTP_IF_NONE_MATCH=f"W/{response['ETag']}").status_code == 304


def test_only_members_who_are_signed_in_may_use_a_chat(client: Client, chat: Chat) -> None:
    client.force_login(User.objects.create_user("stranger"))
    strange = [
        client.get(url("chat_messages", "room")),
        client.get(url("chat_messages", "missing")),
        post(client, "chat_messages", {"body": 1}),
        post(client, "chat_ack", {"id": 1}),
    ]
    client.logout()
    anonymous = [client.get(url("chat_messages", "room")), client.get(url("unread")), post(client, "chat_ack", {})]

    assert {(each.status_code, each.json()["error"]) for each in strange} == {
        (403, "You are not a member of this chat.")
    }
    assert {(each.status_code, each.json()["error"]) for each in anonymous} == {(401, "Sign in to read messages.")}
    assert chat.unread("other") == 1


class UserOfTextKey(FakeUser):
    """A user whose primary key no member of a chat can have."""

    pk = "a{b}"  # type: ignore[assignment]


@pytest.mark.parametrize("view", [views.aunread, views.achat_messages, views.chat_events])
def test_user_whose_key_no_member_can_have_is_refused(redis_server: Store, rf: RequestFactory, view: Any) -> None:
    sync = rf.get("/")
    sync.user = UserOfTextKey()
    args = () if view is views.aunread else ("room",)

    async def answers() -> list[Any]:
        return [await view(request(user=UserOfTextKey()), *args), views.unread(sync)]

    for response in run_async(answers):
        assert response.status_code == 400
        assert "braces are not accepted" in json.loads(response.content)["error"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"after": "-1"}, "after: expected an integer from 0 to 9007199254740991."),
        ({"after": "x"}, "after: expected an integer"),
        ({"limit": "0"}, "limit: expected an integer from 1 to 1000."),
        ({"wait": "26"}, "wait: expected an integer from 0 to 25."),
    ],
)
def test_invalid_queries_are_refused(client: Client, chat: Chat, query: dict[str, str], text: str) -> None:
    response = client.get(url("chat_messages", "room"), query)

    assert (response.status_code, text in response.json()["error"]) == (400, True)


class AbortedUpload(io.BytesIO):
    """The stream of a client that has disconnected."""

    def read(self, *_: object) -> bytes:
        raise OSError("request data read error")


def test_upload_that_the_client_aborts_is_no_server_error(user: User, redis_server: Store) -> None:
    aborted = RequestFactory().generic("POST", "/", b"{}", **{"wsgi.input": AbortedUpload()})
    aborted.user = user

    response = views.chat_messages(aborted, "room")

    assert response.status_code == 400
    assert json.loads(response.content) == {"error": "The request is not a JSON object."}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([], "The request is not a JSON object."),
        ({}, "The request has no body."),
        ({"body": "x", "key": 3}, "key 3: expected a string"),
        ({"body": "x" * 70_000}, "expected at most 65,536"),
        ({"body": "\ud800"}, "body has a lone surrogate: expected text that UTF-8 can encode"),
        ({"body": {"\udfff": 1}}, "body has a lone surrogate"),
        ({"body": "x", "key": "\ud800"}, "key '\\ud800': expected text that UTF-8 can encode."),
    ],
)
def test_invalid_messages_are_refused(client: Client, chat: Chat, data: Any, text: str) -> None:
    response = post(client, "chat_messages", data)

    assert (response.status_code, text in response.json()["error"]) == (400, True)
    assert post(client, "chat_ack", {"id": "x"}).status_code == 400
    assert client.put(url("chat_messages", "room")).status_code == 405


def test_without_redis_the_answer_is_503(client: Client, chat: Chat, redis_server: Store, settings: Any) -> None:
    broken = components_settings(redis_server) | {
        "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1", "RETRIES": 0}}
    }
    settings.REDIS_COMPONENTS = broken

    for response in (client.get(url("chat_messages", "room")), client.get(url("unread"))):
        assert (response.status_code, response["Retry-After"]) == (503, "5")


def test_async_views_answer_like_the_sync_ones(redis_server: Store) -> None:
    Chat.create("other", [7], "hi", chat_id="room")

    async def scene() -> list[Any]:
        sent = await views.achat_messages(request(method="POST", data=b'{"body": 1}'), "room")
        fetched = await views.achat_messages(request("/?after=1"), "room")
        known = await views.achat_messages(request(headers={"If-None-Match": fetched["ETag"]}), "room")
        acknowledged = await views.achat_ack(request(method="POST", data=b'{"id": 2}'), "room")
        counts = await views.aunread(request())
        refused = [
            await views.achat_messages(request(user=AnonymousUser()), "room"),
            await views.achat_messages(request(), "missing"),
            await views.achat_ack(request(), "room"),
            await views.chat_events(request(), "missing"),
        ]
        bodies = [json.loads(each.content) for each in (sent, fetched, acknowledged, counts)]
        return [*bodies, known.status_code, [each.status_code for each in refused]]

    sent, fetched, acknowledged, counts, known, refused = run_async(scene)

    assert (sent, [row["body"] for row in fetched["messages"]]) == ({"id": 2}, [1])
    assert (acknowledged, counts) == ({"unread": 0, "last_seen": 2}, {"chats": {"room": 0}, "total": 0})
    assert (known, refused) == (304, [401, 403, 405, 403])


def test_long_poll_is_answered_by_the_next_message(redis_server: Store) -> None:
    chat = Chat.create("other", [7], "hi", chat_id="room")

    async def scene() -> Any:
        polling = asyncio.ensure_future(views.achat_messages(request("/?after=1&wait=25"), "room"))
        await asyncio.sleep(0)
        await chat.asend("other", "new")
        return json.loads((await polling).content)

    assert [row["body"] for row in run_async(scene)["messages"]] == ["new"]


CHANGES: dict[str, Callable[[Chat], None]] = {
    "edit": lambda chat: chat.edit_message("other", 1, "edited"),
    "deletion": lambda chat: chat.delete_message("other", 1),
}


@pytest.mark.parametrize("is_known", [True, False], ids=["etag", "first poll"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_long_poll_is_answered_by_a_change_of_a_message(
    redis_server: Store, change: Callable[[Chat], None], is_known: bool
) -> None:
    chat = Chat.create("other", [7], "hi", chat_id="room")

    async def scene() -> Any:
        etag = (await views.achat_messages(request("/?after=1"), "room"))["ETag"]
        headers = {"If-None-Match": etag} if is_known else {}
        polling = asyncio.ensure_future(views.achat_messages(request("/?after=1&wait=25", headers=headers), "room"))
        await asyncio.to_thread(eventually, lambda: subscriptions(redis_server) == 1)
        await asyncio.to_thread(change, chat)
        async with asyncio.timeout(views.MAX_WAIT_S / 2):
            response = await polling
        return response.status_code, response["ETag"] == etag, json.loads(response.content)

    status, is_same_etag, data = run_async(scene)

    assert (status, is_same_etag, data["messages"], data["revision"]) == (200, False, [], 1)


@pytest.mark.parametrize("knows_by", ["etag", "query"])
def test_long_poll_of_a_client_that_missed_a_change_is_answered_at_once(
    client: Client, chat: Chat, knows_by: str
) -> None:
    etag = client.get(url("chat_messages", "room"), {"after": 1})["ETag"]
    chat.edit_message("other", 1, "edited")
    query = {"after": 1, "wait": 25} | ({"revision": 0} if knows_by == "query" else {})

    started_at = time.monotonic()
    response = client.get(url("chat_messages", "room"), query, HTTP_IF_NONE_MATCH=etag if knows_by == "etag" else "")

    assert (response.status_code, response.json()["revision"]) == (200, 1)
    assert time.monotonic() - started_at < views.MAX_WAIT_S / 2


def test_long_poll_with_the_cursor_of_a_former_chat_is_answered_at_once(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    Chat.create("other", [7], "hi", chat_id="room")
    monkeypatch.setattr("django_redis_components.messaging.chat.wait_until", None)  # a call raises

    async def scene() -> Any:
        return json.loads((await views.achat_messages(request("/?after=9&wait=25"), "room")).content)

    fetched = run_async(scene)

    assert ([row["body"] for row in fetched["messages"]], fetched["is_truncated"]) == (["hi"], True)


def test_event_stream_under_wsgi_is_501_with_one_warning_and_no_mail(
    client: Client, chat: Chat, caplog: pytest.LogCaptureFixture, mailoutbox: list[Any], settings: Any
) -> None:
    settings.ADMINS = [("Ada", "ada@example.test")]
    forget_failures()

    responses = [client.get(url("chat_events", "room")) for _ in range(3)]

    assert [(one.status_code, one.json()["error"]) for one in responses] == [(501, "Event streams need ASGI.")] * 3
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"{url('chat_events', 'room')} is answered with 501: event streams need ASGI, and this server is WSGI."
    ]
    assert mailoutbox == []

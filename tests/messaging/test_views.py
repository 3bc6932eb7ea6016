"""The JSON views and the event stream: permission by membership, ETag, long poll."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.test import AsyncRequestFactory, Client
from django.urls import reverse

from django_redis_components.messaging import Chat, views
from django_redis_components.messaging.subscriber import stop_all
from tests.conftest import components_settings
from tests.support import Store, run_async
from tests.support.waiting import TIMEOUT_S

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
    return Chat.create("other", [user.pk], "hi", "room")


def url(view: str, *args: str) -> str:
    return reverse(f"django_redis_components:{view}", args=args)


def post(client: Client, view: str, data: Any) -> Any:
    return client.post(url(view, "room"), json.dumps(data), content_type="application/json")


def test_messages_are_fetched_sent_and_acknowledged(client: Client, chat: Chat, user: User) -> None:
    sent = post(client, "chat_messages", {"body": {"text": "hello"}, "key": "k"})
    again = post(client, "chat_messages", {"body": {"text": "hello"}, "key": "k"})
    fetched = client.get(url("chat_messages", "room"), {"after": 0, "limit": 10})
    acknowledged = post(client, "chat_ack", {"id": 2})

    assert [(each.status_code, each.json()) for each in (sent, again)] == [(201, {"id": 2})] * 2
    data = fetched.json()
    rows = [(row["id"], row["sender"], row["body"], row["edited_at"]) for row in data.pop("messages")]
    assert rows == [(1, "other", "hi", None), (2, str(user.pk), {"text": "hello"}, None)]
    assert data == {"truncated": False, "last_id": 2, "last_seen": 0, "revision": 0}
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
    Chat.create("other", members, "another chat", "room")

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


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([], "The request is not a JSON object."),
        ({}, "The request has no body."),
        ({"body": "x", "key": 3}, "key 3: expected a string"),
        ({"body": "x" * 70_000}, "expected at most 65,536"),
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


class FakeUser(AnonymousUser):
    """A user who is signed in, without a database."""

    is_authenticated = True  # type: ignore[assignment]
    pk = 7


def request(path: str = "/", user: Any = None, **options: Any) -> Any:
    made = AsyncRequestFactory().generic(options.pop("method", "GET"), path, **options)

    async def auser() -> Any:
        return user or FakeUser()

    made.auser = auser
    return made


def test_async_views_answer_like_the_sync_ones(redis_server: Store) -> None:
    Chat.create("other", [7], "hi", "room")

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
    chat = Chat.create("other", [7], "hi", "room")

    async def scene() -> Any:
        polling = asyncio.ensure_future(views.achat_messages(request("/?after=1&wait=25"), "room"))
        await asyncio.sleep(0)
        await chat.asend("other", "new")
        return json.loads((await polling).content)

    assert [row["body"] for row in run_async(scene)["messages"]] == ["new"]


def test_event_stream_sends_messages_until_the_user_is_no_member(redis_server: Store) -> None:
    chat = Chat.create("other", [7], {"text": "hi\n"}, "room")

    async def scene() -> tuple[Any, list[str]]:
        response = await views.chat_events(request("/?after=0"), "room")
        events: list[str] = []
        async with asyncio.timeout(TIMEOUT_S):
            async for chunk in response.streaming_content:  # type: ignore[attr-defined]
                events.append(chunk.decode())
                if len(events) == 1:
                    await chat.asend("other", "new")
                elif len(events) == 2:
                    await chat.aleave(7)
        return response, events

    response, events = run_async(scene, timeout_s=TIMEOUT_S)

    assert response["Content-Type"] == "text/event-stream"
    assert {"private", "no-cache"} <= set(response["Cache-Control"].split(", "))
    assert [event.splitlines()[:2] for event in events[:2]] == [
        ["id: 1", "event: message"],
        ["id: 2", "event: message"],
    ]
    assert json.loads(events[0].splitlines()[2].removeprefix("data: "))["body"] == {"text": "hi\n"}
    assert events[2:] == ["event: closed\ndata: {}\n\n"]


def test_event_stream_continues_after_the_last_event(redis_server: Store) -> None:
    chat = Chat.create("other", [7], 1, "room")
    chat.send("other", 2)

    async def scene() -> str:
        response = await views.chat_events(request(headers={"Last-Event-ID": "1"}), "room")
        stream = aiter(response.streaming_content)  # type: ignore[attr-defined]
        first = (await anext(stream)).decode()
        await stream.aclose()
        return str(first)

    assert run_async(scene).startswith("id: 2\n")


def test_silent_event_stream_asks_nothing(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "KEEP_ALIVE_S", 0.05)
    chat = Chat.create("other", [7], "hi", "room")

    def commands() -> int:
        return int(redis_server.raw.info("stats")["total_commands_processed"])

    async def scene() -> tuple[list[bytes], int, bytes]:
        response = await views.chat_events(request("/?after=1"), "room")
        stream = aiter(response.streaming_content)  # type: ignore[attr-defined]
        async with asyncio.timeout(TIMEOUT_S):
            comments = [await anext(stream) for _ in range(10)]
            before = commands()
            comments += [await anext(stream) for _ in range(10)]
            sent = commands() - before - 1
            await chat.asend("other", "new")
            while (event := await anext(stream)) in comments:
                pass
        await stream.aclose()
        return comments, sent, event

    comments, sent, event = run_async(scene, timeout_s=TIMEOUT_S)

    assert set(comments) == {b": keep-alive\n\n"}
    assert sent == 0
    assert event.startswith(b"id: 2\n")


def test_event_stream_needs_asgi(client: Client, chat: Chat) -> None:
    response = client.get(url("chat_events", "room"))

    assert (response.status_code, response.json()["error"]) == (501, "Event streams need ASGI.")

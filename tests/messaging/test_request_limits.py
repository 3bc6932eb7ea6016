"""Limits of one member: messages per minute and open requests. Streams that are not read; requests not accepted."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.asgi import get_asgi_application
from django.test import Client, RequestFactory
from django.urls import reverse

from django_redis_components.messaging import Chat, event_stream, views
from django_redis_components.messaging.request_limits import OpenRequest, TooManyRequests
from django_redis_components.messaging.subscriber import stop_all
from tests.conftest import components_settings
from tests.messaging.requests import AsgiRequest, FakeUser, request
from tests.messaging.waiters import Waiter, subscriptions
from tests.support import Store, eventually, run_async
from tests.support.waiting import TIMEOUT_S

pytestmark = pytest.mark.integration

PATH = "/redis/chats/room/events/"
TOO_MANY = {"error": "Too many requests. Try again in 5 seconds."}


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    yield
    stop_all()
    assert not has_open_request()


@pytest.fixture
def asgi(settings: Any) -> None:
    settings.MIDDLEWARE = ["tests.messaging.requests.SignedInMiddleware"]


@pytest.fixture
def chat(redis_server: Store) -> Chat:
    return Chat.create("other", [7], "hi", chat_id="room")


def has_open_request() -> bool:
    """Return whether the user has an open request in this process."""
    try:
        OpenRequest("7", most=1).close()
    except TooManyRequests:
        return True
    return False


def limit(settings: Any, store: Store, **options: Any) -> None:
    settings.REDIS_COMPONENTS = components_settings(store) | {"MESSAGING": options}


def send(number: int, method: str = "POST") -> Any:
    made = RequestFactory().generic(method, "/", json.dumps({"body": number}), content_type="application/json")
    made.user = FakeUser()
    return made


def test_a_member_who_sends_too_fast_gets_429_with_retry_after(redis_server: Store, settings: Any, chat: Chat) -> None:
    limit(settings, redis_server, SEND_RATES=["3/h"])
    Chat.create("other", [7], "hi", chat_id="second room")

    responses = [views.chat_messages(send(number), room) for number, room in enumerate(["room", "second room"] * 2)]

    assert [response.status_code for response in responses] == [201, 201, 201, 429]
    seconds = int(responses[-1]["Retry-After"])
    assert 1_000 < seconds <= 1_200
    assert json.loads(responses[-1].content) == {"error": f"Too many requests. Try again in {seconds} seconds."}
    assert "private" in responses[-1]["Cache-Control"]
    assert chat.info("7").last_id == 3
    assert views.chat_messages(send(0, "GET"), "room").status_code == 200
    assert chat.send(7, "the site itself is not limited") == 4


def test_async_sends_have_the_same_limit(redis_server: Store, settings: Any, chat: Chat) -> None:
    limit(settings, redis_server, SEND_RATES=["1/h"])

    async def scene() -> list[int]:
        sent = [await views.achat_messages(request(method="POST", data=b'{"body": 1}'), "room") for _ in range(2)]
        return [response.status_code for response in sent]

    assert run_async(scene) == [201, 429]


def test_sixty_messages_a_minute_are_the_default(redis_server: Store, chat: Chat) -> None:
    statuses = [views.chat_messages(send(number), "room").status_code for number in range(70)]

    assert statuses[:60] == [201] * 60
    assert statuses[-1] == 429


def test_without_rates_sends_are_not_limited(redis_server: Store, settings: Any, chat: Chat) -> None:
    limit(settings, redis_server, SEND_RATES=())

    assert {views.chat_messages(send(number), "room").status_code for number in range(70)} == {201}


def test_a_user_has_a_limited_number_of_event_streams(
    redis_server: Store, settings: Any, asgi: None, chat: Chat
) -> None:
    limit(settings, redis_server, MAX_STREAMS=2)

    async def scene() -> tuple[int, str, Any, int]:
        async with AsgiRequest(PATH, "after=0") as one, AsgiRequest(PATH, "after=0") as two:
            await one.event()
            await two.event()
            async with AsgiRequest(PATH) as three:
                refused = three.status, three.headers["retry-after"], json.loads(await three.event())
        async with AsgiRequest(PATH, "after=0") as four:
            return *refused, four.status

    assert run_async(scene) == (429, "5", TOO_MANY, 200)


def test_a_stream_that_is_never_started_counts_no_more_after_its_response(redis_server: Store, chat: Chat) -> None:
    async def scene() -> list[bool]:
        response = await views.chat_events(request(), "room")
        before = has_open_request()
        response.close()
        return [before, has_open_request()]

    assert run_async(scene) == [True, False]


def test_a_user_has_a_limited_number_of_long_polls(redis_server: Store, settings: Any, chat: Chat) -> None:
    limit(settings, redis_server, MAX_LONG_POLLS=1)

    def poll(wait: int) -> Any:
        made = RequestFactory().get("/", {"after": 1, "wait": wait})
        made.user = FakeUser()
        return views.chat_messages(made, "room")

    waiter = Waiter(lambda: poll(25).status_code)
    eventually(lambda: subscriptions(redis_server) == 1)
    refused = poll(25)
    at_once = poll(0)
    chat.send("other", "end")

    assert (refused.status_code, refused["Retry-After"], json.loads(refused.content)) == (429, "5", TOO_MANY)
    assert (at_once.status_code, waiter.outcome(), poll(1).status_code) == (200, 200, 200)


def test_async_long_polls_count_as_streams(redis_server: Store, settings: Any, chat: Chat) -> None:
    limit(settings, redis_server, MAX_STREAMS=1)

    async def scene() -> tuple[int, int]:
        poll = asyncio.ensure_future(views.achat_messages(request("/?after=1&wait=25"), "room"))
        await asyncio.to_thread(eventually, lambda: subscriptions(redis_server) == 1)
        refused = await views.achat_messages(request("/?after=1&wait=25"), "room")
        await chat.asend("other", "end")
        return (await poll).status_code, refused.status_code

    assert run_async(scene) == (200, 429)


class Connection:
    """A connection whose client reads some parts of the response, and then nothing more."""

    def __init__(self, parts: int) -> None:
        self._parts = parts
        self.received: list[dict[str, Any]] = []

    async def send(self, message: dict[str, Any]) -> None:
        if len(self.received) == self._parts:
            await asyncio.Event().wait()  # the server's buffers are full
        self.received.append(message)


@pytest.mark.parametrize("messages", [2, 3])
def test_a_stream_that_its_client_does_not_read_ends(
    redis_server: Store, asgi: None, chat: Chat, monkeypatch: pytest.MonkeyPatch, messages: int
) -> None:
    monkeypatch.setattr(event_stream, "WRITE_S", 0.05)
    for number in range(5):
        chat.send("other", number)
    connection, is_open = Connection(messages), asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not is_open.is_set():
            is_open.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def scene() -> bool:
        scope = {"type": "http", "http_version": "1.1", "method": "GET", "path": PATH, "query_string": b"after=0"}
        scope |= {"headers": [], "server": ("testserver", 80), "asgi": {"version": "3.0"}}
        # In a separate task, as in a server: from Django 6.1 on it ends by the cancellation.
        await asyncio.wait([asyncio.create_task(get_asgi_application()(scope, receive, connection.send))])
        return has_open_request()

    assert not run_async(scene, timeout_s=TIMEOUT_S)
    assert len(connection.received) == messages
    eventually(lambda: subscriptions(redis_server) == 0)


def test_a_stream_ends_after_its_longest_time_between_two_events(
    redis_server: Store, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        chat.send("other", number)

    async def scene() -> list[str]:
        response = await views.chat_events(request("/?after=0"), "room")
        stream = aiter(response.streaming_content)  # type: ignore[attr-defined]
        events = [(await anext(stream)).decode()]
        monkeypatch.setattr(event_stream.time, "monotonic", lambda: float("inf"))
        return events + [event.decode() async for event in stream]

    assert [event.splitlines()[0] for event in run_async(scene)] == ["id: 1"]


def test_events_pass_through_the_gzip_middleware_unchanged(redis_server: Store, settings: Any, chat: Chat) -> None:
    settings.MIDDLEWARE = [
        "django.middleware.gzip.GZipMiddleware",
        "tests.messaging.requests.SignedInMiddleware",
    ]
    chat.send("other", "x" * 1_000)

    async def scene() -> tuple[dict[str, str], list[str]]:
        async with AsgiRequest(PATH, "after=0", accept_encoding="gzip, br") as stream:
            return stream.headers, [await stream.event(), await stream.event()]

    headers, events = run_async(scene)

    assert [event.splitlines()[0] for event in events] == ["id: 1", "id: 2"]
    assert headers["content-encoding"] == "identity"
    assert {"no-transform", "no-cache", "private"} <= set(headers["cache-control"].split(", "))
    assert headers["x-accel-buffering"] == "no"


def test_a_stream_without_redis_is_not_compressed_either(own_server: Store, settings: Any, asgi: None) -> None:
    Chat.create("other", [7], "hi", chat_id="room")
    own_server.servers[0].kill()

    response = run_async(views.chat_events, request(), "room")

    assert (response["Content-Encoding"], response["Content-Type"]) == ("identity", "text/event-stream")
    assert "no-transform" in response["Cache-Control"]


@pytest.fixture
def signed_in(client: Client, chat: Chat, db: None) -> Client:
    user = User.objects.create_user("nora")
    chat.join(user.pk, history=1)
    client.force_login(user)
    return client


@pytest.mark.parametrize(
    "change", ['"{}-gzip"', 'W/"{}-gzip"', '"{};gzip"', '"{}--gzip"', '"{}-br"', 'W/"{}"', '"x", "{}"']
)
@pytest.mark.parametrize("view", ["chat_messages", "unread"])
def test_an_etag_that_a_server_has_changed_is_known(signed_in: Client, view: str, change: str) -> None:
    url = reverse(f"django_redis_components:{view}", args=["room"] if view == "chat_messages" else [])
    etag = signed_in.get(url)["ETag"].strip('"')

    assert signed_in.get(url, HTTP_IF_NONE_MATCH=change.format(etag)).status_code == 304
    assert signed_in.get(url, HTTP_IF_NONE_MATCH=change.format(f"{etag}0")).status_code == 200


def test_a_compressed_response_is_304_when_it_is_asked_for_again(settings: Any, signed_in: Client, chat: Chat) -> None:
    settings.MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *settings.MIDDLEWARE]
    chat.send("other", "x" * 1_000)
    url = reverse("django_redis_components:chat_messages", args=["room"])
    first = signed_in.get(url, HTTP_ACCEPT_ENCODING="gzip")

    again = signed_in.get(url, HTTP_ACCEPT_ENCODING="gzip", HTTP_IF_NONE_MATCH=first["ETag"])

    assert len(json.loads(gzip.decompress(first.content))["messages"]) == 2
    assert again.status_code == 304


def test_a_poll_with_an_etag_of_apache_learns_of_an_edit_at_once(signed_in: Client, chat: Chat) -> None:
    url = reverse("django_redis_components:chat_messages", args=["room"])
    etag = signed_in.get(url)["ETag"].strip('"')
    chat.edit_message("other", 1, "edited")

    response = signed_in.get(url, {"after": 1, "wait": 25}, HTTP_IF_NONE_MATCH=f'"{etag}-gzip"')

    assert response.json()["revision"] == 1


@pytest.mark.parametrize("data", ["[" * 5_000, '{"a":' * 5_000, '{"body":' + "[" * 30_000 + "]" * 30_000 + "}"])
@pytest.mark.parametrize("view", ["chat_messages", "chat_ack"])
def test_json_that_is_nested_too_deeply_is_refused(redis_server: Store, chat: Chat, view: str, data: str) -> None:
    made = RequestFactory().post("/", data, content_type="application/json")
    made.user = FakeUser()

    response = getattr(views, view)(made, "room")
    answer = run_async(getattr(views, f"a{view}"), request(method="POST", data=data.encode()), "room")

    assert [(each.status_code, json.loads(each.content)) for each in (response, answer)] == [
        (400, {"error": "The request is not a JSON object."})
    ] * 2


@pytest.mark.parametrize(
    ("view", "method", "args"),
    [
        ("chat_messages", "GET", ["room"]),
        ("chat_messages", "POST", ["room"]),
        ("chat_ack", "POST", ["room"]),
        ("unread", "GET", []),
        ("chat_events", "GET", ["room"]),
    ],
)
def test_without_an_authentication_middleware_the_answer_is_401(
    chat: Chat, view: str, method: str, args: list[str]
) -> None:
    made = request(method=method)
    del made.auser
    answers = [run_async(getattr(views, view if view == "chat_events" else f"a{view}"), made, *args)]
    if view != "chat_events":
        answers.append(getattr(views, view)(RequestFactory().generic(method, "/"), *args))

    assert {(each.status_code, json.loads(each.content)["error"]) for each in answers} == {
        (401, "Sign in to read messages.")
    }

"""The event stream: through ASGI, over outages of Redis, with edits and deletions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import iscoroutinefunction

from django_redis_components import async_urls, urls
from django_redis_components.messaging import Chat, event_stream, views
from django_redis_components.messaging.subscriber import stop_all
from tests.messaging.requests import AsgiRequest, request
from tests.messaging.waiters import subscriptions
from tests.support import Store, eventually, run_async
from tests.support.waiting import TIMEOUT_S

pytestmark = pytest.mark.integration

PATH = "/redis/chats/room/events/"


@pytest.fixture(autouse=True)
def _stopped(settings: Any) -> Iterator[None]:
    settings.MIDDLEWARE = ["tests.messaging.requests.SignedInMiddleware"]
    yield
    stop_all()


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MIN_BACKOFF_S", 0.05)
    monkeypatch.setattr(event_stream, "MAX_BACKOFF_S", 0.1)


def body(event: str) -> Any:
    """Return the body of the message of an event."""
    return json.loads(event.partition("data: ")[2])["body"]


async def next_event(stream: AsgiRequest) -> str:
    """Return the next event that is no comment."""
    while (event := await stream.event()).startswith(":"):
        pass
    return event


def test_event_stream_sends_messages_until_the_user_is_no_member(redis_server: Store) -> None:
    chat = Chat.create("other", [7], {"text": "hi\n"}, chat_id="room")

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
    chat = Chat.create("other", [7], 1, chat_id="room")
    chat.send("other", 2)

    async def scene() -> str:
        response = await views.chat_events(request(headers={"Last-Event-ID": "1"}), "room")
        stream = aiter(response.streaming_content)  # type: ignore[attr-defined]
        first = (await anext(stream)).decode()
        await stream.aclose()
        return str(first)

    assert run_async(scene).startswith("id: 2\n")


def test_silent_event_stream_asks_nothing(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "KEEP_ALIVE_S", 0.05)
    chat = Chat.create("other", [7], "hi", chat_id="room")

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


def test_browser_that_disconnects_ends_the_stream(redis_server: Store) -> None:
    chat = Chat.create("other", [7], "hi", chat_id="room")

    async def scene() -> tuple[int, str, list[Any]]:
        async with AsgiRequest(PATH, "after=0") as stream:
            bodies = [body(await next_event(stream))]
            await chat.asend("other", "new")
            bodies.append(body(await next_event(stream)))
            assert subscriptions(redis_server) == 1
        return stream.status, stream.headers["content-type"], bodies

    assert run_async(scene) == (200, "text/event-stream", ["hi", "new"])
    eventually(lambda: subscriptions(redis_server) == 0)


def test_each_message_costs_one_fetch_of_a_stream(redis_server: Store) -> None:
    chat = Chat.create("other", [7], "hi", chat_id="room")

    def scripts() -> int:
        sent = redis_server.raw.info("commandstats")
        return sum(int(sent[name]["calls"]) for name in ("cmdstat_evalsha", "cmdstat_evalsha_ro"))

    async def scene() -> int:
        async with AsgiRequest(PATH, "after=0") as stream:
            await next_event(stream)
            before = scripts()
            for number in range(20):
                await chat.asend("other", number)
                assert body(await next_event(stream)) == number
            return scripts() - before

    assert run_async(scene) == 40, "a send and a fetch of each message"


def test_edits_and_deletions_are_events(redis_server: Store) -> None:
    chat = Chat.create("other", [7], "hi", chat_id="room")
    chat.send("other", 2)

    async def scene() -> list[str]:
        async with AsgiRequest(PATH, "after=2") as stream:
            await asyncio.to_thread(eventually, lambda: subscriptions(redis_server) == 1)
            await chat.aedit_message("other", 1, "edited")
            events = [await next_event(stream)]
            await chat.adelete_message("other", 1)
            events.append(await next_event(stream))
            await chat.asend("other", 3)
            events.append(await next_event(stream))
        return events

    edited, deleted, sent = run_async(scene)

    assert edited == 'id: 2-1\nevent: changed\ndata: {"revision": 1}'
    assert deleted == 'id: 2-2\nevent: changed\ndata: {"revision": 2}'
    assert sent.startswith("id: 3-2\nevent: message\n")


@pytest.mark.parametrize(
    ("query", "last_event_id"), [("after=1", "1"), ("after=1", "1-1"), ("after=1&revision=1", None)]
)
def test_next_stream_reports_changes_since_the_last_event(
    redis_server: Store, query: str, last_event_id: str | None
) -> None:
    chat = Chat.create("other", [7], "hi", chat_id="room")
    chat.edit_message("other", 1, "first")
    chat.edit_message("other", 1, "second")

    async def scene() -> str:
        headers = {} if last_event_id is None else {"Last_Event_ID": last_event_id}
        async with AsgiRequest(PATH, query, **headers) as stream:
            return await next_event(stream)

    assert run_async(scene) == 'id: 1-2\nevent: changed\ndata: {"revision": 2}'


@pytest.mark.parametrize("given", ["x", "1-", "-1", "1-2-3", "9" * 17])
def test_invalid_last_event_id_is_refused(redis_server: Store, given: str) -> None:
    Chat.create("other", [7], "hi", chat_id="room")

    response = run_async(views.chat_events, request(headers={"Last-Event-ID": given}), "room")

    assert (response.status_code, json.loads(response.content)) == (
        400,
        {"error": "Last-Event-ID is not the id of an event."},
    )


def test_stream_stays_open_while_redis_is_restarted(
    own_server: Store, quick_retries: None, caplog: pytest.LogCaptureFixture
) -> None:
    chat = Chat.create("other", [7], "hi", chat_id="room")
    server = own_server.servers[0]

    async def scene() -> tuple[list[str], Any]:
        async with AsgiRequest(PATH, "after=1") as stream:
            await asyncio.to_thread(eventually, lambda: subscriptions(own_server) == 1)
            await asyncio.to_thread(server.kill)
            comments = [await stream.event() for _ in range(3)]
            await asyncio.to_thread(server.start)
            await chat.asend("other", "after the restart")
            return comments, body(await next_event(stream))

    assert run_async(scene) == ([": keep-alive"] * 3, "after the restart")
    for beginning in ("Event streams are interrupted", "Waiting for messages is interrupted"):
        assert len([line for line in caplog.messages if line.startswith(beginning)]) == 1


def test_stream_that_is_opened_while_redis_is_unavailable_makes_the_browser_connect_again(own_server: Store) -> None:
    Chat.create("other", [7], "hi", chat_id="room")
    own_server.servers[0].kill()

    async def scene() -> tuple[int, str, list[str]]:
        async with AsgiRequest(PATH) as stream:
            return stream.status, stream.headers["content-type"], [await stream.event(), await stream.event()]

    status, content_type, events = run_async(scene)

    assert (status, content_type, events[1]) == (200, "text/event-stream", "")
    retry, comment = events[0].splitlines()
    assert 2_500 <= int(retry.removeprefix("retry: ")) <= 5_000
    assert comment == ": Redis is unavailable"


def test_long_poll_under_asgi_ends_with_the_connection_of_its_browser(redis_server: Store, settings: Any) -> None:
    settings.ROOT_URLCONF = "django_redis_components.async_urls"
    chat = Chat.create("other", [7], "hi", chat_id="room")

    async def poll() -> list[Any]:
        async with AsgiRequest("/chats/room/messages/", "after=1&wait=25") as response:
            return [row["body"] for row in json.loads(await response.event())["messages"]]

    async def leave() -> None:
        leaving = asyncio.ensure_future(poll())
        await asyncio.to_thread(eventually, lambda: subscriptions(redis_server) == 1)
        leaving.cancel()
        async with asyncio.timeout(views.MAX_WAIT_S / 2):
            await asyncio.wait([leaving])

    async def stay() -> list[list[Any]]:
        polls = [asyncio.ensure_future(poll()) for _ in range(20)]
        await asyncio.to_thread(eventually, lambda: subscriptions(redis_server) == 1)
        await chat.asend("other", "new")
        return await asyncio.gather(*polls)

    run_async(leave)
    eventually(lambda: subscriptions(redis_server) == 0)
    assert run_async(stay) == [["new"]] * 20


def test_urls_for_asgi_have_the_same_names_and_paths() -> None:
    assert [(each.name, str(each.pattern)) for each in async_urls.urlpatterns] == [
        (each.name, str(each.pattern)) for each in urls.urlpatterns
    ]
    waiting = [each for each in async_urls.urlpatterns if each.name not in ("metrics", "healthz")]
    assert [each.name for each in waiting if not iscoroutinefunction(each.callback)] == []


def test_strangers_get_a_403_through_asgi(redis_server: Store) -> None:
    Chat.create("other", [], "hi", chat_id="room")

    async def scene() -> int:
        async with AsgiRequest(PATH) as stream:
            return stream.status

    assert run_async(scene) == 403

"""Waiting for messages: woken by a send, without polling, by one connection in each process."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_redis_components.messaging import (
    Broadcast,
    Chat,
    ChatDoesNotExist,
    Mailbox,
    NotMember,
    Received,
    SubscriptionFailed,
)
from django_redis_components.messaging.subscriber import stop_all
from tests.messaging.waiters import Waiter, received, subscriptions
from tests.support import Proxy, Store, eventually, run_async
from tests.support.waiting import TIMEOUT_S


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    yield
    stop_all()


async def subscribed(store: Store, count: int) -> None:
    """Return when this number of channels is subscribed."""
    await asyncio.to_thread(eventually, lambda: subscriptions(store) == count)


@pytest.mark.contract
def test_wait_returns_when_a_message_is_sent(store: Store) -> None:
    chat, box = Chat.create("a", ["b"], 1), Mailbox("o")
    chat.ack("b", 1)
    waiters = [Waiter(lambda: chat.wait_for_message("b", TIMEOUT_S)), Waiter(lambda: box.wait_for_message(TIMEOUT_S))]
    eventually(lambda: subscriptions(store) == 2)

    chat.send("a", 2)
    box.send("x")

    assert [waiter.outcome() for waiter in waiters] == [True, True]
    of_chat = (chat.wait_for_message("b", 0), chat.wait_for_message("b", 0.02, after=2))
    of_box = (box.wait_for_message(0), box.wait_for_message(0, after=1))
    assert (of_chat[0], *of_box, of_chat[1]) == (
        True, True, False, False,
    )  # fmt: skip
    eventually(lambda: subscriptions(store) == 0)


@pytest.mark.contract
def test_async_waits_return_when_a_message_is_sent(store: Store) -> None:
    chat, box = Chat.create("a", ["b"], 1), Mailbox("o")

    async def scene() -> list[bool]:
        waits = [
            asyncio.ensure_future(wait)
            for wait in (chat.await_for_message("b", TIMEOUT_S, after=1), box.await_for_message(TIMEOUT_S))
        ]
        await subscribed(store, 2)
        await chat.asend("a", 2)
        await box.asend("x")
        return [*await asyncio.gather(*waits), await box.await_for_message(0.02, after=1)]

    assert run_async(scene) == [True, True, False]


def test_waiters_of_a_process_share_one_connection(redis_server: Store) -> None:
    boxes = [Mailbox(number % 5) for number in range(20)]

    def clients() -> int:
        return sum(client["ssub"] != "0" for client in redis_server.raw.client_list() if "ssub" in client)

    before = clients()
    waiters = [Waiter(lambda box=box: box.wait_for_message(TIMEOUT_S)) for box in boxes]  # type: ignore[misc]

    async def wait_for_all() -> list[bool]:
        waits = [asyncio.ensure_future(box.await_for_message(TIMEOUT_S)) for box in boxes]
        await subscribed(redis_server, 5)
        assert clients() - before == 1
        for number in range(5):
            await Mailbox(number).asend("x")
        return await asyncio.gather(*waits)

    assert run_async(wait_for_all) == [True] * 20
    assert [waiter.outcome() for waiter in waiters] == [True] * 20


def test_waiting_sends_no_commands(redis_server: Store) -> None:
    waiter = Waiter(lambda: Mailbox("o").wait_for_message(TIMEOUT_S))
    eventually(lambda: subscriptions(redis_server) == 1)

    def commands() -> int:
        stats = redis_server.raw.info("commandstats")
        return sum(stat["calls"] for name, stat in stats.items() if name in ("cmdstat_evalsha", "cmdstat_xrange"))

    eventually(lambda: settled(commands))
    before = commands()
    assert Mailbox("other").wait_for_message(0.3) is False
    assert commands() - before <= 6, "two checks of the second waiter, each with a command inside"

    Mailbox("o").send("x")
    assert waiter.outcome() is True


def settled(count: Callable[[], int]) -> bool:
    before = count()
    time.sleep(0.02)
    return count() == before


def test_a_waiter_is_woken_after_the_connection_was_lost(proxy: Proxy, redis_server: Store) -> None:
    box = Mailbox("o", using="proxied")
    waiter = Waiter(lambda: box.wait_for_message(TIMEOUT_S))
    eventually(lambda: subscriptions(redis_server) == 1)

    proxy.cut()
    Mailbox("o").send("sent without a subscriber")

    assert waiter.outcome() is True


def test_wait_raises_while_redis_is_unavailable(proxy: Proxy, redis_server: Store) -> None:
    waiter = Waiter(lambda: Mailbox("o", using="proxied").wait_for_message(TIMEOUT_S))
    eventually(lambda: subscriptions(redis_server) == 1)

    proxy.stop_accepting()
    proxy.cut()

    assert "127.0.0.1" in str(waiter.outcome())


def test_wait_does_not_return_for_a_deleted_message(redis_server: Store) -> None:
    chat = Chat.create("a", [], 1)
    chat.send("a", 2)
    chat.delete_message("a", 2)

    assert chat.wait_for_message("a", 0.02, after=1) is False


@pytest.mark.contract
def test_wait_with_a_revision_returns_when_a_message_is_edited_or_deleted(store: Store) -> None:
    chat = Chat.create("a", ["b"], 1)
    waiters = [
        Waiter(lambda: chat.wait_for_message("b", TIMEOUT_S, after=1, revision=0)),
        Waiter(lambda: run_async(lambda: chat.await_for_message("b", TIMEOUT_S, after=1, revision=0))),
    ]
    eventually(lambda: subscriptions(store) == 1)

    chat.edit_message("a", 1, "edited")

    assert [waiter.outcome() for waiter in waiters] == [True, True]
    assert chat.wait_for_message("b", 0, after=1, revision=1) is False
    chat.delete_message("a", 1)
    assert (chat.wait_for_message("b", 0, after=1, revision=1), chat.wait_for_message("b", 0, after=1)) == (True, False)


@pytest.mark.contract
def test_wait_ends_with_the_membership(store: Store) -> None:
    chat = Chat.create("a", [], 1)
    waiter = Waiter(lambda: chat.wait_for_message("a", TIMEOUT_S, after=1))
    eventually(lambda: subscriptions(store) == 1)

    chat.leave("a")

    assert isinstance(waiter.outcome(), ChatDoesNotExist)
    with pytest.raises(NotMember):
        Chat.create("a", [], 1).wait_for_message("b", 1)
    with pytest.raises(ValueError, match=re.escape("timeout=-1: expected a number of seconds of at least 0")):
        Mailbox("o").wait_for_message(-1)


@pytest.mark.contract
def test_wait_ends_when_the_chat_is_deleted(store: Store) -> None:
    chat = Chat.create("a", ["b"], 1)
    waiter = Waiter(lambda: chat.wait_for_message("b", TIMEOUT_S, after=1))
    eventually(lambda: subscriptions(store) == 1)

    chat.delete()

    assert isinstance(waiter.outcome(), ChatDoesNotExist)


@pytest.mark.contract
def test_subscribers_get_what_is_published_while_they_are_subscribed(store: Store) -> None:
    channel = Broadcast("news")
    assert channel.publish("lost") == 0

    with channel.subscribe() as one, channel.subscribe() as two:
        channel.publish({"a": 1})
        channel.publish(None)
        channel.publish("end")

        assert [received(one), received(one), received(one)] == [{"a": 1}, None, "end"]
        assert [message.body for _, message in zip(range(3), two, strict=False)] == [{"a": 1}, None, "end"]
        assert (one.get(0.01), one.dropped) == (None, 0)


def test_payloads_that_are_no_json_are_skipped(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    channel = Broadcast("news")

    with channel.subscribe() as messages:
        for payload in (b"{", b"\xff", b"[" * 50_000):
            redis_server.raw.spublish(channel.key, payload)
        channel.publish("end")

        assert received(messages) == "end"

    assert caplog.messages == ["Channel 'news' received a message that is not JSON."] * 3


@pytest.mark.contract
def test_async_subscribers_get_what_is_published(store: Store) -> None:
    async def scene() -> list[Any]:
        found = []
        async with Broadcast("news").subscribe() as messages:
            await Broadcast("news").apublish(1)
            await Broadcast("news").apublish(2)
            found.append(await messages.aget(TIMEOUT_S))
            async for message in messages:
                found.append(message)
                break
            found.append(await messages.aget(0))
        return found

    assert run_async(scene) == [Received(1), Received(2), None]


def test_a_subscription_reconnects(proxy: Proxy, redis_server: Store) -> None:
    with Broadcast("news", using="proxied").subscribe() as messages:
        proxy.cut()
        eventually(lambda: Broadcast("news").publish("back"))

        assert received(messages) == "back"


def test_a_slow_subscriber_drops_the_oldest_messages(redis_server: Store) -> None:
    with Broadcast("news").subscribe() as messages:
        for number in range(1_010):
            Broadcast("news").publish(number)
        eventually(lambda: messages.dropped == 10)

        assert received(messages) == 10


def test_a_message_of_another_program_is_logged_and_skipped(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with Broadcast("news").subscribe() as messages:
        redis_server.raw.execute_command("SPUBLISH", Broadcast("news").key, "no json {")
        Broadcast("news").publish(1)

        assert received(messages) == 1
    assert "Channel 'news' received a message that is not JSON." in caplog.text


def test_subscribing_fails_while_redis_is_unavailable(proxy: Proxy, settings: Any) -> None:
    connection = settings.REDIS_COMPONENTS["CONNECTIONS"]["proxied"] | {"SOCKET_TIMEOUT": 0.3}
    every = settings.REDIS_COMPONENTS["CONNECTIONS"] | {"proxied": connection}
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"CONNECTIONS": every}
    proxy.stop_accepting()

    with (
        pytest.raises(SubscriptionFailed, match="did not confirm the subscription to 'news' in time"),
        Broadcast("news", using="proxied").subscribe(),
    ):
        pass

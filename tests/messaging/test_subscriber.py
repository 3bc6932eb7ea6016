"""The thread that listens for all waiters: it survives races, failures, restarts of the server and moves of slots."""

from __future__ import annotations

import asyncio
import contextlib
import select
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.client.transport import SyncConnection
from django_redis_components.core.keys import key
from django_redis_components.messaging import Broadcast, Mailbox, subscriber
from tests.core.slots import moving
from tests.messaging.waiters import Waiter, received, subscriptions
from tests.support import Proxy, Store, eventually, run_async
from tests.support.pools import close_pools
from tests.support.raising_logs import raising_logs
from tests.support.waiting import TIMEOUT_S


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    yield
    subscriber.stop_all()


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def enter(channel: Broadcast) -> None:
    """Subscribe, and stay subscribed until the task is cancelled."""
    async with channel.subscribe():
        await asyncio.Event().wait()


def test_late_confirmation_of_a_cancelled_subscription_does_not_confirm_the_next_one(
    proxy: Proxy, redis_server: Store
) -> None:
    other, channel = Broadcast("other", using="proxied"), Broadcast("news", using="proxied")

    async def cancel_before_the_confirmation() -> None:
        proxy.hold()
        task = asyncio.ensure_future(enter(channel))
        await asyncio.to_thread(eventually, lambda: subscriptions(redis_server) == 2)
        await cancel(task)
        await asyncio.to_thread(eventually, lambda: subscriptions(redis_server) == 1)
        proxy.let_go()

    with other.subscribe() as messages:
        run_async(cancel_before_the_confirmation)
        Broadcast("other").publish("read after both late replies")
        assert received(messages) == "read after both late replies"

        with channel.subscribe() as news:
            assert Broadcast("news").publish("received") == 1
            assert received(news) == "received"


def test_waiters_that_arrive_while_the_thread_ends_are_served(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiters: list[Waiter] = []

    def wait_while_the_thread_disconnects() -> None:
        if not waiters:
            waiters.append(Waiter(lambda: subscribe_and_get(Broadcast("o"))))
            with contextlib.suppress(AssertionError):  # a correct thread ends first
                eventually(lambda: subscriptions(redis_server) == 1, timeout_s=0.3)

    def close(connection: SyncConnection) -> None:
        close_connection(connection)
        if threading.current_thread().name == "messages-default":
            wait_while_the_thread_disconnects()

    close_connection = SyncConnection.close
    monkeypatch.setattr(subscriber, "LINGER_S", 0.01)
    monkeypatch.setattr(SyncConnection, "close", close)
    with Broadcast("first").subscribe():
        pass
    eventually(lambda: bool(waiters))

    eventually(lambda: subscriptions(redis_server) == 1)
    with Broadcast("o").subscribe() as messages:
        Broadcast("o").publish("x")
        assert [waiters[0].outcome(), received(messages)] == ["x", "x"]


def test_silence_does_not_end_the_connection_of_a_subscriber(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber, "LINGER_S", 0.005)

    with Broadcast("news", using="proxied").subscribe() as messages:
        accepted = proxy.accepted
        assert messages.get(0.1) is None
        assert proxy.accepted == accepted


def test_a_thread_that_could_not_be_started_is_started_by_the_next_waiter(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            Mailbox("first").wait_for_message(TIMEOUT_S)

    waiter = Waiter(lambda: Mailbox("o").wait_for_message(TIMEOUT_S))
    eventually(lambda: subscriptions(redis_server) == 1)
    Mailbox("o").send("x")
    assert waiter.outcome() is True


def test_an_unexpected_error_does_not_end_the_thread(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter([ValueError("file descriptor cannot be a negative integer (-1)")])

    def poll() -> Any:
        if (failure := next(failures, None)) is not None:
            raise failure
        return select.poll()

    monkeypatch.setattr(subscriber, "new_poller", poll)
    waiter = Waiter(lambda: Mailbox("o").wait_for_message(TIMEOUT_S))
    eventually(lambda: subscriptions(redis_server) == 1)
    Mailbox("o").send("x")

    assert waiter.outcome() is True
    assert "negative integer" in caplog.text


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_messages_arrive_while_the_logging_raises(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    failures: list[BaseException] = []

    def poll() -> Any:
        if failures:
            raise failures.pop()
        return select.poll()

    monkeypatch.setattr(subscriber, "new_poller", poll)
    monkeypatch.setattr(subscriber, "MAX_BACKOFF_S", 0.05)
    with raising_logs(error) as messages, Broadcast("news").subscribe() as news:
        for number, failure in enumerate([ConnectionError("lost"), ValueError("broken"), error("hostile")]):
            failures.append(failure)
            Mailbox("o").wait_for_message(0.001)  # wakes the thread
            eventually(lambda: len(messages) > number)  # noqa: B023 - called at once
            eventually(lambda: subscriptions(redis_server) == 1)
            Broadcast("news").publish(number)
            assert received(news) == number


def test_subscription_that_is_cancelled_while_its_name_is_indexed_leaves_nothing(
    proxy: Proxy, redis_server: Store
) -> None:
    channel = Broadcast("news", using="proxied")

    async def scene() -> None:
        first = asyncio.ensure_future(enter(channel))
        await asyncio.to_thread(eventually, lambda: subscriptions(redis_server) == 1)
        proxy.hold()
        second = asyncio.ensure_future(enter(channel))  # the channel is confirmed already
        await asyncio.sleep(0.05)
        await cancel(second)
        proxy.let_go()
        await cancel(first)

    run_async(scene)

    eventually(lambda: subscriptions(redis_server) == 0)


def test_subscription_that_is_interrupted_leaves_nothing(proxy: Proxy, redis_server: Store) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        proxy.hold()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt), Broadcast("news", using="proxied").subscribe():
            pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        proxy.let_go()

    with Broadcast("other", using="proxied").subscribe():
        eventually(lambda: subscriptions(redis_server) == 1)  # the channel of the other subscription


def test_waiters_are_woken_after_a_restart_of_the_server(own_server: Store) -> None:
    waiter = Waiter(lambda: subscribe_and_get(Broadcast("news")))
    eventually(lambda: subscriptions(own_server) == 1)

    own_server.servers[0].kill()
    close_pools()  # `publish` is sent once: not on a connection that was closed
    own_server.servers[0].start()
    eventually(lambda: subscriptions(own_server) == 1)
    Broadcast("news").publish("after the restart")

    assert waiter.outcome() == "after the restart"
    later = Waiter(lambda: Mailbox("o").wait_for_message(TIMEOUT_S))
    eventually(lambda: subscriptions(own_server) == 1)
    Mailbox("o").send("x")
    assert later.outcome() is True


def subscribe_and_get(channel: Broadcast) -> Any:
    with channel.subscribe() as messages:
        return received(messages)


@pytest.mark.parametrize("store", ["cluster"], indirect=True)
def test_waiters_are_woken_after_their_slot_has_moved(store: Store) -> None:
    Mailbox("o").send("read")
    waiters = [
        Waiter(lambda: Mailbox("o").wait_for_message(TIMEOUT_S, after=1)),
        Waiter(lambda: subscribe_and_get(Broadcast("o"))),
    ]
    eventually(lambda: subscriptions(store) == 2)

    with moving(store, key("messaging", "o")) as move:
        move.begin()
        move.finish()
        eventually(lambda: len(move.target.execute_command("PUBSUB", "SHARDCHANNELS", f"{store.prefix}:*")) == 2)
        Mailbox("o").send("sent to the new owner")
        Broadcast("o").publish("published by the new owner")

        assert [waiter.outcome() for waiter in waiters] == [True, "published by the new owner"]


@pytest.mark.parametrize("store", ["cluster"], indirect=True)
def test_only_the_node_whose_connection_was_lost_is_looked_up_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[object] = []
    monkeypatch.setattr(connections.client("default"), "reset_topology", lambda key=None: forgotten.append(key))

    with Broadcast("news").subscribe():
        eventually(lambda: subscriptions(store) == 1)
        for node in store.raw.get_primaries():
            store.raw.get_redis_connection(node).execute_command("CLIENT", "KILL", "TYPE", "PUBSUB")
        eventually(lambda: len(forgotten) == 1)
        eventually(lambda: subscriptions(store) == 1)

    assert [str(name).partition(":")[0] for name in forgotten] == [store.prefix.partition(":")[0]]  # the channel


def test_no_node_is_looked_up_again_after_the_last_waiter(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[object] = []
    monkeypatch.setattr(subscriber, "LINGER_S", 0.01)
    monkeypatch.setattr(connections.client("default"), "reset_topology", lambda key=None: forgotten.append(key))

    with Broadcast("news").subscribe():
        eventually(lambda: subscriptions(redis_server) == 1)
    eventually(lambda: not any(thread.name == "messages-default" for thread in threading.enumerate()))

    assert forgotten == []

"""The wakeup listener: wakeups, its timer, the wake descriptor and outages."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from django_redis_components.core.client import connections, wakeup_listener
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.core.keys import key
from django_redis_components.core.protocol import Command
from tests.support import Proxy, Store, eventually

#: TTL of the wakeup keys of the tests, in milliseconds.
TTL_MS = 60_000


@pytest.fixture
def listeners() -> Iterator[list[WakeupListener]]:
    """The listeners in this list are closed after the test."""
    made: list[WakeupListener] = []
    yield made
    for listener in made:
        listener.close()


def wakeup_key(name: str = "mail") -> str:
    return key("taskqueue", "q", name)


def wake(name: str = "mail") -> None:
    client = connections.client()
    client.execute_many([Command("ZADD", wakeup_key(name), 1, "1"), Command("PEXPIRE", wakeup_key(name), TTL_MS)])


def listener_of(listeners: list[WakeupListener], *names: str, using: str = "default", **options: Any) -> WakeupListener:
    listeners.append(
        WakeupListener(connections.client(using), [wakeup_key(name) for name in names or ("mail",)], **options)
    )
    return listeners[-1]


def blocked(store: Store) -> int:
    return int(store.raw.info("clients")["blocked_clients"])


def sent(store: Store) -> int:
    """Return how often the server has executed the blocking command."""
    return int(store.raw.info("commandstats").get("cmdstat_bzpopmin", {"calls": 0})["calls"])


def test_wakeup_is_received_once(store: Store, listeners: list[WakeupListener]) -> None:
    listener = listener_of(listeners)
    wake()

    assert listener.wait(60) is True
    assert listener.wait(0.01) is False


def test_wakeup_during_the_wait_ends_it(store: Store, listeners: list[WakeupListener]) -> None:
    listener = listener_of(listeners)
    later = threading.Timer(0.03, wake)
    later.start()

    assert listener.wait(60) is True
    later.join()


def test_first_of_several_wakeups_is_consumed_and_the_others_stay(
    redis_server: Store, listeners: list[WakeupListener]
) -> None:
    listener = listener_of(listeners, "high", "low")
    wake("low")
    wake("high")

    assert listener.wait(60) is True
    assert not redis_server.raw.exists(wakeup_key("high"))
    assert redis_server.raw.exists(wakeup_key("low"))
    assert listener.wait(60) is True
    assert listener.wait(0) is False


def test_next_wait_receives_the_wakeup_of_the_outstanding_command(
    redis_server: Store, listeners: list[WakeupListener]
) -> None:
    listener = listener_of(listeners)
    assert listener.wait(0.01) is False
    eventually(lambda: blocked(redis_server) == 1)

    wake()

    assert listener.wait(0) is True or listener.wait(60) is True
    assert not redis_server.raw.exists(wakeup_key())


def test_timer_never_ends_the_wait_early(redis_server: Store, listeners: list[WakeupListener]) -> None:
    listener = listener_of(listeners)
    listener.wait(0)

    for seconds in (0.0004, 0.0017, 0.0123):
        started_at = time.monotonic()
        assert listener.wait(seconds) is False
        assert time.monotonic() - started_at >= seconds


def test_wait_of_zero_seconds_returns_at_once(redis_server: Store, listeners: list[WakeupListener]) -> None:
    listener = listener_of(listeners)

    assert listener.wait(0) is False
    assert listener.wait(-5) is False


def test_wake_descriptor_ends_a_wait_and_stays_readable(redis_server: Store, listeners: list[WakeupListener]) -> None:
    reading, writing = os.pipe()
    listener = listener_of(listeners, wake_fd=reading)
    later = threading.Timer(0.03, os.write, [writing, b"!"])
    later.start()

    assert listener.wait(60) is False

    later.join()
    assert listener.wait(60) is False
    wake()
    eventually(lambda: listener.wait(0))
    assert os.read(reading, 10) == b"!"
    assert listener.wait(0.01) is False
    os.close(reading)
    os.close(writing)


def test_command_is_sent_again_after_its_timeout(
    redis_server: Store, listeners: list[WakeupListener], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeup_listener, "blocking_timeout_s", lambda _: 0.05)
    listener = listener_of(listeners)
    before = sent(redis_server)

    def is_sent_again() -> bool:
        assert listener.wait(0.1) is False
        return sent(redis_server) >= before + 2

    eventually(is_sent_again)
    wake()
    assert listener.wait(60) is True


def test_descriptor_above_1023_is_supported(redis_server: Store, listeners: list[WakeupListener]) -> None:
    held = [socket.socket() for _ in range(1_100)]
    try:
        listener = listener_of(listeners)
        assert listener.wait(0.01) is False
        wake()
        assert listener.wait(60) is True
        listener.close()
    finally:
        for each in held:
            each.close()


def test_killed_server_is_an_error_and_wakeups_arrive_after_its_restart(
    own_server: Store, listeners: list[WakeupListener]
) -> None:
    server = own_server.servers[0]
    listener = listener_of(listeners)
    assert listener.wait(0.01) is False
    server.kill()

    for _ in range(2):
        with pytest.raises(redis.ConnectionError, match=rf"127\.0\.0\.1:{server.port}"):
            listener.wait(60)
    server.start()

    wake()
    assert listener.wait(60) is True


def test_unresponsive_server_is_an_error(proxy: Proxy, listeners: list[WakeupListener], settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": proxy.url, "SOCKET_TIMEOUT": 1.0}}}
    listener = listener_of(listeners)
    assert listener.wait(0.01) is False
    proxy.delay(60)

    with pytest.raises(redis.TimeoutError) as caught:
        listener.wait(60)

    assert str(caught.value) == (
        f"127.0.0.1:{proxy.port} (connection 'default') did not reply to a blocking command in time."
    )


def test_key_of_another_type_is_an_error_and_the_listener_can_continue(
    redis_server: Store, listeners: list[WakeupListener]
) -> None:
    listener = listener_of(listeners)
    redis_server.raw.set(wakeup_key(), "not a sorted set", px=TTL_MS)

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        listener.wait(1)
    redis_server.raw.delete(wakeup_key())

    wake()
    assert listener.wait(60) is True


def test_closed_listener_has_no_connection_and_can_wait_again(
    redis_server: Store, listeners: list[WakeupListener]
) -> None:
    listener = listener_of(listeners)
    listener.wait(0.01)
    eventually(lambda: blocked(redis_server) == 1)

    listener.close()
    listener.close()

    eventually(lambda: blocked(redis_server) == 0)
    wake()
    assert listener.wait(60) is True

"""The bell waiter: bells, its own timer, the wake descriptor, and a server that goes and comes."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from django_redis_components.core.client import connections
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.core.keys import key
from django_redis_components.core.protocol import Command
from tests.support import Proxy, Store, eventually

#: Milliseconds that a bell of the tests lives.
LIFE_MS = 60_000


@pytest.fixture
def waiters() -> Iterator[list[WakeupListener]]:
    """What is put into this list is closed."""
    made: list[WakeupListener] = []
    yield made
    for waiter in made:
        waiter.close()


def bell(name: str = "mail") -> str:
    return key("taskqueue", "q", name)


def ring(name: str = "mail") -> None:
    client = connections.client()
    client.execute_many([Command("ZADD", bell(name), 1, "ding"), Command("PEXPIRE", bell(name), LIFE_MS)])


def waiter_of(waiters: list[WakeupListener], *names: str, using: str = "default", **options: Any) -> WakeupListener:
    waiters.append(WakeupListener(connections.client(using), [bell(name) for name in names or ("mail",)], **options))
    return waiters[-1]


def blocked(store: Store) -> int:
    return int(store.raw.info("clients")["blocked_clients"])


def short_timeout(settings: Any, seconds: float = 1.0) -> None:
    """Make the server's part of a wait end soon, so that it has to be asked again."""
    entry = settings.REDIS_COMPONENTS["CONNECTIONS"]["default"]
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "CONNECTIONS": {"default": {**entry, "SOCKET_TIMEOUT": seconds}},
    }


def test_a_bell_that_has_rung_is_heard_once(store: Store, waiters: list[WakeupListener]) -> None:
    waiter = waiter_of(waiters)
    ring()

    assert waiter.wait(60) is True
    assert waiter.wait(0.01) is False


def test_a_bell_that_rings_during_the_wait_ends_it(store: Store, waiters: list[WakeupListener]) -> None:
    waiter = waiter_of(waiters)
    later = threading.Timer(0.03, ring)
    later.start()

    assert waiter.wait(60) is True
    later.join()


def test_the_first_of_several_bells_is_used_up_and_the_others_stay(
    redis_server: Store, waiters: list[WakeupListener]
) -> None:
    waiter = waiter_of(waiters, "high", "low")
    ring("low")
    ring("high")

    assert waiter.wait(60) is True
    assert not redis_server.raw.exists(bell("high"))
    assert redis_server.raw.exists(bell("low"))
    assert waiter.wait(60) is True
    assert waiter.wait(0) is False


def test_the_timer_ends_the_wait_with_the_block_outstanding_and_the_next_wait_gets_the_bell(
    redis_server: Store, waiters: list[WakeupListener]
) -> None:
    waiter = waiter_of(waiters)
    assert waiter.wait(0.01) is False
    eventually(lambda: blocked(redis_server) == 1)

    ring()

    assert waiter.wait(0) is True or waiter.wait(60) is True
    assert not redis_server.raw.exists(bell())


def test_the_timer_never_ends_the_wait_too_early(redis_server: Store, waiters: list[WakeupListener]) -> None:
    waiter = waiter_of(waiters)
    waiter.wait(0)

    for seconds in (0.0004, 0.0017, 0.0123):
        begin = time.monotonic()
        assert waiter.wait(seconds) is False
        assert time.monotonic() - begin >= seconds


def test_a_wait_of_no_time_looks_and_returns(redis_server: Store, waiters: list[WakeupListener]) -> None:
    waiter = waiter_of(waiters)

    assert waiter.wait(0) is False
    assert waiter.wait(-5) is False


def test_the_wake_descriptor_ends_a_wait_and_stays_readable(redis_server: Store, waiters: list[WakeupListener]) -> None:
    reading, writing = os.pipe()
    waiter = waiter_of(waiters, wake_fd=reading)
    later = threading.Timer(0.03, os.write, [writing, b"!"])
    later.start()

    assert waiter.wait(60) is False

    later.join()
    assert waiter.wait(60) is False
    ring()
    eventually(lambda: waiter.wait(0))
    assert os.read(reading, 10) == b"!"
    assert waiter.wait(0.01) is False
    os.close(reading)
    os.close(writing)


def test_the_servers_block_runs_out_and_is_asked_again(
    redis_server: Store, waiters: list[WakeupListener], settings: Any
) -> None:
    short_timeout(settings)
    waiter = waiter_of(waiters)
    before = redis_server.raw.info("commandstats").get("cmdstat_bzpopmin", {"calls": 0})["calls"]

    assert waiter.wait(2.5) is False

    assert redis_server.raw.info("commandstats")["cmdstat_bzpopmin"]["calls"] >= before + 2
    ring()
    assert waiter.wait(60) is True


def test_a_descriptor_beyond_the_reach_of_select_is_waited_for(
    redis_server: Store, waiters: list[WakeupListener]
) -> None:
    held = [socket.socket() for _ in range(1_100)]
    try:
        waiter = waiter_of(waiters)
        assert waiter.wait(0.01) is False
        ring()
        assert waiter.wait(60) is True
        waiter.close()
    finally:
        for each in held:
            each.close()


def test_a_server_that_is_killed_is_an_error_and_after_its_start_the_bell_is_heard(
    own_server: Store, waiters: list[WakeupListener]
) -> None:
    server = own_server.servers[0]
    waiter = waiter_of(waiters)
    assert waiter.wait(0.01) is False
    server.kill()

    for _ in range(2):
        with pytest.raises(redis.ConnectionError, match=rf"127\.0\.0\.1:{server.port}"):
            waiter.wait(60)
    server.start()

    ring()
    assert waiter.wait(60) is True


def test_a_server_that_hangs_is_an_error_in_the_end(proxy: Proxy, waiters: list[WakeupListener], settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": proxy.url, "SOCKET_TIMEOUT": 1.0}}}
    waiter = waiter_of(waiters)
    assert waiter.wait(0.01) is False
    proxy.delay(60)

    with pytest.raises(redis.TimeoutError) as caught:
        waiter.wait(60)

    assert str(caught.value) == (
        f"127.0.0.1:{proxy.port} (connection 'default') did not end a blocking command in time."
    )


def test_a_bell_that_is_no_bell_is_an_error_and_the_waiter_goes_on(
    redis_server: Store, waiters: list[WakeupListener]
) -> None:
    waiter = waiter_of(waiters)
    redis_server.raw.set(bell(), "no bell", px=LIFE_MS)

    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        waiter.wait(1)
    redis_server.raw.delete(bell())

    ring()
    assert waiter.wait(60) is True


def test_a_closed_waiter_holds_no_connection_and_may_wait_again(
    redis_server: Store, waiters: list[WakeupListener]
) -> None:
    waiter = waiter_of(waiters)
    waiter.wait(0.01)
    eventually(lambda: blocked(redis_server) == 1)

    waiter.close()
    waiter.close()

    eventually(lambda: blocked(redis_server) == 0)
    ring()
    assert waiter.wait(60) is True

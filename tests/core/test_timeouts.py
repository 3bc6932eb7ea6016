"""How long a request waits for a server that does not answer, and what a late reply is."""

from __future__ import annotations

import asyncio
import gc
import math
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from redis.asyncio.connection import AbstractConnection

from django_redis_components.core import circuit_breaker
from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.core.client import connections
from django_redis_components.core.client.budget import budget_left_s, page_budget, spend
from django_redis_components.core.client.connections import AsyncClient
from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.client.transport import MAX_CONNECTS
from django_redis_components.core.protocol import Batch, Command, Flow, Read, arun, run
from tests.core.conftest import Driver
from tests.support import Proxy, Store, run_async


@pytest.fixture
def hung(settings: Any) -> Iterator[socket.socket]:
    """A server that accepts connections and never answers; alias ``default``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}"
        options = {"URL": url, "SOCKET_TIMEOUT": 0.3, "PAGE_TIMEOUT": 0.2, "RETRIES": 5}
        settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": options}}
        yield listener


def attempts(listener: socket.socket) -> int:
    """Return how many connections were opened."""
    listener.setblocking(False)
    accepted = []
    try:
        while True:
            accepted.append(listener.accept()[0])
    except BlockingIOError:
        return len(accepted)
    finally:
        for each in accepted:
            each.close()


def test_socket_timeout_applies_once_to_a_request_with_its_retries(hung: socket.socket, drive: Driver) -> None:
    with pytest.raises(NotConnected, match=r"127\.0\.0\.1"):
        drive.ask(Read("GET", "name"))

    assert attempts(hung) <= MAX_CONNECTS  # one, unless the event loop was busy


def test_socket_timeout_applies_once_to_a_batch(hung: socket.socket, drive: Driver) -> None:
    replies = drive.ask(Batch([Read("GET", "name")] * 3, return_exceptions=True))

    assert [type(reply) for reply in replies] == [NotConnected] * 3
    assert attempts(hung) == 1


def test_lost_reply_leaves_the_rest_of_the_timeout_for_the_retry(
    proxy: Proxy, redis_server: Store, settings: Any, drive: Driver
) -> None:
    options = {"URL": proxy.url, "SOCKET_TIMEOUT": 20, "RETRIES": 1}
    settings.REDIS_COMPONENTS = {"PREFIX": redis_server.prefix, "CONNECTIONS": {"default": options}}
    proxy.drop_next_reply(after=b"PING")

    assert drive.ask(Read("PING")) == b"PONG"


@pytest.mark.parametrize(
    "request_of",
    [lambda: Command("ECHO", b"x" * 100), lambda: Batch([Read("PING")] * 20)],
    ids=["one", "batch"],
)
def test_reply_that_arrives_byte_by_byte_ends_with_the_socket_timeout(
    proxy: Proxy, settings: Any, drive: Driver, request_of: Callable[[], Any]
) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": proxy.url, "SOCKET_TIMEOUT": 0.5, "RETRIES": 0}}}

    def flow() -> Flow[Any]:
        yield Read("PING")
        proxy.drip(0.03)
        return (yield request_of())

    with pytest.raises(redis.TimeoutError, match=r"did not answer within 0\.5 s"):
        drive(flow())


def test_waits_for_the_replies_of_a_batch_use_up_the_budget_of_a_page_once(
    proxy: Proxy, settings: Any, drive: Driver
) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": proxy.url, "SOCKET_TIMEOUT": 20, "RETRIES": 0}}}

    def flow() -> Flow[Any]:
        yield Read("PING")
        proxy.drip(0.06)
        return (yield Batch([Read("PING")] * 3))

    started_at = time.monotonic()
    with page_budget(20) as budget:
        assert drive(flow()) == [b"PONG"] * 3

    assert 0 < 20 - budget.left_s <= time.monotonic() - started_at


def test_opening_that_is_answered_byte_by_byte_ends_with_the_socket_timeout(
    proxy: Proxy, settings: Any, drive: Driver
) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": proxy.url, "SOCKET_TIMEOUT": 0.5, "RETRIES": 0}}}
    proxy.drip(0.1)

    with pytest.raises(NotConnected, match=r"Timeout .* after \d"):
        drive.ask(Read("PING"))


def test_request_above_the_buffers_of_the_network_is_sent(redis_server: Store, drive: Driver) -> None:
    body = b"x" * 20_000_000

    assert drive.ask(Command("ECHO", body)) == body


def test_page_client_skips_redis_after_a_failure(hung: socket.socket) -> None:
    client = connections.page_client("default")
    with pytest.raises(NotConnected):
        client.execute(Read("GET", "name"))

    with pytest.raises(NotConnected, match=r"Connection 'default' is not used for [45]\.\d s: "):
        client.execute(Read("GET", "name"))
    with pytest.raises(NotConnected, match="is not used"):
        run(client, _flow())

    assert attempts(hung) == 1


def test_async_page_client_skips_redis_after_a_failure(hung: socket.socket) -> None:
    async def main() -> None:
        client = connections.apage_client("default")
        with pytest.raises(NotConnected):
            await arun(client, _flow())
        assert 1 <= attempts(hung) <= MAX_CONNECTS  # one, unless the event loop was busy
        for _ in range(2):
            with pytest.raises(NotConnected, match="is not used"):
                await arun(client, _flow())

    run_async(main)

    assert attempts(hung) == 0


def _flow() -> Any:
    yield Batch([Read("GET", "name")])


def test_page_client_takes_an_error_reply_for_an_answer(redis_server: Store, drive: Driver) -> None:
    redis_server.raw.rpush(f"{redis_server.prefix}:list", 1)
    client = connections.page_client("default")

    for _ in range(2):
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            client.execute(Read("GET", f"{redis_server.prefix}:list"))
        replies = client.execute_many([Read("GET", f"{redis_server.prefix}:list"), Read("PING")])
        assert (type(replies[0]), replies[1]) == (redis.ResponseError, b"PONG")

    assert not breaker_for("default").is_open


def test_late_replies_of_a_page_client_open_the_breaker(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(circuit_breaker, "SLOW_S", 0.1)
    monkeypatch.setattr(circuit_breaker, "BURST_S", 0.15)
    settings.REDIS_COMPONENTS["CONNECTIONS"]["proxied"]["PAGE_TIMEOUT"] = 10
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS}
    client = connections.page_client("proxied")
    client.execute(Read("PING"))
    proxy.delay(0.3)

    while not breaker_for("proxied").is_open:
        client.execute(Read("PING"))

    with pytest.raises(NotConnected, match="Redis is slow"):
        client.execute(Read("PING"))


def test_budget_limits_all_requests_of_a_page(proxy: Proxy, redis_server: Store, settings: Any, drive: Driver) -> None:
    options = {"URL": proxy.url, "SOCKET_TIMEOUT": 300, "CONNECT_TIMEOUT": 300, "RETRIES": 20}
    settings.REDIS_COMPONENTS = {"PREFIX": redis_server.prefix, "CONNECTIONS": {"default": options}}
    assert drive.ask(Read("PING")) == b"PONG"
    proxy.delay(600)

    with page_budget(0.3) as budget:
        errors = []
        for _ in range(20):  # the first waits for a reply, or for its connection, and the others not at all
            with pytest.raises((redis.ConnectionError, redis.TimeoutError)) as caught:
                drive.ask(Read("PING"))
            errors.append(str(caught.value))
        assert budget.left_s == 0

    assert errors[-1] == "The page has waited for Redis for as long as its budget allows."
    proxy.delay(0)
    proxy.cut()
    assert drive.ask(Read("PING")) == b"PONG"


def test_budget_inside_another_one_has_the_smaller_of_the_two() -> None:
    with page_budget(3) as outer:
        with page_budget(5) as inner:
            spend(1)
            assert (outer.left_s, inner.left_s) == (2, 2)
        spend(1)
        assert budget_left_s() == 1

    assert budget_left_s() == math.inf
    with pytest.raises(ValueError, match="seconds"):
        page_budget(0)


def test_connect_of_a_busy_event_loop_is_repeated_for_as_long_as_the_loop_was_busy(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts_s = list[float]()

    async def connect(connection: Any, *_: object) -> None:
        timeouts_s.append(connection.socket_connect_timeout)
        time.sleep(0.3)  # noqa: ASYNC251 - this is what makes the event loop busy
        raise redis.TimeoutError

    monkeypatch.setattr(AbstractConnection, "connect", connect)

    async def main() -> None:
        with pytest.raises(NotConnected):
            await AsyncClient(connections.endpoint("default")).execute(Read("PING"))

    run_async(main)

    first_s, *again_s = timeouts_s[:MAX_CONNECTS]
    assert again_s
    assert max(again_s) < first_s


def test_connect_that_is_cancelled_twice_logs_nothing(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    started = asyncio.Event()

    async def connect_and_fail_late(*_: object) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            for _ in range(10):
                await asyncio.sleep(0)
            raise redis.ConnectionError("too late") from None

    monkeypatch.setattr(AbstractConnection, "connect", connect_and_fail_late)
    reported: list[dict[str, Any]] = []

    async def main() -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        task = asyncio.ensure_future(AsyncClient(connections.endpoint("default")).execute(Read("PING")))
        await started.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([task], timeout=30)
        for _ in range(20):
            await asyncio.sleep(0)
        gc.collect()
        return task.cancelled()

    assert run_async(main, timeout_s=90)
    assert reported == []

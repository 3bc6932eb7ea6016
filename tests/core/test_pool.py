"""Connection pools: connections are reused, checked after a pause, and closed when their state is unknown."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from redis.asyncio.connection import AbstractConnection

from django_redis_components.core.client import connections, multiplexed_connection
from django_redis_components.core.client._async import client as async_client
from django_redis_components.core.client._async import pool as async_pool
from django_redis_components.core.client._sync import pool as sync_pool
from django_redis_components.core.client.connections import AsyncClient
from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.client.multiplexed_connection import LARGE
from django_redis_components.core.client.transport import AsyncConnection, SyncConnection
from django_redis_components.core.keys import key
from django_redis_components.core.protocol import Batch, Command, Flow, Read, Sleep
from tests.conftest import components_settings
from tests.core.conftest import Driver
from tests.support import Proxy, Store, eventually, run_async, run_together
from tests.support.clients import client_ids

CONNECTION_ID = Read("CLIENT", "ID", key=None)


@pytest.fixture
def always_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every free connection is checked before it is used."""
    monkeypatch.setattr(sync_pool, "STALE_AFTER_S", -1.0)
    monkeypatch.setattr(async_pool, "STALE_AFTER_S", -1.0)
    monkeypatch.setattr(multiplexed_connection, "STALE_AFTER_S", -1.0)


def new_clients(store: Store, before: set[int]) -> int:
    """Return how many clients have connected since then. Those of an earlier test may still disconnect meanwhile."""
    return len(client_ids(store) - before)


def ids_around(request: Any) -> Flow[tuple[int, int]]:
    """Return the ids of the connections used before and after a request."""
    before = yield CONNECTION_ID
    with contextlib.suppress(redis.ResponseError):
        yield request
    return before, (yield CONNECTION_ID)


@pytest.mark.parametrize(
    "request_between",
    [
        Read("PING"),
        Command("HSET", "x"),
        Batch([Command("HSET", "x"), Read("PING")]),
        Batch([Read("PING"), Command("HSET", "x")], return_exceptions=True),
    ],
    ids=["reply", "error reply", "batch with an error reply", "batch that returns its error reply"],
)
def test_connection_is_reused_after_a_reply_and_after_an_error_reply(
    redis_server: Store, drive: Driver, request_between: Any
) -> None:
    before, after = drive(ids_around(request_between))

    assert before == after


def test_after_a_failure_the_free_connections_are_checked(
    proxy: Proxy, settings: Any, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_pool, "STALE_AFTER_S", 3_600.0)  # all were just used, as on a busy site
    settings.REDIS_COMPONENTS = components_settings(redis_server, proxied=proxy.url)
    settings.REDIS_COMPONENTS["CONNECTIONS"]["proxied"]["RETRIES"] = 1
    client = connections.client("proxied")
    proxy.hold()
    with ThreadPoolExecutor(4) as threads:
        replies = [threads.submit(client.execute, Read("PING", key=None)) for _ in range(4)]
        eventually(lambda: proxy.accepted >= 4)
        proxy.let_go()
        assert [reply.result(60) for reply in replies] == [b"PONG"] * 4

    proxy.cut()

    assert client.execute(Read("PING", key=None)) == b"PONG"


def test_connection_is_reused_after_a_command_that_cannot_be_encoded(redis_server: Store, drive: Driver) -> None:
    def flow(bad: Any) -> Flow[tuple[int, int]]:
        before = yield CONNECTION_ID
        with pytest.raises(redis.DataError):
            yield bad
        return before, (yield CONNECTION_ID)

    for bad in (Command("SET", "x", None), Batch([Read("PING"), Command("SET", "x", None)])):
        before, after = drive(flow(bad))
        assert before == after


def test_connection_is_closed_when_its_reply_was_lost(redis_server: Store, proxy: Proxy, drive: Driver) -> None:
    def flow() -> Flow[tuple[int, int]]:
        before = yield CONNECTION_ID
        proxy.drop_next_reply(after=b"INCR")
        with pytest.raises(redis.ConnectionError):
            yield Command("INCR", key("l", "n"))
        return before, (yield CONNECTION_ID)

    before, after = drive(flow(), "proxied")

    assert before != after


@pytest.mark.parametrize("pause_s", [0, 0.02], ids=["at once", "after the loop has read its end"])
def test_connection_closed_by_the_server_is_replaced_without_an_error(
    redis_server: Store, drive: Driver, always_checked: None, pause_s: float
) -> None:
    def flow() -> Flow[list[Any]]:
        before = yield CONNECTION_ID
        redis_server.raw.execute_command("CLIENT", "KILL", "ID", before)
        yield Sleep(pause_s)
        return [before, (yield Command("INCR", key("l", "n"))), (yield CONNECTION_ID)]

    before, counted, after = drive(flow())

    assert counted == 1
    assert before != after


def test_connection_is_replaced_after_a_restart_of_the_server(
    own_server: Store, drive: Driver, always_checked: None
) -> None:
    def flow() -> Flow[int]:
        yield Command("SET", key("l", "n"), 1)
        own_server.servers[0].stop()
        own_server.servers[0].start()
        return (yield Command("INCR", key("l", "n")))

    assert drive(flow()) == 2


def test_connection_with_an_unread_reply_is_replaced(redis_server: Store, always_checked: None) -> None:
    pool = connections.client().pool_for("any")
    connection = pool.acquire()
    first = connection.request(CONNECTION_ID.args)
    connection.send("PING")
    eventually(connection.is_readable)
    pool.release(connection)

    assert pool.request(("ECHO", "hello")) == b"hello"
    assert pool.request(CONNECTION_ID.args) != first


def test_threads_never_receive_the_replies_of_other_threads(store: Store) -> None:
    client = connections.client()

    def work(number: int) -> int:
        name = key("l", f"n{number}")
        for turn in range(100):
            client.execute(Command("SET", name, f"{number}:{turn}", "PX", 60_000))
            assert client.execute(Read("GET", name)) == f"{number}:{turn}".encode()
            assert client.execute_many([Read("GET", name), Read("ECHO", turn, key=name)])[1] == str(turn).encode()
        return number

    assert run_together(16, work) == list(range(16))


def test_pool_of_threads_keeps_at_most_max_free_connections(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_pool, "MAX_FREE", 2)
    before = client_ids(redis_server)
    pool = connections.client().pool_for("any")
    acquired = [pool.acquire() for _ in range(5)]
    assert new_clients(redis_server, before) == 5

    for connection in acquired:
        pool.release(connection)

    eventually(lambda: new_clients(redis_server, before) == 2)


def test_connection_released_while_another_thread_closes_the_pool_is_closed(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = client_ids(redis_server)
    pool = connections.client().pool_for("any")
    connection = pool.acquire()

    def close_the_pool() -> float:
        pool.close()
        return 0.0

    monkeypatch.setattr(sync_pool, "time", SimpleNamespace(monotonic=close_the_pool))
    pool.release(connection)

    eventually(lambda: new_clients(redis_server, before) == 0)


def test_pool_keeps_at_most_max_free_connections_of_large_requests(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_pool, "MAX_FREE", 2)
    before = client_ids(redis_server)

    async def main() -> None:
        client = connections.aclient()
        await asyncio.gather(*(client.execute(Read("STRLEN", f"{number}{'x' * LARGE}")) for number in range(10)))
        await asyncio.to_thread(eventually, lambda: len(client_ids(redis_server) - before) == 2)

    run_async(main)


def test_tasks_of_an_event_loop_share_a_limited_number_of_connections(redis_server: Store) -> None:
    at_start = redis_server.raw.info("stats")["total_connections_received"]

    async def main() -> list[Any]:
        client = connections.aclient()
        return await asyncio.gather(*(client.execute(Read("ECHO", number)) for number in range(300)))

    replies = run_async(main)

    assert replies == [str(number).encode() for number in range(300)]
    received = redis_server.raw.info("stats")["total_connections_received"] - at_start
    assert received <= 3


def test_blocking_waits_do_not_count_towards_the_limit_of_requests(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    wakeup = key("l", "wakeup")

    async def main() -> list[Any]:
        client = connections.aclient()
        waits = [asyncio.ensure_future(client.wait(wakeup, 60)) for _ in range(async_client.MAX_REQUESTS + 6)]
        await asyncio.to_thread(eventually, lambda: redis_server.raw.info("clients")["blocked_clients"] == len(waits))
        await client.execute(Command("RPUSH", wakeup, *range(len(waits))))
        return sorted(int(element) for element in await asyncio.gather(*waits) if element)

    assert run_async(main) == list(range(async_client.MAX_REQUESTS + 6))


def test_cancelled_large_request_closes_its_connection_and_the_next_one_starts(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_client, "MAX_REQUESTS", 1)
    sent, large = key("l", "sent"), "x" * LARGE

    async def main() -> list[int]:
        client = connections.aclient("proxied")
        first = [CONNECTION_ID, Read("ECHO", large)]
        ids = [(await client.execute_many(first))[0]]
        for number, send in enumerate((client.execute, lambda command: client.execute_many([command]))):
            proxy.delay(60)  # of this connection: the next one is made without
            task = asyncio.ensure_future(send(Command("RPUSH", sent, f"{number}{large}")))
            await asyncio.to_thread(eventually, lambda: redis_server.raw.llen(sent) > number)  # noqa: B023
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            proxy.delay(0)
            ids.append((await client.execute_many(first))[0])
        return ids

    assert len(set(run_async(main, timeout_s=90))) == 3


def test_cancelled_connect_closes_its_socket(proxy: Proxy, redis_server: Store, settings: Any) -> None:
    with_long_timeouts = components_settings(redis_server, proxied=proxy.url)
    with_long_timeouts["CONNECTIONS"]["proxied"] |= {
        "SOCKET_TIMEOUT": 60,
        "CONNECT_TIMEOUT": 60,
    }  # no timeout before the cancel
    settings.REDIS_COMPONENTS = with_long_timeouts
    before = client_ids(redis_server)

    async def main() -> None:
        proxy.delay(60)
        task = asyncio.ensure_future(connections.aclient("proxied").execute(Read("PING")))
        await asyncio.to_thread(eventually, lambda: new_clients(redis_server, before) == 1)
        task.cancel()
        await asyncio.wait([task], timeout=40)
        assert task.cancelled()

    run_async(main, timeout_s=110)
    eventually(lambda: new_clients(redis_server, before) == 0)


def test_cancellation_that_redis_py_loses_while_connecting_ends_the_wait(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`asyncio.wait_for` loses one now and then before Python 3.12."""
    started = asyncio.Event()

    async def connect_and_lose_one(*_: object) -> None:
        started.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    monkeypatch.setattr(AbstractConnection, "connect", connect_and_lose_one)

    async def main() -> bool:
        task = asyncio.ensure_future(AsyncClient(connections.endpoint("default")).execute(Read("PING")))
        await started.wait()
        task.cancel()
        await asyncio.wait([task], timeout=30)
        return task.cancelled()

    assert run_async(main, timeout_s=90)


def test_no_cancellation_is_lost_while_connecting(redis_server: Store) -> None:
    async def cancelled_after(steps: int) -> bool:
        client = AsyncClient(connections.endpoint("default"))
        task = asyncio.ensure_future(client.wait(key("l", "wakeup"), 30))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        client.close()
        return task.cancelled()

    async def main() -> list[int]:
        return [steps for steps in range(120) if not await cancelled_after(steps)]

    assert run_async(main) == []


def test_closing_a_client_closes_its_connections_and_those_in_use_when_they_are_released(redis_server: Store) -> None:
    before = client_ids(redis_server)
    client = connections.client()
    client.execute(CONNECTION_ID)
    pool = client.pool_for("any")
    used = pool.acquire()
    assert new_clients(redis_server, before) == 2

    connections.close_all()
    eventually(lambda: new_clients(redis_server, before) == 1)
    pool.release(used)

    eventually(lambda: new_clients(redis_server, before) == 0)


def test_connection_is_closed_when_its_first_check_fails(redis_server: Store) -> None:
    before = client_ids(redis_server)
    endpoint = connections.endpoint("default")

    def refuse(_: object) -> None:
        raise KeyboardInterrupt

    async def arefuse(_: AsyncConnection) -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        with pytest.raises(KeyboardInterrupt):
            await async_pool.AsyncConnectionPool(
                partial(endpoint.async_connection, endpoint.seeds[0]), arefuse, max_requests=1
            ).open()

    with pytest.raises(KeyboardInterrupt):
        sync_pool.SyncConnectionPool(
            partial(endpoint.sync_connection, endpoint.seeds[0]), refuse, max_requests=1
        ).open()
    run_async(main)

    eventually(lambda: new_clients(redis_server, before) == 0)


def test_not_connected_is_raised_when_no_server_listens(drive: Driver) -> None:
    with pytest.raises(NotConnected, match=r"^Error 111 connecting to 127\.0\.0\.1:1\..*[Cc]onnect"):
        drive.ask(Read("PING"))


def test_error_during_the_handshake_names_the_address(proxy: Proxy, settings: Any, drive: Driver) -> None:
    settings.REDIS_COMPONENTS = {
        "CONNECTIONS": {"default": {"URL": proxy.url, "SOCKET_TIMEOUT": 0.05, "RETRIES": 0}},
    }
    proxy.delay(60)

    with pytest.raises(NotConnected, match=rf"127\.0\.0\.1:{proxy.port}"):
        drive.ask(Read("PING"))


def test_timeout_names_the_address_and_the_limit(proxy: Proxy, settings: Any, drive: Driver) -> None:
    settings.REDIS_COMPONENTS = {
        "CONNECTIONS": {"default": {"URL": proxy.url, "SOCKET_TIMEOUT": 0.5}},
    }

    def flow() -> Flow[None]:
        yield Read("PING")
        proxy.delay(60)
        yield Command("INCR", "n")

    with pytest.raises(redis.TimeoutError) as caught:
        drive(flow())

    assert str(caught.value) == f"127.0.0.1:{proxy.port} did not answer within 0.5 s."


def test_lost_connection_names_the_address(proxy: Proxy, drive: Driver) -> None:
    proxy.drop_next_reply(after=b"INCR")

    with pytest.raises(redis.ConnectionError) as caught:
        drive.ask(Command("INCR", "n"), using="proxied")

    assert str(caught.value) == f"127.0.0.1:{proxy.port}: Connection closed by server."


def test_connection_of_the_caller_sends_reads_and_raises(redis_server: Store, proxy: Proxy) -> None:
    connection = connections.client("proxied").pool_for("any").open()

    connection.send("ECHO", "hello")
    assert connection.is_readable(1)
    assert connection.read() == b"hello"
    connection.send("HSET", "x")
    with pytest.raises(redis.ResponseError, match="'hset'"):
        connection.read()
    connection.send("BLPOP", key("l", "nothing"), 5)
    proxy.cut()
    with pytest.raises(redis.ConnectionError, match=rf"^127\.0\.0\.1:{proxy.port}: "):
        connection.read()
    with pytest.raises(redis.ConnectionError, match=rf"^127\.0\.0\.1:{proxy.port}: "):
        send_until_it_fails(connection)
    connection.close()


def send_until_it_fails(connection: SyncConnection) -> None:
    for _ in range(1000):
        connection.send("PING")

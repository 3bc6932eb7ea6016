"""Held connections: reused, looked at when they have rested, closed after what makes them unsure."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
import redis

from django_redis_components.core.client import alinks, connections, links
from django_redis_components.core.client.alinks import AsyncConnection
from django_redis_components.core.client.connections import AsyncClient, SyncClient
from django_redis_components.core.client.links import SyncConnection
from django_redis_components.core.exceptions import NotConnected
from django_redis_components.core.keys import key
from django_redis_components.core.protocol import Batch, Command, Flow, Read, Sleep
from tests.conftest import components_settings
from tests.core.conftest import Driver
from tests.support import Proxy, Store, eventually, run_async, run_together

WHO = Read("CLIENT", "ID", key=None)


@pytest.fixture
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every free link is looked at before it is used."""
    monkeypatch.setattr(links, "STALE_AFTER_S", -1.0)
    monkeypatch.setattr(alinks, "STALE_AFTER_S", -1.0)


def connected(store: Store) -> set[bytes]:
    """The ids of the server's clients."""
    return {client["id"] for client in store.raw.client_list()}


def opened(store: Store, at_rest: set[bytes]) -> int:
    """How many clients the server has which it did not have then. Those may still be leaving, from an earlier test."""
    return len(connected(store) - at_rest)


def both_ids(between: Any) -> Flow[tuple[int, int]]:
    """The connection before and after a request."""
    before = yield WHO
    with contextlib.suppress(redis.ResponseError):
        yield between
    return before, (yield WHO)


@pytest.mark.parametrize(
    "between",
    [
        Read("PING"),
        Command("HSET", "x"),
        Batch([Command("HSET", "x"), Read("PING")]),
        Batch([Read("PING"), Command("HSET", "x")], return_exceptions=True),
    ],
    ids=["an answer", "an error", "a batch with an error", "a batch that holds its error"],
)
def test_a_link_is_used_again_after_an_answer_and_after_an_error(
    redis_server: Store, drive: Driver, between: Any
) -> None:
    before, after = drive(both_ids(between))

    assert before == after


def test_a_link_is_used_again_after_what_could_not_be_sent(redis_server: Store, drive: Driver) -> None:
    def flow(bad: Any) -> Flow[tuple[int, int]]:
        before = yield WHO
        with pytest.raises(redis.DataError):
            yield bad
        return before, (yield WHO)

    for bad in (Command("SET", "x", None), Batch([Read("PING"), Command("SET", "x", None)])):
        before, after = drive(flow(bad))
        assert before == after


def test_a_link_whose_reply_was_lost_is_closed(redis_server: Store, proxy: Proxy, drive: Driver) -> None:
    def flow() -> Flow[tuple[int, int]]:
        before = yield WHO
        proxy.drop_next_reply(after=b"INCR")
        with pytest.raises(redis.ConnectionError):
            yield Command("INCR", key("l", "n"))
        return before, (yield WHO)

    before, after = drive(flow(), "proxied")

    assert before != after


@pytest.mark.parametrize("pause_s", [0, 0.02], ids=["at once", "after the loop has read its end"])
def test_a_link_that_the_server_closed_is_replaced_without_an_error(
    redis_server: Store, drive: Driver, no_rest: None, pause_s: float
) -> None:
    def flow() -> Flow[list[Any]]:
        before = yield WHO
        redis_server.raw.execute_command("CLIENT", "KILL", "ID", before)
        yield Sleep(pause_s)
        return [before, (yield Command("INCR", key("l", "n"))), (yield WHO)]

    before, counted, after = drive(flow())

    assert counted == 1
    assert before != after


def test_a_link_of_a_server_that_was_started_anew_is_replaced(own_server: Store, drive: Driver, no_rest: None) -> None:
    def flow() -> Flow[int]:
        yield Command("SET", key("l", "n"), 1)
        own_server.servers[0].stop()
        own_server.servers[0].start()
        return (yield Command("INCR", key("l", "n")))

    assert drive(flow()) == 2


def test_a_link_on_which_nobody_asked_for_what_came_is_replaced(redis_server: Store, no_rest: None) -> None:
    client = connections.client()
    first = client.execute(WHO)
    pool = client._pool(client._locate(None))
    link = pool.acquire()
    link.send("PING")
    eventually(link.readable)
    pool.release(link)

    assert client.execute(Read("ECHO", "hello")) == b"hello"
    assert client.execute(WHO) != first


def test_threads_have_a_link_each_and_never_see_each_others_replies(store: Store) -> None:
    client = connections.client()

    def work(number: int) -> int:
        name = key("l", f"n{number}")
        for turn in range(100):
            client.execute(Command("SET", name, f"{number}:{turn}", "PX", 60_000))
            assert client.execute(Read("GET", name)) == f"{number}:{turn}".encode()
            assert client.execute_many([Read("GET", name), Read("ECHO", turn, key=name)])[1] == str(turn).encode()
        return number

    assert run_together(16, work) == list(range(16))


def test_no_more_free_links_are_kept_than_the_limit(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_FREE", 2)
    at_rest = connected(redis_server)
    pool = connections.client()._pool(connections.client()._locate(None))
    taken = [pool.acquire() for _ in range(5)]
    assert opened(redis_server, at_rest) == 5

    for link in taken:
        pool.release(link)

    eventually(lambda: opened(redis_server, at_rest) == 2)


def test_no_more_free_links_of_a_loop_are_kept_than_the_limit(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alinks, "MAX_FREE", 2)
    at_rest = connected(redis_server)

    async def main() -> int:
        client = connections.aclient()
        await asyncio.gather(*(client.execute(Read("ECHO", number)) for number in range(10)))
        await asyncio.to_thread(eventually, lambda: opened(redis_server, at_rest) <= 2)
        return opened(redis_server, at_rest)

    assert run_async(main) == 2


def test_tasks_of_a_loop_share_a_limited_number_of_links(redis_server: Store) -> None:
    at_start = redis_server.raw.info("stats")["total_connections_received"]

    async def main() -> list[Any]:
        client = connections.aclient()
        return await asyncio.gather(*(client.execute(Read("ECHO", number)) for number in range(300)))

    replies = run_async(main)

    assert replies == [str(number).encode() for number in range(300)]
    received = redis_server.raw.info("stats")["total_connections_received"] - at_start
    assert received <= alinks.MAX_IN_USE


def test_blocking_waits_of_tasks_do_not_hold_up_other_requests(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    bell = key("l", "bell")

    async def main() -> list[Any]:
        client = connections.aclient()
        waits = [asyncio.ensure_future(client.wait(bell, 60)) for _ in range(alinks.MAX_IN_USE + 6)]
        await asyncio.to_thread(eventually, lambda: redis_server.raw.info("clients")["blocked_clients"] == len(waits))
        await client.execute(Command("RPUSH", bell, *range(len(waits))))
        return sorted(int(rung) for rung in await asyncio.gather(*waits) if rung)

    assert run_async(main) == list(range(alinks.MAX_IN_USE + 6))


def test_a_cancelled_request_closes_its_link_and_frees_its_turn(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_redis_components.core.client.aclients.MAX_IN_USE", 1)
    sent = key("l", "sent")

    async def main() -> list[int]:
        client = connections.aclient("proxied")
        ids = [await client.execute(WHO)]
        for number, send in enumerate((client.execute, lambda command: client.execute_many([command]))):
            proxy.delay(60)  # of this connection: the next one is made without
            task = asyncio.ensure_future(send(Command("RPUSH", sent, number)))
            await asyncio.to_thread(eventually, lambda: redis_server.raw.llen(sent) > number)  # noqa: B023
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            proxy.delay(0)
            ids.append(await client.execute(WHO))
        return ids

    assert len(set(run_async(main, timeout_s=90))) == 3


def test_a_cancelled_connect_leaves_nothing_open(proxy: Proxy, redis_server: Store, settings: Any) -> None:
    patient = components_settings(redis_server, proxied=proxy.url)
    patient["CONNECTIONS"]["proxied"] |= {"SOCKET_TIMEOUT": 60, "CONNECT_TIMEOUT": 60}  # no timeout before the cancel
    settings.REDIS_COMPONENTS = patient
    at_rest = connected(redis_server)

    async def main() -> None:
        proxy.delay(60)
        task = asyncio.ensure_future(connections.aclient("proxied").execute(Read("PING")))
        await asyncio.to_thread(eventually, lambda: opened(redis_server, at_rest) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_async(main, timeout_s=90)
    eventually(lambda: opened(redis_server, at_rest) == 0)


def test_a_cancellation_is_not_lost_at_any_step_of_connecting(redis_server: Store) -> None:
    async def cancelled_after(steps: int) -> bool:
        client = AsyncClient(connections.endpoint("default"))
        task = asyncio.ensure_future(client.wait(key("l", "bell"), 3))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        client.close()
        return task.cancelled()

    async def main() -> list[int]:
        return [steps for steps in range(120) if not await cancelled_after(steps)]

    assert run_async(main) == []


def test_closing_a_client_closes_its_links_also_those_in_use_later(redis_server: Store) -> None:
    at_rest = connected(redis_server)
    client = connections.client()
    client.execute(WHO)
    pool = client._pool(client._locate(None))
    used = pool.acquire()
    pool.release(pool.acquire())
    assert opened(redis_server, at_rest) == 2

    connections.close_all()
    eventually(lambda: opened(redis_server, at_rest) == 1)
    pool.release(used)

    eventually(lambda: opened(redis_server, at_rest) == 0)


def test_a_link_that_fails_its_greeting_is_closed(redis_server: Store) -> None:
    at_rest = connected(redis_server)
    endpoint = connections.endpoint("default")

    def refuse(_: object) -> None:
        raise KeyboardInterrupt

    async def arefuse(_: AsyncConnection) -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        with pytest.raises(KeyboardInterrupt):
            await alinks.AsyncConnectionPool(lambda: endpoint.aconnection(endpoint.seeds[0]), arefuse).open()

    with pytest.raises(KeyboardInterrupt):
        links.SyncConnectionPool(lambda: endpoint.connection(endpoint.seeds[0]), refuse).open()
    run_async(main)

    eventually(lambda: opened(redis_server, at_rest) == 0)


def test_a_node_that_does_not_listen_is_not_connected(drive: Driver) -> None:
    with pytest.raises(NotConnected, match=r"^Error 111 connecting to 127\.0\.0\.1:1\..*[Cc]onnect"):
        drive.ask(Read("PING"))


def test_a_connection_that_ends_in_the_handshake_names_its_address(proxy: Proxy, settings: Any, drive: Driver) -> None:
    settings.REDIS_COMPONENTS = {
        "CONNECTIONS": {"default": {"URL": proxy.url, "SOCKET_TIMEOUT": 0.05, "RETRIES": 0}},
    }
    proxy.delay(60)

    with pytest.raises(NotConnected, match=rf"127\.0\.0\.1:{proxy.port}"):
        drive.ask(Read("PING"))


def test_a_reply_that_does_not_come_in_time_says_from_where_and_how_long(
    proxy: Proxy, settings: Any, drive: Driver
) -> None:
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


def test_a_connection_that_ends_says_from_where(proxy: Proxy, drive: Driver) -> None:
    proxy.drop_next_reply(after=b"INCR")

    with pytest.raises(redis.ConnectionError) as caught:
        drive.ask(Command("INCR", "n"), using="proxied")

    assert str(caught.value) == f"127.0.0.1:{proxy.port}: Connection closed by server."


def test_a_link_of_ones_own_sends_reads_and_raises(redis_server: Store, proxy: Proxy) -> None:
    link: SyncConnection = SyncClient(connections.endpoint("proxied")).open_connection("any")

    link.send("ECHO", "hello")
    assert link.readable(1)
    assert link.read() == b"hello"
    link.send("HSET", "x")
    with pytest.raises(redis.ResponseError, match="'hset'"):
        link.read()
    link.send("BLPOP", key("l", "nothing"), 5)
    proxy.cut()
    with pytest.raises(redis.ConnectionError, match=rf"^127\.0\.0\.1:{proxy.port}: "):
        link.read()
    with pytest.raises(redis.ConnectionError, match=rf"^127\.0\.0\.1:{proxy.port}: "):
        send_until_it_fails(link)
    link.close()


def send_until_it_fails(link: SyncConnection) -> None:
    for _ in range(1000):
        link.send("PING")

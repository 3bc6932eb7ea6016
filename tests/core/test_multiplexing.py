"""Requests of the coroutines of an event loop on shared connections: each gets its own reply, none holds up others."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest
import redis

from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.core.client import connections, multiplexed_connection, shared_connections
from django_redis_components.core.client.budget import page_budget
from django_redis_components.core.client.connections import AsyncClient
from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.client.multiplexed_connection import LARGE, MultiplexedConnection
from django_redis_components.core.keys import key
from django_redis_components.core.protocol import Command, Read
from tests.conftest import components_settings
from tests.support import Proxy, Store, eventually, run_async
from tests.support.clients import client_ids

CONNECTION_ID = Read("CLIENT", "ID", key=None)


@pytest.fixture
def stopped(own_server: Store, settings: Any) -> Iterator[Store]:
    """A server of the test, with short timeouts. The test stops it with `stop`."""
    configured = components_settings(own_server)
    configured["CONNECTIONS"]["default"] |= {"SOCKET_TIMEOUT": 0.6, "PAGE_TIMEOUT": 0.4, "RETRIES": 0}
    settings.REDIS_COMPONENTS = configured
    yield own_server
    if own_server.servers[0].running:
        os.kill(own_server.servers[0].pid, signal.SIGCONT)


def stop(store: Store) -> None:
    """Let the server hang, as one that swaps or whose machine is paused does."""
    os.kill(store.servers[0].pid, signal.SIGSTOP)


def resume(store: Store) -> None:
    os.kill(store.servers[0].pid, signal.SIGCONT)


async def shared_connection(monkeypatch: pytest.MonkeyPatch, client: AsyncClient) -> MultiplexedConnection:
    """Return the connection that the client's next request uses."""
    used = list[MultiplexedConnection]()
    send = MultiplexedConnection.send

    def spy(connection: MultiplexedConnection, *args: Any) -> Any:
        used.append(connection)
        return send(connection, *args)

    with monkeypatch.context() as patch:
        patch.setattr(MultiplexedConnection, "send", spy)
        await client.execute(Read("PING"))
    return used[0]


async def outcomes(*awaitables: Awaitable[Any]) -> list[Any]:
    return await asyncio.gather(*awaitables, return_exceptions=True)


# Replies in order


def test_each_of_a_thousand_coroutines_gets_its_own_replies_while_others_are_cancelled(redis_server: Store) -> None:
    chance, unsolicited = random.Random(7), list[Any]()

    async def ask(client: AsyncClient, number: int) -> int:
        for turn in range(8):
            text = f"{number}:{turn}:{'x' * chance.randrange(3_000)}"
            if turn % 2:
                assert await client.execute(Read("ECHO", text)) == text.encode()
            else:
                many = [Read("ECHO", f"{text}:{at}") for at in range(3)]
                assert await client.execute_many(many) == [f"{text}:{at}".encode() for at in range(3)]
        return number

    async def main() -> list[Any]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unsolicited.append(context))
        client = connections.aclient()
        tasks = [asyncio.ensure_future(ask(client, number)) for number in range(1_000)]
        while not all(task.done() for task in tasks):
            for task in chance.sample(tasks[::2], 5):
                task.cancel()
            await asyncio.sleep(0)
        return await outcomes(*tasks)

    before = redis_server.raw.info("stats")["total_connections_received"]
    replies = run_async(main, timeout_s=120)

    assert replies[1::2] == list(range(1, 1_000, 2))
    cancelled = [reply for reply in replies[::2] if isinstance(reply, asyncio.CancelledError)]
    assert len(cancelled) > 100
    assert all(reply == number for number, reply in enumerate(replies) if reply not in cancelled)
    assert redis_server.raw.info("stats")["total_connections_received"] - before <= 3
    assert unsolicited == []


def test_server_executes_requests_in_the_order_in_which_they_were_made(redis_server: Store) -> None:
    name = key("m", "list")

    async def main() -> None:
        client = connections.aclient()
        await client.execute(Read("PING"))
        pushes = [
            client.execute(Command("RPUSH", name, number))
            if number % 3
            else client.execute_many([Command("RPUSH", name, number)])
            for number in range(500)
        ]
        await asyncio.gather(*pushes)

    run_async(main)

    assert redis_server.raw.lrange(name, 0, -1) == [str(number).encode() for number in range(500)]


def test_request_that_is_cancelled_before_it_was_written_is_never_sent(redis_server: Store) -> None:
    name = key("m", "n")

    async def main() -> None:
        client = connections.aclient()
        await client.execute(Read("PING"))
        tasks = [asyncio.ensure_future(client.execute(Command("INCR", name))) for _ in range(10)]
        asyncio.get_running_loop().call_soon(lambda: [task.cancel() for task in tasks[5:]])
        await outcomes(*tasks)
        await client.execute(Read("PING"))

    run_async(main)

    assert redis_server.raw.get(name) == b"5"


def test_error_reply_reaches_only_its_own_caller(redis_server: Store) -> None:
    async def main() -> list[Any]:
        client = connections.aclient()
        many = [Read("ECHO", "b"), Command("HSET", "x"), Read("ECHO", "c")]
        asked = (client.execute(Read("ECHO", "a")), client.execute(Command("HSET", "x")))
        asked_later = (client.execute_many(many), client.execute(Read("ECHO", "d")))
        return await outcomes(*asked, *asked_later)

    first, error, batch, last = run_async(main)

    assert (first, last) == (b"a", b"d")
    assert isinstance(error, redis.ResponseError)
    assert (batch[0], type(batch[1]), batch[2]) == (b"b", redis.ResponseError, b"c")


# Servers that end, hang or do not read


def test_killed_server_fails_each_outstanding_request_with_its_address(stopped: Store) -> None:
    async def main() -> list[Any]:
        client = connections.aclient()
        await client.execute(Read("PING"))
        stop(stopped)
        tasks = [asyncio.ensure_future(client.execute(Command("INCR", key("m", "n")))) for _ in range(100)]
        await asyncio.sleep(0)
        stopped.servers[0].kill()
        return await outcomes(*tasks)

    errors = run_async(main)

    address = f"127.0.0.1:{stopped.servers[0].port}"
    assert [type(error) for error in errors] == [redis.ConnectionError] * 100, "lost, and not sent again"
    assert all(str(error).startswith(f"{address}: ") for error in errors)


def test_idempotent_requests_on_a_lost_connection_are_sent_again(redis_server: Store, proxy: Proxy) -> None:
    async def main() -> list[Any]:
        client = connections.aclient("proxied")
        await client.execute(Read("PING"))
        proxy.hold()
        reads = [asyncio.ensure_future(client.execute(Read("ECHO", number))) for number in range(50)]
        writes = [asyncio.ensure_future(client.execute(Command("INCR", key("m", "n")))) for _ in range(50)]
        await asyncio.to_thread(eventually, lambda: redis_server.raw.get(key("m", "n")) == b"50")
        proxy.let_go()
        proxy.cut()
        return await outcomes(*reads, *writes)

    replies = run_async(main)

    answered = [reply for reply in replies[50:] if not isinstance(reply, redis.ConnectionError)]
    assert replies[:50] == [str(number).encode() for number in range(50)]
    assert answered == list(range(1, len(answered) + 1))
    assert redis_server.raw.get(key("m", "n")) == b"50", "none was sent twice"


def test_hung_server_costs_each_caller_one_timeout_and_late_replies_are_dropped(stopped: Store) -> None:
    async def main() -> tuple[list[Any], float, list[Any]]:
        client = connections.aclient()
        await client.execute(Read("PING"))
        stop(stopped)
        started_at = time.monotonic()
        tasks = [asyncio.ensure_future(client.execute(Command("INCR", key("m", "n")))) for _ in range(200)]
        errors = await outcomes(*tasks)
        elapsed_s = time.monotonic() - started_at
        resume(stopped)
        replies = await outcomes(*(client.execute(Read("ECHO", number)) for number in range(200)))
        return errors, elapsed_s, replies

    errors, elapsed_s, replies = run_async(main)

    text = f"127.0.0.1:{stopped.servers[0].port} did not answer within 0.6 s."
    assert {(type(error), str(error)) for error in errors} == {(redis.TimeoutError, text)}
    assert 0.6 <= elapsed_s < 3
    assert replies == [str(number).encode() for number in range(200)]


def test_hung_server_opens_the_breaker_of_pages_and_the_next_are_skipped(stopped: Store) -> None:
    async def main() -> list[Any]:
        client = connections.apage_client()
        await client.execute(Read("PING"))
        stop(stopped)
        await outcomes(*(client.execute(Read("PING")) for _ in range(50)))
        return await outcomes(*(client.execute(Read("PING")) for _ in range(50)))

    errors = run_async(main)

    assert breaker_for("default").is_open
    assert all(isinstance(error, NotConnected) and "is not used for" in str(error) for error in errors)


def test_waits_of_shared_connections_use_up_the_budget_of_their_own_page_only(stopped: Store) -> None:
    async def page(client: AsyncClient, seconds: float) -> tuple[float, float]:
        with page_budget(seconds) as budget:
            started_at = time.monotonic()
            with pytest.raises(redis.TimeoutError):
                await client.execute(Read("PING"))
            return budget.left_s, time.monotonic() - started_at

    async def main() -> list[tuple[float, float]]:
        client = connections.aclient()
        await client.execute(Read("PING"))
        stop(stopped)
        return await asyncio.gather(page(client, 0.2), page(client, 100))

    (short_left_s, short_s), (long_left_s, long_s) = run_async(main)

    assert short_left_s < 0.01
    assert long_left_s < 99.5
    assert short_s < long_s


def test_server_that_does_not_read_gets_no_more_than_the_buffers_of_the_network_take(stopped: Store) -> None:
    name, body, written = key("m", "list"), "x" * 60_000, list[int]()

    async def main() -> tuple[list[Any], Any]:
        client = connections.aclient()
        await client.execute(Read("PING"))
        stop(stopped)
        tasks = [asyncio.ensure_future(client.execute(Command("RPUSH", name, body))) for _ in range(1_000)]
        errors = await outcomes(*tasks)
        resume(stopped)
        return errors, await client.execute(Read("ECHO", "again"))

    with pytest.MonkeyPatch.context() as patch:
        write = asyncio.selector_events._SelectorSocketTransport.write
        patch.setattr(
            asyncio.selector_events._SelectorSocketTransport,
            "write",
            lambda self, data: (written.append(len(data)), write(self, data)),
        )
        errors, again = run_async(main)

    assert sum(written) < 30_000_000, "of 60 million bytes"
    assert again == b"again"
    assert all(isinstance(error, redis.TimeoutError) for error in errors)
    eventually(lambda: stopped.raw.exists(name))
    assert 0 < stopped.raw.llen(name) < 500, "the others were not written before their callers had left"


def test_requests_continue_when_the_server_reads_again(stopped: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = components_settings(stopped)
    body = "x" * 60_000

    async def main() -> list[Any]:
        client = connections.aclient()
        await client.execute(Read("PING"))
        stop(stopped)
        tasks = [asyncio.ensure_future(client.execute(Read("STRLEN", f"{number}{body}"))) for number in range(300)]
        tasks += [asyncio.ensure_future(client.execute(Read("ECHO", number))) for number in range(300)]
        await asyncio.sleep(0.01)
        resume(stopped)
        return await asyncio.gather(*tasks)

    assert run_async(main) == [0] * 300 + [str(number).encode() for number in range(300)]


@pytest.mark.parametrize("turns", [1, 3], ids=["before the requests are written", "while their replies arrive"])
def test_busy_event_loop_is_no_late_server(redis_server: Store, settings: Any, turns: int) -> None:
    texts = [f"{number}{'x' * 30_000}" for number in range(20)]
    configured = components_settings(redis_server)
    configured["CONNECTIONS"]["default"] |= {"SOCKET_TIMEOUT": 0.3, "RETRIES": 0}
    settings.REDIS_COMPONENTS = configured

    async def main() -> list[Any]:
        client = connections.aclient()
        await client.execute(Read("PING"))
        tasks = [asyncio.ensure_future(client.execute(Read("ECHO", text))) for text in texts]
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(0.5)  # noqa: ASYNC251 - this is what makes the event loop busy
        return await asyncio.gather(*tasks)

    assert run_async(main) == [text.encode() for text in texts]


def test_connection_with_a_late_reply_gets_no_further_request_and_is_closed_when_no_caller_waits(
    proxy: Proxy, redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured = components_settings(redis_server, proxied=proxy.url)
    configured["CONNECTIONS"]["proxied"] |= {"SOCKET_TIMEOUT": 1, "RETRIES": 0}
    settings.REDIS_COMPONENTS = configured

    async def main() -> None:
        client = connections.aclient("proxied")
        first = await shared_connection(monkeypatch, client)
        first_id = await client.execute(CONNECTION_ID)
        proxy.delay(60)  # of this connection: the next one is made without
        late = asyncio.ensure_future(client.execute(Read("PING")))
        await asyncio.to_thread(eventually, lambda: not first.is_usable)
        late.cancel()
        proxy.delay(0)
        assert await client.execute(CONNECTION_ID) != first_id
        await asyncio.to_thread(eventually, lambda: first_id not in client_ids(redis_server))
        assert first.outstanding == 0

    run_async(main, timeout_s=90)


def test_reply_that_belongs_to_no_request_replaces_the_connection(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> tuple[bool, Any]:
        client = connections.aclient()
        first = await shared_connection(monkeypatch, client)
        first.get_buffer(-1)[:5] = b"+OK\r\n"
        first.buffer_updated(5)
        second = await shared_connection(monkeypatch, client)
        return first is second, await client.execute(Read("ECHO", "mine"))

    assert run_async(main) == (False, b"mine")


# What would hold up others


def test_request_above_the_limit_has_a_separate_connection(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, sizes = MultiplexedConnection.send, list[int]()

    def spy(connection: MultiplexedConnection, data: bytes, *args: Any) -> Any:
        sizes.append(len(data))
        return send(connection, data, *args)

    monkeypatch.setattr(MultiplexedConnection, "send", spy)

    async def main() -> None:
        client, large = connections.aclient(), "x" * LARGE
        assert await client.execute(Read("ECHO", "small")) == b"small"
        assert await client.execute(Read("STRLEN", large)) == 0
        assert await client.execute_many([Read("STRLEN", large), Read("ECHO", "small")]) == [0, b"small"]

    run_async(main)

    assert sizes == [len(b"*2\r\n$4\r\nECHO\r\n$5\r\nsmall\r\n")]


def test_small_requests_overtake_a_large_reply(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = key("m", "large")
    redis_server.raw.set(name, "x" * 20_000_000, px=600_000)

    async def main() -> tuple[int, int]:
        client = connections.aclient("proxied")
        shared = await shared_connection(monkeypatch, client)
        lengths = []
        for turn in range(2):
            proxy.delay(0.05)  # 300 chunks
            large = asyncio.ensure_future(client.execute(Read("GET", name)))
            if turn == 0:
                await asyncio.to_thread(eventually, lambda: not shared.is_usable)
            else:  # it is known to be large, and overtaken from the beginning
                await asyncio.sleep(0)
            assert await asyncio.gather(*(client.execute(Read("ECHO", at)) for at in range(9))) == [
                str(at).encode() for at in range(9)
            ]
            assert not large.done()
            proxy.delay(0)
            lengths.append(len(await large))
        return lengths[0], lengths[1]

    assert run_async(main, timeout_s=90) == (20_000_000, 20_000_000)


def test_large_replies_are_expected_for_a_while_only(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_connections, "LARGE_FOR_S", 0.05)
    redis_server.raw.set(key("m", "large"), "x" * 1_000_000, px=600_000)

    async def main() -> None:
        client = connections.aclient()
        shared = await client.execute(CONNECTION_ID)
        await client.execute(Read("GET", key("m", "large")))
        small = [Read("GET", key("m", "none")), CONNECTION_ID]
        while (await client.execute_many(small))[1] != shared:
            pass

    run_async(main, timeout_s=90)


@pytest.mark.parametrize("name", ["WAIT", "wait"])
def test_command_that_waits_in_the_server_delays_no_other(redis_server: Store, name: str) -> None:
    async def main() -> Any:
        client = connections.aclient()
        await client.execute(Read("PING"))
        waiting = asyncio.ensure_future(client.execute(Command(name, 1, 500, key="any")))
        await asyncio.to_thread(eventually, lambda: redis_server.raw.info("clients")["blocked_clients"] > 0)
        assert await client.execute(Read("ECHO", "now")) == b"now"
        assert not waiting.done()
        return await waiting

    assert run_async(main) == 0


def test_transaction_in_a_batch_has_a_separate_connection(redis_server: Store) -> None:
    async def main() -> list[Any]:
        client = connections.aclient()
        shared = await client.execute(CONNECTION_ID)
        commands = [
            CONNECTION_ID,
            Command("MULTI", key="any"),
            Command("INCR", key("m", "n")),
            Command("EXEC", key="any"),
        ]
        found = await client.execute_many(commands)
        return [found[0] == shared, *found[1:]]

    assert run_async(main) == [False, b"OK", b"QUEUED", [1]]


def test_slow_server_gets_few_connections(redis_server: Store, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplexed_connection, "PART_S", 0.01)

    async def main() -> list[Any]:
        client = connections.aclient("proxied")
        await client.execute(Read("PING"))
        redis_server.raw.client_pause(60_000, all=False)  # further connections can be opened meanwhile
        tasks = []
        for _ in range(10):
            tasks.append(asyncio.ensure_future(client.execute(Command("INCR", key("m", "n")))))
            await asyncio.wait(tasks[-1:], timeout=0.1)
        redis_server.raw.client_unpause()
        counted = await asyncio.gather(*tasks)
        assert (await shared_connection(monkeypatch, client)).is_usable
        return counted

    assert sorted(run_async(main, timeout_s=90)) == list(range(1, 11))
    assert 1 < proxy.accepted <= 3


# Opening and closing


def test_opening_serves_the_others_when_the_first_of_its_callers_is_cancelled(
    proxy: Proxy, redis_server: Store
) -> None:
    async def main() -> list[Any]:
        client = connections.aclient("proxied")
        proxy.hold()
        tasks = [asyncio.ensure_future(client.execute(Read("ECHO", number))) for number in range(20)]
        await asyncio.to_thread(eventually, lambda: proxy.accepted)
        tasks[0].cancel()
        await asyncio.wait([tasks[0]])
        proxy.let_go()
        return await asyncio.gather(*tasks[1:])

    assert run_async(main) == [str(number).encode() for number in range(1, 20)]
    assert proxy.accepted == 1


def test_opening_that_fails_fails_all_that_wait_for_it(proxy: Proxy, redis_server: Store, settings: Any) -> None:
    configured = components_settings(redis_server, proxied=proxy.url)
    configured["CONNECTIONS"]["proxied"] |= {"SOCKET_TIMEOUT": 0.3, "RETRIES": 0}
    settings.REDIS_COMPONENTS = configured
    proxy.hold()

    async def main() -> list[Any]:
        client = connections.aclient("proxied")
        return await outcomes(*(client.execute(Read("PING")) for _ in range(100)))

    errors = run_async(main)

    assert {type(error) for error in errors} == {NotConnected}
    assert all(f"127.0.0.1:{proxy.port}" in str(error) for error in errors)
    assert proxy.accepted < 10


def test_closed_client_answers_what_is_outstanding_and_closes_its_connection_then(
    redis_server: Store, proxy: Proxy
) -> None:
    async def main() -> Any:
        client = AsyncClient(connections.endpoint("proxied"))
        connection_id = await client.execute(CONNECTION_ID)
        proxy.hold()
        waiting = asyncio.ensure_future(client.execute(Read("ECHO", "late")))
        await asyncio.sleep(0)
        client.close()
        assert connection_id in client_ids(redis_server)
        proxy.let_go()
        reply = await waiting
        await asyncio.to_thread(eventually, lambda: connection_id not in client_ids(redis_server))
        return reply

    assert run_async(main) == b"late"


def test_client_that_is_closed_while_it_connects_answers_and_closes_its_connection(
    redis_server: Store, proxy: Proxy
) -> None:
    async def main() -> Any:
        before = client_ids(redis_server)
        client = AsyncClient(connections.endpoint("proxied"))
        waiting = asyncio.ensure_future(client.execute(Read("ECHO", "late")))
        await asyncio.to_thread(eventually, lambda: proxy.accepted)
        client.close()
        reply = await waiting
        await asyncio.to_thread(eventually, lambda: not client_ids(redis_server) - before)
        return reply

    assert run_async(main) == b"late"

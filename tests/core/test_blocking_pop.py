"""Waits that end by a local timer while the blocking command stays outstanding."""

from __future__ import annotations

import asyncio

import pytest

from django_redis_components.core.client.connections import aclient, client
from django_redis_components.core.protocol import BlockingPop
from tests.support import Store, eventually, run_async
from tests.support.clients import blocked_ids

pytestmark = pytest.mark.integration


def test_element_is_not_lost_after_a_wait_timed_out(redis_server: Store) -> None:
    key = f"{redis_server.prefix}:wakeup"
    before = blocked_ids(redis_server)
    assert client().wait(key, 0.01) is None
    eventually(lambda: blocked_ids(redis_server) <= before)

    redis_server.raw.rpush(key, "element")

    assert client().wait(key, 60) == b"element"


def test_several_waits_share_one_command(redis_server: Store) -> None:
    first, second = (f"{redis_server.prefix}:{{w}}:{number}" for number in (1, 2))
    pop = BlockingPop((first, second))
    assert client().wait(pop, 0.01) is None
    assert client().wait(pop, 0.0) is None

    redis_server.raw.rpush(second, "element")

    assert client().wait(pop, 60) == b"element"
    assert client().wait(pop, 0.0) is None
    pop.close()


def test_requests_between_waits_use_another_connection(redis_server: Store) -> None:
    key = f"{redis_server.prefix}:wakeup"
    pop = BlockingPop((key,))
    assert client().wait(pop, 0.01) is None
    redis_server.raw.rpush(key, "element")

    assert client().wait(f"{key}:other", 0.01) is None

    assert client().wait(pop, 60) == b"element"


def test_several_waits_of_an_event_loop_share_one_command(redis_server: Store) -> None:
    key = f"{redis_server.prefix}:wakeup"
    before = blocked_ids(redis_server)

    async def main() -> None:
        pop = BlockingPop((key,))
        assert await aclient().wait(pop, 0.01) is None
        assert await aclient().wait(pop, 0.0) is None
        redis_server.raw.rpush(key, "element")
        assert await aclient().wait(pop, 60) == b"element"
        assert await aclient().wait(key, 0.01) is None
        await asyncio.to_thread(eventually, lambda: blocked_ids(redis_server) <= before)
        redis_server.raw.rpush(key, "another")
        assert await aclient().wait(key, 60) == b"another"

    run_async(main)


@pytest.mark.parametrize("store", ["valkey"], indirect=True)
def test_wait_continues_after_its_connection_was_lost(store: Store) -> None:
    key = f"{store.prefix}:wakeup"
    pop = BlockingPop((key,))
    before = blocked_ids(store)
    assert client().wait(pop, 0.01) is None
    [waiting] = eventually(lambda: blocked_ids(store) - before)
    store.raw.client_kill_filter(_id=waiting)

    assert client().wait(pop, 0.01) is None
    store.raw.rpush(key, "element")

    assert eventually(lambda: client().wait(pop, 1)) == b"element"

"""Locks that their holder may take again."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from django_redis_components.core.leasing.owner import shared_records
from django_redis_components.locks import Lock, LockLost, LockNotOwned, lock
from tests.support import Store, eventually, run_async, run_together


def test_holder_may_enter_again(store: Store) -> None:
    held = Lock("stock", reentrant=True)

    with held:
        token, number = held.token, held.fencing_token
        with held:
            assert (held.token, held.fencing_token) == (token, number)
        assert held.owned()
    assert not held.locked()


def test_holder_may_enter_through_another_object(store: Store) -> None:
    with Lock("stock", reentrant=True) as outer:
        with Lock("stock", reentrant=True) as inner:
            assert inner.token == outer.token
        assert outer.owned()
    assert not outer.locked()


def test_entering_again_sends_no_request(own_server: Store) -> None:
    held = Lock("stock", reentrant=True)
    held.acquire()
    own_server.servers[0].kill()

    assert held.acquire()
    held.release()

    assert held.token is not None


def test_decorated_function_may_call_itself(store: Store) -> None:
    @lock("stock", reentrant=True)
    def factorial(number: int) -> int:
        return number * factorial(number - 1) if number else 1

    assert factorial(5) == 120
    assert not Lock("stock").locked()


def test_other_threads_are_refused(redis_server: Store) -> None:
    held = Lock("stock", reentrant=True)

    with held:
        assert run_together(2, lambda: held.acquire(blocking=False)) == [False, False]


def test_thread_that_never_acquired_does_not_see_the_lease(redis_server: Store) -> None:
    held = Lock("stock", reentrant=True)
    held.acquire()

    with pytest.raises(LockNotOwned):
        run_together(1, Lock("stock", reentrant=True).release)

    assert held.owned()


def test_other_tasks_are_refused(redis_server: Store) -> None:
    async def main() -> None:
        held = Lock("stock", reentrant=True)

        async def other() -> bool:
            return await held.aacquire(blocking=False)

        async with held, held:
            assert not await asyncio.create_task(other())
        assert not await held.alocked()

    run_async(main)


def test_object_that_is_not_reentrant_is_refused(redis_server: Store) -> None:
    with Lock("stock", reentrant=True):
        assert not Lock("stock").acquire(blocking=False)


def test_lost_lock_cannot_be_entered_again(redis_server: Store) -> None:
    held = Lock("stock", timeout=0.02, reentrant=True)
    held.acquire()
    assert held.lost.wait(60)
    eventually(lambda: not held.locked())

    with pytest.raises(LockLost) as caught:
        held.acquire()

    assert str(caught.value) == ("Lock 'stock' cannot be entered again: its lease expired before it was released.")
    with pytest.raises(LockNotOwned):
        held.release()
    assert held.acquire(blocking_timeout=60)
    held.release()


def test_names_and_connections_are_independent(redis_server: Store) -> None:
    with Lock("stock", reentrant=True) as stock, Lock("price", reentrant=True) as price:
        assert stock.token != price.token


def test_shared_records_are_garbage_collected_with_the_last_lock_of_a_name(redis_server: Store) -> None:
    identity = f"{redis_server.prefix}:locks:{{stock}}"
    held = Lock("stock", reentrant=True)
    with held:
        records = weakref.ref(shared_records("default", identity))
        assert held.flows.leases.records is records()

    del held
    gc.collect()

    assert records() is None

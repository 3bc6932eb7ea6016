"""A limit that is changed for all while the semaphore is in use."""

from __future__ import annotations

import threading

import pytest

from django_redis_components.semaphores import Semaphore, SemaphoreError, SemaphoreFull, TooManyPermits
from tests.semaphores.support import Waiter, held, key_of, queue
from tests.support import Store, eventually, run_async


def test_set_limit_overrides_the_limits_of_all_objects(store: Store) -> None:
    Semaphore("pool", 1, blocking=False).set_limit(3)

    assert [Semaphore("pool", limit, blocking=False).acquire() for limit in (1, 9, 1, 9)] == [True, True, True, False]
    assert Semaphore("pool", 1, blocking=False).inspect().limit == 3
    assert Semaphore("pool", 9, blocking=False).available() == 0


def test_set_limit_remains_until_it_is_set_again(store: Store) -> None:
    semaphore = Semaphore("pool", 5, blocking=False)
    semaphore.set_limit(1)
    with semaphore:
        pass

    assert store.raw.pttl(f"{key_of(store)}:limit") == -1
    assert (semaphore.limit, semaphore.inspect().limit) == (5, 1)


def test_set_limit_none_restores_the_limits_of_the_objects(store: Store) -> None:
    semaphore = Semaphore("pool", 5, blocking=False)
    semaphore.set_limit(1)

    semaphore.set_limit(None)

    assert semaphore.inspect().limit == 5
    assert semaphore.available() == 5
    assert store.keys() == []


def test_lower_limit_revokes_no_permits(store: Store) -> None:
    first, second, third = (held(limit=3) for _ in range(3))

    first.set_limit(1)

    assert first.available() == 0
    assert [first.reacquire(), second.reacquire(), third.reacquire()] == [True, True, True]
    first.release()
    second.release()
    assert not Semaphore("pool", 3, blocking=False).acquire()
    third.release()
    assert Semaphore("pool", 3, blocking=False).acquire()


def test_higher_limit_serves_waiters_at_once_in_fifo_order(store: Store) -> None:
    holder = held()
    waiters = [Waiter() for _ in range(3)]

    holder.set_limit(3)

    assert store.raw.zcard(key_of(store)) == 3, "granted before anybody asks again"
    assert [waiter.is_served() for waiter in waiters] == [True, True, False]


def test_higher_limit_wakes_waiters(store: Store) -> None:
    holder, waiter = held(), Semaphore("pool", 1)
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(waiter.acquire()))
    thread.start()
    eventually(lambda: len(queue(store)) == 1, timeout_s=30)

    holder.set_limit(2)

    thread.join(30)
    assert got == [True]


def test_set_limit_none_serves_waiters_under_their_own_limits(store: Store) -> None:
    holder = Semaphore("pool", 2, blocking=False)
    holder.set_limit(1)
    assert holder.acquire()
    waiter = Waiter(limit=2)

    holder.set_limit(None)

    assert store.raw.zcard(key_of(store)) == 2
    assert waiter.is_served()


def test_acquire_raises_when_more_permits_than_the_limit_are_requested(store: Store) -> None:
    semaphore = Semaphore("pool", 5)
    semaphore.set_limit(2)

    with pytest.raises(TooManyPermits) as caught:
        semaphore.acquire(3)

    assert str(caught.value) == "Requested 3 permits of semaphore 'pool'; the limit is 2."
    assert (caught.value.name, caught.value.permits, caught.value.limit) == ("pool", 3, 2)
    assert isinstance(caught.value, SemaphoreError)
    assert queue(store) == []


def test_waiter_above_a_lowered_limit_gets_an_error_and_blocks_no_others(store: Store) -> None:
    holder = held(limit=3, permits=3)
    many, few = Waiter(limit=3, permits=3), Waiter(limit=3)
    holder.set_limit(2)

    holder.release()

    assert few.is_served()
    assert store.raw.exists(many.steps.request.wakeup.keys[0]), "it need not wait for the end of its slice"
    assert not many.is_served()
    assert isinstance(many.steps.error, TooManyPermits)


def test_waiter_refused_by_a_lowered_limit_unblocks_later_ones(store: Store) -> None:
    holder = held(limit=3, permits=3)
    many, few = Waiter(limit=3, permits=3), Waiter(limit=3)
    holder.set_limit(2)
    store.raw.delete(key_of(store))  # expired

    assert not many.is_served()

    assert isinstance(many.steps.error, TooManyPermits)
    assert store.raw.zcard(key_of(store)) == 1, "granted to the waiter behind it"
    assert few.is_served()


def test_acquire_with_a_held_token_succeeds_above_a_lowered_limit(store: Store) -> None:
    holder = held(limit=3, permits=3)
    waiter = Waiter(limit=3, permits=3)
    holder.release()

    holder.set_limit(1)

    assert waiter.is_served()


def test_error_names_the_limit_in_force(store: Store) -> None:
    Semaphore("pool", 5, blocking=False).set_limit(1)
    Semaphore("pool", 5, blocking=False).acquire()

    with pytest.raises(SemaphoreFull) as caught, Semaphore("pool", 5, blocking=False):
        pytest.fail("the block ran")

    assert str(caught.value) == "Semaphore 'pool' is full: its only permit is held by other owners."
    assert caught.value.limit == 1


@pytest.mark.contract
def test_async_twins_set_and_apply_the_limit(store: Store) -> None:
    async def main() -> None:
        semaphore = Semaphore("pool", 5, blocking=False)
        await semaphore.aset_limit(2)
        assert (await semaphore.ainspect()).limit == 2
        with pytest.raises(TooManyPermits):
            await semaphore.aacquire(3)
        await semaphore.aset_limit(None)
        assert await semaphore.aacquire(3)

    run_async(main)


@pytest.mark.parametrize(
    ("limit", "error", "text"),
    [
        (0, ValueError, "limit=0: expected an integer from 1 to 1000000."),
        (-1, ValueError, "limit=-1: expected an integer from 1 to 1000000."),
        (1_000_001, ValueError, "limit=1000001: expected an integer from 1 to 1000000."),
        ("3", TypeError, "limit='3': expected an integer from 1 to 1000000."),
    ],
)
def test_invalid_limit_is_refused(redis_server: Store, limit: object, error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        Semaphore("pool", 3, blocking=False).set_limit(limit)

    assert str(caught.value) == text
    assert redis_server.keys() == []

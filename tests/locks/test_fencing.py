"""The numbers of grants."""

from __future__ import annotations

import time

from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from tests.locks.steps import acquisition
from tests.support import Store


def fence_key(store: Store) -> str:
    return f"{store.prefix}:locks:{{stock}}:fence"


def grant() -> int:
    with Lock("stock") as lock:
        assert lock.fencing_token is not None
        return lock.fencing_token


def test_each_grant_has_a_higher_fencing_token(store: Store) -> None:
    numbers = [grant() for _ in range(50)]

    assert numbers == sorted(set(numbers))


def test_fencing_token_fits_into_a_double_and_a_bigint(store: Store) -> None:
    assert time.time() * 1e6 - 3.6e9 < grant() < 2**53


def test_fencing_token_grows_after_the_stored_one_was_lost(store: Store) -> None:
    before = grant()
    store.raw.delete(fence_key(store))

    assert grant() > before


def test_fencing_token_grows_after_all_keys_were_lost(own_server: Store) -> None:
    lock = Lock("stock")
    lock.acquire()
    own_server.raw.flushall()

    assert grant() > lock.fencing_token


def test_fencing_token_grows_after_the_server_clock_was_set_back(store: Store) -> None:
    ahead = 2**52
    store.raw.set(fence_key(store), ahead)

    assert [grant(), grant()] == [ahead + 1, ahead + 2]
    assert store.raw.get(fence_key(store)) == b"%d" % (ahead + 2)


def test_handoff_gets_a_new_fencing_token(store: Store) -> None:
    holder, waiter = Lock("stock"), Lock("stock")
    holder.acquire()
    first = holder.fencing_token
    steps = acquisition(waiter)
    steps.perform()

    holder.release()
    steps.perform()
    steps.perform()

    assert waiter.fencing_token > first
    assert int(store.raw.get(fence_key(store))) == waiter.fencing_token


def test_grant_whose_fencing_token_was_lost_gets_a_new_one(store: Store) -> None:
    first, again = Lock("stock"), Lock("stock")
    first.acquire()
    store.raw.delete(fence_key(store))

    again.acquire(token=first.token)

    assert again.fencing_token > first.fencing_token


#: A lease that is longer than what the fence has beyond it, in seconds and in milliseconds.
LONG_S, LONG_MS = 7_200, 7_200_000


def test_fencing_token_outlives_an_extended_lease(store: Store) -> None:
    with Lock("stock") as lock:
        lock.extend(LONG_S)

        assert store.raw.pttl(fence_key(store)) > LONG_MS + 3_500_000


def test_fencing_token_outlives_a_lease_granted_by_handoff(store: Store) -> None:
    first = Lock("stock")
    first.acquire()
    second = acquisition(Lock("stock", timeout=LONG_S))
    second.perform()

    first.release()
    while second.request:
        second.perform()

    assert second.value is True
    assert store.raw.pttl(fence_key(store)) > LONG_MS + 3_500_000


def test_fencing_token_of_a_group_outlives_its_lease(store: Store) -> None:
    fence = f"{store.prefix}:locks:{{house}}:group:fence:stock"
    with MultiLock("stock", group="house") as lock:
        lock.extend(LONG_S)
        assert store.raw.pttl(fence) > LONG_MS + 3_500_000

        MultiLock("stock", group="house", timeout=2 * LONG_S).acquire(token=lock.token)
        assert store.raw.pttl(fence) > 2 * LONG_MS + 3_500_000


def test_fencing_token_of_a_writer_outlives_its_lease(store: Store) -> None:
    fence = f"{store.prefix}:locks:{{stock}}:rw:fence"
    with ReadWriteLock("stock").write() as lock:
        lock.extend(LONG_S)
        assert store.raw.pttl(fence) > LONG_MS + 3_500_000

        ReadWriteLock("stock", timeout=2 * LONG_S).write().acquire(token=lock.token)
        assert store.raw.pttl(fence) > 2 * LONG_MS + 3_500_000

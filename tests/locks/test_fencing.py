"""The numbers of grants."""

from __future__ import annotations

import time

from django_redis_components.locks import Lock
from tests.locks.steps import Steps
from tests.support import Store


def fence_key(store: Store) -> str:
    return f"{store.prefix}:locks:{{door}}:fence"


def grant() -> int:
    with Lock("door") as lock:
        assert lock.fencing_token is not None
        return lock.fencing_token


def test_each_grant_has_a_higher_number(store: Store) -> None:
    numbers = [grant() for _ in range(50)]

    assert numbers == sorted(set(numbers))


def test_a_number_fits_into_a_double_and_a_bigint(store: Store) -> None:
    assert time.time() * 1e6 - 3.6e9 < grant() < 2**53


def test_the_number_grows_also_when_the_last_one_is_lost(store: Store) -> None:
    before = grant()
    store.raw.delete(fence_key(store))

    assert grant() > before


def test_the_number_grows_also_when_everything_is_lost(own_server: Store) -> None:
    lock = Lock("door")
    lock.acquire()
    own_server.raw.flushall()

    assert grant() > lock.fencing_token


def test_the_number_grows_also_when_the_servers_clock_was_set_back(store: Store) -> None:
    ahead = 2**52
    store.raw.set(fence_key(store), ahead)

    assert [grant(), grant()] == [ahead + 1, ahead + 2]
    assert store.raw.get(fence_key(store)) == b"%d" % (ahead + 2)


def test_a_hand_off_has_a_number_of_its_own(store: Store) -> None:
    holder, waiter = Lock("door"), Lock("door")
    holder.acquire()
    first = holder.fencing_token
    steps = Steps(waiter._holder.acquire())
    steps.go()

    holder.release()
    steps.go()
    steps.go()

    assert waiter.fencing_token > first
    assert int(store.raw.get(fence_key(store))) == waiter.fencing_token


def test_a_grant_whose_number_was_lost_gets_a_new_one(store: Store) -> None:
    first, again = Lock("door"), Lock("door")
    first.acquire()
    store.raw.delete(fence_key(store))

    again.acquire(token=first.token)

    assert again.fencing_token > first.fencing_token

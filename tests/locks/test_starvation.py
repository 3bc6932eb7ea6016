"""No starvation: a waiter is overtaken at most once by each other contender, in any order of requests."""

from __future__ import annotations

import pytest

from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.locks.base import BaseLock
from tests.locks.fairness import Contender, contend, lengthen_handoffs
from tests.support import Store

CONTENDERS = 8
REQUESTS = 600


@pytest.fixture(autouse=True)
def _long_handoffs(monkeypatch: pytest.MonkeyPatch) -> None:
    lengthen_handoffs(monkeypatch)


def contender(lock: BaseLock, *names: str) -> Contender:
    return Contender((lock.flows.acquire, lock.flows.release), names or ("all",))


def assert_no_starvation(store: Store, contenders: list[Contender], seed: int) -> None:
    contend(store, contenders, REQUESTS, seed)

    assert max(each.max_overtaken for each in contenders) <= len(contenders) - 1
    assert min(each.grants for each in contenders) > 0


@pytest.mark.parametrize("seed", range(3))
def test_waiters_of_a_lock_are_not_starved(store: Store, seed: int) -> None:
    assert_no_starvation(store, [contender(Lock("stock")) for _ in range(CONTENDERS)], seed)


@pytest.mark.parametrize("readers", [1, 4, 7])
def test_readers_and_writers_are_not_starved(store: Store, readers: int) -> None:
    page = ReadWriteLock("page")
    sides = [page.read() if number < readers else page.write() for number in range(CONTENDERS)]

    assert_no_starvation(store, [contender(side) for side in sides], seed=readers)


@pytest.mark.parametrize("seed", range(3))
def test_group_waiters_are_not_starved_whatever_their_number_of_names(store: Store, seed: int) -> None:
    requested = ["abcd", "a", "b", "c", "d", "ab", "cd", "bc"]
    contenders = [contender(MultiLock(*names, group="items"), *names) for names in requested]

    assert_no_starvation(store, contenders, seed)


def test_overtaking_is_counted_when_the_lock_is_not_fair(redis_server: Store) -> None:
    contenders = [contender(Lock("stock", fair=False)) for _ in range(CONTENDERS)]

    contend(redis_server, contenders, REQUESTS, seed=1)

    assert max(each.max_overtaken for each in contenders) > CONTENDERS - 1

"""Nobody starves: who stands in line lets each of the others have one turn at most, whatever the order of events."""

from __future__ import annotations

import pytest

from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.locks.base import BaseLock
from tests.locks.contenders import Contender, contend
from tests.support import Store

CROWD = 8
MOVES = 600


def contender(lock: BaseLock, *names: str) -> Contender:
    return Contender((lock.flows.acquire, lock.flows.release), names or ("all",))


def assert_nobody_starves(store: Store, contenders: list[Contender], seed: int) -> None:
    contend(store, contenders, MOVES, seed)

    assert max(each.worst for each in contenders) <= len(contenders) - 1
    assert min(each.turns for each in contenders) > 0


@pytest.mark.parametrize("seed", range(3))
def test_waiters_of_a_lock_are_not_starved(store: Store, seed: int) -> None:
    assert_nobody_starves(store, [contender(Lock("door")) for _ in range(CROWD)], seed)


@pytest.mark.parametrize("readers", [1, 4, 7])
def test_readers_and_writers_are_not_starved(store: Store, readers: int) -> None:
    page = ReadWriteLock("page")
    sides = [page.read() if number < readers else page.write() for number in range(CROWD)]

    assert_nobody_starves(store, [contender(side) for side in sides], seed=readers)


@pytest.mark.parametrize("seed", range(3))
def test_group_waiters_are_not_starved_whatever_their_number_of_names(store: Store, seed: int) -> None:
    wishes = ["abcd", "a", "b", "c", "d", "ab", "cd", "bc"]
    contenders = [contender(MultiLock(*names, group="doors"), *names) for names in wishes]

    assert_nobody_starves(store, contenders, seed)


def test_overtaking_is_counted_when_the_lock_is_not_fair(redis_server: Store) -> None:
    contenders = [contender(Lock("door", fair=False)) for _ in range(CROWD)]

    contend(redis_server, contenders, MOVES, seed=1)

    assert max(each.worst for each in contenders) > CROWD - 1

"""Nobody starves at a semaphore, and least of all who wants many permits: counted in turns, not in time."""

from __future__ import annotations

import pytest

from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.semaphores import Semaphore
from tests.locks.contenders import Contender, contend
from tests.support import Store

LIMIT = 5
MOVES = 800


def contender(permits: int) -> Contender:
    flows = Semaphore("pool", LIMIT).flows
    return Contender((lambda: flows.acquire(acquisition=Acquisition(permits=permits)), flows.release))


@pytest.mark.parametrize("seed", range(3))
def test_who_wants_all_permits_has_its_turn_as_soon_as_the_others(store: Store, seed: int) -> None:
    contenders = [contender(permits) for permits in (LIMIT, 1, 1, 1, 2, 2, 3, 1, 1)]

    contend(store, contenders, MOVES, seed)

    assert max(each.worst for each in contenders) <= len(contenders) - 1
    assert min(each.turns for each in contenders) > 0


def test_a_crowd_that_wants_all_has_no_more_than_one_turn_each_before_who_wants_one(store: Store) -> None:
    contenders = [contender(1), *(contender(LIMIT) for _ in range(6))]

    contend(store, contenders, MOVES, seed=7)

    assert max(each.worst for each in contenders) <= len(contenders) - 1
    assert min(each.turns for each in contenders) > 0

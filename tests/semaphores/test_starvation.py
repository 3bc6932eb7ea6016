"""No starvation at a semaphore, whatever the number of permits requested: counted in grants, not in time."""

from __future__ import annotations

import pytest

from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.semaphores import Semaphore
from tests.locks.fairness import Contender, contend, lengthen_handoffs
from tests.support import Store

LIMIT = 5
REQUESTS = 800


@pytest.fixture(autouse=True)
def _long_handoffs(monkeypatch: pytest.MonkeyPatch) -> None:
    lengthen_handoffs(monkeypatch)


def contender(permits: int) -> Contender:
    flows = Semaphore("pool", LIMIT).flows
    return Contender((lambda: flows.acquire(acquisition=Acquisition(permits=permits)), flows.release))


@pytest.mark.parametrize("seed", range(3))
def test_request_for_all_permits_is_not_starved(store: Store, seed: int) -> None:
    contenders = [contender(permits) for permits in (LIMIT, 1, 1, 1, 2, 2, 3, 1, 1)]

    contend(store, contenders, REQUESTS, seed)

    assert max(each.max_overtaken for each in contenders) <= len(contenders) - 1
    assert min(each.grants for each in contenders) > 0


def test_request_for_one_permit_is_not_starved_by_large_requests(store: Store) -> None:
    contenders = [contender(1), *(contender(LIMIT) for _ in range(6))]

    contend(store, contenders, REQUESTS, seed=7)

    assert max(each.max_overtaken for each in contenders) <= len(contenders) - 1
    assert min(each.grants for each in contenders) > 0

"""What the dashboard reads of a semaphore."""

from __future__ import annotations

import pytest

from django_redis_components.core.client.connections import client
from django_redis_components.core.protocol import run
from django_redis_components.semaphores import Semaphore
from django_redis_components.semaphores.state import SemaphoreState, inspect, permits_of
from tests.support import Store


def test_the_state_tells_holders_limit_and_who_waits(store: Store) -> None:
    three, one = Semaphore("reports", 5, timeout=60), Semaphore("reports", 4, timeout=30)
    three.acquire(permits=3)
    one.acquire()
    waiting = Semaphore("reports", 4)
    client().execute(waiting._holder._ask("w:4:4", True))

    state = run(client(), inspect("reports"))

    assert (state.held, state.limit, state.waiting) == (4, 5, 1)
    left = {permits_of(permit)[0]: seconds for permit, seconds in state.permits.items()}
    assert 20 < left[1] <= 30 < left[3] <= 60


def test_a_limit_that_was_set_counts_for_all(store: Store) -> None:
    semaphore = Semaphore("reports", 5, timeout=60)
    semaphore.acquire()
    semaphore.set_limit(2)

    assert run(client(), inspect("reports")).limit == 2


def test_a_semaphore_that_nobody_uses_is_empty(store: Store) -> None:
    assert run(client(), inspect("never")) == SemaphoreState(0, None, {}, 0)


@pytest.mark.parametrize(("permit", "said"), [("ab:2:5", (2, 5)), ("ab", (1, None)), ("a:b:c", (1, None))])
def test_a_permit_tells_how_many_it_counts_for(permit: str, said: tuple[int, int | None]) -> None:
    assert permits_of(permit) == said

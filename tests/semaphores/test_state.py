"""`Semaphore.inspect`, and what the dashboard reads of a semaphore."""

from __future__ import annotations

from functools import partial

import pytest

from django_redis_components.core.client.connections import client
from django_redis_components.core.protocol import run
from django_redis_components.semaphores import PermitHolder, Semaphore, SemaphoreState, aforce_release, force_release
from django_redis_components.semaphores.permits import PermitKind
from django_redis_components.semaphores.state import parse_permit
from tests.locks.steps import acquisition
from tests.support import Store, run_async


def inspected(name: str) -> SemaphoreState:
    """Return the state as read by a process that has no object of this name."""
    return run(client(), PermitKind(name).inspect())


def test_inspect_reports_holders_limit_and_waiters(store: Store) -> None:
    three, one = Semaphore("reports", 5, timeout=60), Semaphore("reports", 4, timeout=30)
    three.acquire(permits=3)
    one.acquire()
    acquisition(Semaphore("reports", 4)).perform()

    state = inspected("reports")

    assert (state.held, state.limit, state.waiting) == (4, 5, 1)
    assert [holder.permits for holder in state.holders] == [1, 3]
    assert state.holders[0].token == one.token
    assert 20 < state.holders[0].remaining <= 30 < state.holders[1].remaining <= 60
    assert [waiter.split(":")[1:] for waiter in state.waiters] == [["1", "4"]]
    assert Semaphore("reports", 9).inspect().limit == 9


def test_inspect_reports_the_limit_that_was_set_for_all(store: Store) -> None:
    semaphore = Semaphore("reports", 5, timeout=60)
    semaphore.acquire()
    semaphore.set_limit(2)

    assert inspected("reports").limit == semaphore.inspect().limit == 2


def test_inspect_of_an_unused_semaphore_is_empty(store: Store) -> None:
    assert inspected("never") == SemaphoreState(None, 0, (), 0, ())


@pytest.mark.parametrize(("token", "expected"), [("ab:2:5", (2, 5)), ("ab", (1, None)), ("a:b:c", (1, None))])
def test_a_token_contains_permits_and_limit(token: str, expected: tuple[int, int | None]) -> None:
    assert parse_permit(token) == expected


def test_force_release_releases_every_holder_and_serves_waiters(store: Store) -> None:
    first, second = Semaphore("reports", 2, timeout=60), Semaphore("reports", 2, timeout=60)
    first.acquire()
    second.acquire()
    waiter = acquisition(Semaphore("reports", 2, timeout=60), permits=2)
    waiter.perform()

    assert force_release("reports") == 2

    assert [holder.permits for holder in first.inspect().holders] == [2]
    assert not first.owned()
    waiter.send(None)
    waiter.perform()
    assert waiter.value is True


@pytest.mark.parametrize("token", ["x", "x:1", "x:0:2", "x:1001:2", "x:99999999999:2"])
def test_force_release_of_a_token_that_no_permit_has_releases_nothing(redis_server: Store, token: str) -> None:
    permit = Semaphore("reports", 2)
    permit.acquire()

    assert force_release("reports", token=token) == run_async(partial(aforce_release, "reports", token=token)) == 0
    assert permit.owned()


def test_force_release_of_a_token_releases_no_other(store: Store) -> None:
    first, second = Semaphore("reports", 2, timeout=60), Semaphore("reports", 2, timeout=60)
    first.acquire()
    second.acquire()

    assert force_release("reports", token=first.token) == 1
    assert force_release("reports", token=first.token) == 0
    assert run_async(aforce_release, "never") == 0

    [left] = second.inspect().holders
    assert isinstance(left, PermitHolder)
    assert left.token == second.token

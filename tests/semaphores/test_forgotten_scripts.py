"""SCRIPT FLUSH before each request of each operation: nobody notices."""

from __future__ import annotations

import pytest

from django_redis_components.core.leasing.renewal import LeaseWatch, _extend_all
from django_redis_components.core.leasing.renewal_policy import renewal_policy_for
from django_redis_components.semaphores import Semaphore
from tests.locks.steps import Steps, flushed
from tests.support import Store, run_async


def pool(**options: object) -> Semaphore:
    return Semaphore("pool", 2, **options)


def test_a_permit_is_taken_lengthened_and_given_back(store: Store) -> None:
    holder = pool()._holder

    assert flushed(store, holder.acquire(2)) is True
    assert flushed(store, holder.refresh()) is True
    assert flushed(store, holder.available()) == 0
    assert [found.permits for found in flushed(store, holder.holders())] == [2]
    assert flushed(store, holder.release()) is True

    assert pool().available() == 2


def test_the_limit_is_set_for_all(store: Store) -> None:
    flushed(store, pool()._holder.set_limit(7))

    assert flushed(store, pool()._holder.limit_in_force()) == 7
    flushed(store, pool()._holder.set_limit(None))
    assert flushed(store, pool()._holder.limit_in_force()) == 2


def test_who_waits_is_refused_or_served(store: Store) -> None:
    other = pool()
    other.acquire(2)
    assert flushed(store, pool()._holder.acquire(1)) is False
    waiter = Steps(pool(blocking=True)._holder.acquire(2))
    waiter.go()

    assert flushed(store, other._holder.release()) is True

    while waiter.value is None:
        store.raw.script_flush()
        waiter.go()
    assert waiter.value is True


def test_an_interrupted_waiter_leaves_the_line(store: Store) -> None:
    other = pool()
    other.acquire(2)
    waiter = Steps(pool(blocking=True)._holder.acquire(1))
    waiter.go()

    waiter.throw(KeyboardInterrupt())
    while waiter.request is not None:
        store.raw.script_flush()
        waiter.go()

    assert isinstance(waiter.error, KeyboardInterrupt)
    other.release()
    assert pool().available() == 2


def test_a_renewal_by_the_watchdog(store: Store) -> None:
    semaphore = pool()
    semaphore.acquire()
    lease = semaphore._holder.held()
    policy = renewal_policy_for(semaphore, "semaphore", "default", 60, True, None, None)

    watch = LeaseWatch(policy, lease, semaphore._holder._queue.leases, semaphore._holder._extend_calls, 60_000, 0)

    assert flushed(store, _extend_all([(watch, 60_000)])) == [1]


@pytest.mark.contract
def test_the_twins(store: Store) -> None:
    async def main() -> None:
        semaphore = pool()
        for method in ("aacquire", "arefresh", "aavailable", "aholders", "alimit_in_force", "arelease"):
            store.raw.script_flush()
            assert await getattr(semaphore, method)()
        store.raw.script_flush()
        await semaphore.aset_limit(1)

    run_async(main)

    assert pool().available() == 1

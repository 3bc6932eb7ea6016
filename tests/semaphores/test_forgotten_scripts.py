"""SCRIPT FLUSH before each request of each operation: every request still succeeds."""

from __future__ import annotations

import pytest

from django_redis_components.core.leasing.owner import Acquisition
from django_redis_components.core.leasing.renewal import LeaseWatch, extend_all, renewal_policy_for
from django_redis_components.semaphores import Semaphore
from tests.locks.steps import acquisition, flushed
from tests.support import Store, run_async


def pool(**options: object) -> Semaphore:
    return Semaphore("pool", 2, **options)


def test_permits_are_acquired_extended_and_released_after_script_flush(store: Store) -> None:
    flows = pool().flows

    assert flushed(store, flows.acquire(acquisition=Acquisition(permits=2))) is True
    assert flushed(store, flows.extend(60_000)) is True
    assert flushed(store, flows.locked()) is True
    flushed(store, flows.release())

    assert pool().available() == 2


def test_waiter_is_refused_or_served_after_script_flush(store: Store) -> None:
    other = pool()
    other.acquire(2)
    assert flushed(store, pool().flows.acquire(blocking=False)) is False
    waiter = acquisition(pool(), 2)
    waiter.perform()

    flushed(store, other.flows.release())

    while waiter.value is None:
        store.raw.script_flush()
        waiter.perform()
    assert waiter.value is True


def test_interrupted_waiter_leaves_the_queue_after_script_flush(store: Store) -> None:
    other = pool()
    other.acquire(2)
    waiter = acquisition(pool())
    waiter.perform()

    waiter.throw(KeyboardInterrupt())
    while waiter.request is not None:
        store.raw.script_flush()
        waiter.perform()

    assert isinstance(waiter.error, KeyboardInterrupt)
    other.release()
    assert pool().available() == 2


def test_lease_is_renewed_after_script_flush(store: Store) -> None:
    semaphore = pool()
    semaphore.acquire()
    lease = semaphore.flows.owner_lease()
    policy = renewal_policy_for(semaphore, "semaphore", "default", 60, True, None, None)

    watch = LeaseWatch(policy, lease, semaphore.flows.leases, semaphore.flows.kind.extend, 60_000, 0)

    assert flushed(store, extend_all([(watch, 60_000)])) == [1]


@pytest.mark.contract
def test_async_twins_work_after_script_flush(store: Store) -> None:
    async def main() -> None:
        semaphore = pool()
        for method in ("aacquire", "areacquire", "aavailable", "ainspect", "arelease"):
            store.raw.script_flush()
            await getattr(semaphore, method)()
        store.raw.script_flush()
        await semaphore.aset_limit(1)

    run_async(main)

    assert pool().available() == 1

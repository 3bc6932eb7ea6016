"""SCRIPT FLUSH before each request of each operation: the operation still succeeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_redis_components.core.leasing.renewal import LeaseWatch, extend_all, renewal_policy_for
from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.locks.base import BaseLock
from tests.locks.steps import acquisition, flushed
from tests.support import Store, run_async

KINDS: dict[str, Callable[[], BaseLock]] = {
    "lock": lambda: Lock("stock"),
    "group": lambda: MultiLock("a", "b", group="items"),
    "spread": lambda: MultiLock("a", "b"),
    "read": lambda: ReadWriteLock("stock").read(),
    "write": lambda: ReadWriteLock("stock").write(),
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[[], BaseLock]:
    return KINDS[request.param]


def test_lock_is_acquired_extended_and_released_after_script_flush(store: Store, make) -> None:
    lock = make()

    assert flushed(store, lock.flows.acquire()) is True
    assert flushed(store, lock.flows.extend(60_000)) is True
    assert flushed(store, lock.flows.owned()) is True
    assert flushed(store, lock.flows.locked()) is True
    flushed(store, lock.flows.release())

    assert not lock.locked()


def test_waiter_is_refused_or_granted_the_lock_after_script_flush(store: Store, make) -> None:
    other = ReadWriteLock("stock").write() if "Read" in repr(make()) else make()
    other.acquire()
    assert flushed(store, make().flows.acquire(blocking=False)) is False
    waiter = acquisition(make())
    waiter.perform()

    flushed(store, other.flows.release())

    while waiter.value is None:
        store.raw.script_flush()
        waiter.perform()
    assert waiter.value is True


def test_interrupted_waiter_leaves_the_queue_after_script_flush(store: Store, make) -> None:
    other = ReadWriteLock("stock").write() if "Read" in repr(make()) else make()
    other.acquire()
    waiter = acquisition(make())
    waiter.perform()

    waiter.throw(KeyboardInterrupt())
    while waiter.request is not None:
        store.raw.script_flush()
        waiter.perform()

    assert isinstance(waiter.error, KeyboardInterrupt)
    other.release()
    assert not make().locked()


@pytest.mark.contract
def test_inspect_works_after_script_flush(store: Store) -> None:
    store.raw.script_flush()
    assert Lock("stock").inspect().holder is None
    store.raw.script_flush()
    assert ReadWriteLock("stock").inspect().writer is None
    store.raw.script_flush()
    assert MultiLock("a", "b", group="items").inspect()["a"].holder is None


def test_lease_is_renewed_after_script_flush(store: Store, make) -> None:
    lock = make()
    lock.acquire()
    lease = lock.flows.owner_lease()
    policy = renewal_policy_for(lock, "lock", "default", 60, True, None, None)

    watch = LeaseWatch(policy, lease, lock.flows.leases, lock.flows.kind.extend, 60_000, 0)

    assert flushed(store, extend_all([(watch, 60_000)])) in ([1], [True])


def test_async_twins_work_after_script_flush(store: Store, make) -> None:
    async def main() -> None:
        lock = make()
        for method, arguments in {
            "aacquire": (),
            "aextend": (60,),
            "areacquire": (),
            "aowned": (),
            "alocked": (),
            "arelease": (),
        }.items():
            store.raw.script_flush()
            assert await getattr(lock, method)(*arguments) in (True, None)

    run_async(main)

    assert not make().locked()

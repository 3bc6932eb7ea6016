"""SCRIPT FLUSH before each request of each operation: nobody notices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_redis_components.core.protocol import Flow
from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.locks.holdable import Holdable
from tests.locks.steps import Steps
from tests.support import Store

KINDS: dict[str, Callable[[], Holdable]] = {
    "lock": lambda: Lock("door"),
    "group": lambda: MultiLock("a", "b", group="doors"),
    "spread": lambda: MultiLock("a", "b"),
    "read": lambda: ReadWriteLock("door").read(),
    "write": lambda: ReadWriteLock("door").write(),
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[[], Holdable]:
    return KINDS[request.param]


def flushed(store: Store, flow: Flow[object]) -> object:
    """Drive a flow to its end; before each of its requests the server forgets all scripts."""
    steps = Steps(flow)
    while steps.request is not None:
        store.raw.script_flush()
        steps.go()
    if steps.error is not None:
        raise steps.error
    return steps.value


def test_a_lock_is_taken_lengthened_and_given_back(store: Store, make) -> None:
    lock = make()

    assert flushed(store, lock._holder.acquire()) is True
    assert flushed(store, lock._holder.extend(60_000)) is True
    assert flushed(store, lock._holder.owned()) is True
    assert flushed(store, lock._holder.locked()) is True
    flushed(store, lock._holder.release())

    assert not lock.locked()


def test_who_waits_is_refused_or_handed_the_lock(store: Store, make) -> None:
    other = ReadWriteLock("door").write() if "Read" in repr(make()) else make()
    other.acquire()
    assert flushed(store, make()._holder.acquire(blocking=False)) is False
    waiter = Steps(make()._holder.acquire())
    waiter.go()

    flushed(store, other._holder.release())

    while waiter.value is None:
        store.raw.script_flush()
        waiter.go()
    assert waiter.value is True


def test_an_interrupted_waiter_leaves_the_line(store: Store, make) -> None:
    other = ReadWriteLock("door").write() if "Read" in repr(make()) else make()
    other.acquire()
    waiter = Steps(make()._holder.acquire())
    waiter.go()

    waiter.throw(KeyboardInterrupt())
    while waiter.request is not None:
        store.raw.script_flush()
        waiter.go()

    assert isinstance(waiter.error, KeyboardInterrupt)
    other.release()
    assert not make().locked()


def test_inspection(store: Store) -> None:
    store.raw.script_flush()
    assert Lock("door").inspect().holder is None
    store.raw.script_flush()
    assert ReadWriteLock("door").inspect().writer is None
    store.raw.script_flush()
    assert MultiLock("a", "b", group="doors").inspect()["a"].holder is None

"""`held_elsewhere()` and `assert_not_held()`."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.locks import Lock, LockNotAcquired, MultiLock, ReadWriteLock
from django_redis_components.semaphores import Semaphore
from django_redis_components.testing import assert_not_held, held_elsewhere
from tests.support import Store

pytestmark = pytest.mark.usefixtures("redis_server")

KINDS = {
    "lock": lambda: Lock("stock", blocking=False),
    "reentrant": lambda: Lock("stock", blocking=False, reentrant=True),
    "multi": lambda: MultiLock("a", "b", blocking=False),
    "read": lambda: ReadWriteLock("file", blocking=False).read(),
    "write": lambda: ReadWriteLock("file", blocking=False).write(),
    "semaphore": lambda: Semaphore("gateway", 3, blocking=False),
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "read"])
def test_this_thread_cannot_acquire_what_is_held_elsewhere(kind: str) -> None:
    held = KINDS[kind]()

    with held_elsewhere(held):
        assert not held.acquire(blocking=False)

    assert held.acquire(blocking=False)
    held.release()


def test_name_is_that_of_a_lock() -> None:
    with held_elsewhere("stock"), pytest.raises(LockNotAcquired), Lock("stock", blocking=False):
        pass


def test_lock_is_released_when_the_block_raises() -> None:
    with pytest.raises(LookupError), held_elsewhere("stock"):
        raise LookupError

    assert_not_held("stock")


def test_what_is_already_held_is_an_error() -> None:
    with Lock("stock"), pytest.raises(AssertionError, match=r"<Lock 'stock'> is already held by .+, process"):
        held_elsewhere("stock").__enter__()


def test_semaphore_without_free_permits_is_an_error() -> None:
    held = Semaphore("gateway", 1)

    with held, pytest.raises(AssertionError, match="<Semaphore 'gateway' of 1> is already held"):
        held_elsewhere(held).__enter__()


@pytest.mark.parametrize("kind", KINDS)
def test_assert_not_held_names_what_is_held(kind: str) -> None:
    held: Any = KINDS[kind]()
    assert_not_held(held)

    held.acquire()
    with pytest.raises(AssertionError, match="is held"):
        assert_not_held("other", held)
    held.release()

    assert_not_held(held)


def test_assert_not_held_names_the_holder(redis_server: Store) -> None:
    with Lock("stock"), pytest.raises(AssertionError, match=r"^<Lock 'stock'> is held by .+, process \d+, thread "):
        assert_not_held("stock")


def test_other_objects_are_refused() -> None:
    lock: Any = ReadWriteLock("file")
    with pytest.raises(TypeError, match="a side of a ReadWriteLock"):
        assert_not_held(lock)

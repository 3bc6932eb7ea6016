"""`force_release`: an operator releases a lock of any holder."""

from __future__ import annotations

import pytest

from django_redis_components.locks import Lock, LockNotOwned, MultiLock, ReadWriteLock, aforce_release, force_release
from tests.locks.steps import acquisition
from tests.support import Store, run_async


def test_force_release_releases_the_lock_of_any_holder(store: Store) -> None:
    held = Lock("stock", timeout=60)
    held.acquire()

    assert force_release("stock") == 1

    assert not held.locked()
    with pytest.raises(LockNotOwned):
        held.release()


def test_force_release_hands_the_lock_to_the_first_waiter(store: Store) -> None:
    held, waiter = Lock("stock", timeout=60), Lock("stock", timeout=60)
    held.acquire()
    steps = acquisition(waiter)
    steps.perform()

    force_release("stock")

    steps.send(None)
    steps.perform()
    assert steps.value is True
    assert waiter.owned()


def test_force_release_of_a_free_lock_releases_nothing(store: Store) -> None:
    assert force_release("stock") == 0
    assert force_release("stock", group="items") == 0
    assert force_release("stock", readwrite=True) == 0


def test_force_release_of_a_token_spares_a_later_holder(store: Store) -> None:
    first, second = Lock("stock", timeout=60), Lock("stock", timeout=60)
    first.acquire()
    token = first.token
    first.release()
    second.acquire()

    assert force_release("stock", token=token) == 0

    assert second.owned()


def test_force_release_of_a_name_in_a_group_leaves_the_others_held(store: Store) -> None:
    held = MultiLock("a", "b", group="items", timeout=60)
    held.acquire()

    assert force_release("a", group="items") == 1

    states = held.inspect()
    assert (states["a"].holder, states["b"].holder) == (None, held.token)


def test_force_release_of_a_read_write_lock_releases_all_readers_or_the_writer(store: Store) -> None:
    page = ReadWriteLock("page", timeout=60)
    page.read().acquire()
    page.read().acquire()

    assert force_release("page", readwrite=True) == 2

    writer = page.write()
    assert writer.acquire(blocking=False)
    assert run_async(lambda: aforce_release("page", readwrite=True)) == 1
    assert not writer.owned()

"""Locks and semaphores cannot be pickled or copied: a copy would have leases that its caller did not acquire."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.semaphores import Semaphore
from tests.support import Store

MAKERS: dict[str, Callable[[], Any]] = {
    "lock": lambda: Lock("stock"),
    "reentrant": lambda: Lock("stock", reentrant=True),
    "renewed": lambda: Lock("stock", renew=True),
    "names": lambda: MultiLock("stock", "price"),
    "writer": lambda: ReadWriteLock("stock").write(),
    "semaphore": lambda: Semaphore("stock", 1),
}


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_lock_cannot_be_pickled_or_copied(redis_server: Store, make: Callable[[], Any], copied: Any) -> None:
    lock = make()
    for step in (lambda: None, lock.acquire, lock.release):
        step()
        with pytest.raises(TypeError) as raised:
            copied(lock)

        assert str(raised.value) == (
            f"{lock!r} cannot be pickled or copied: its leases belong to threads and tasks of this process. Create"
            " another object of this name there; adopt(token) continues a lease."
        )


def test_read_write_lock_owns_nothing_and_can_be_pickled(redis_server: Store) -> None:
    lock = ReadWriteLock("stock", timeout=7)
    with lock.write():
        another = pickle.loads(pickle.dumps(lock))  # noqa: S301 - what this test has dumped

        assert not another.write().owned()
        assert not another.write().acquire(blocking=False)

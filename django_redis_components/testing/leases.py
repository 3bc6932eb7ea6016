"""`held_elsewhere()` and `assert_not_held()`: locks and semaphores in tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from django_redis_components.locks import Lock, MultiLock, ReadLock, WriteLock
from django_redis_components.semaphores import Semaphore

#: What can be held.
Held = Lock | MultiLock | ReadLock | WriteLock | Semaphore


@contextlib.contextmanager
def held_elsewhere(lock: str | Held) -> Iterator[None]:
    """Hold a lock, or all free permits of a semaphore, within the block, as another thread.

    The code under test meets a lock with another holder: its `acquire` waits, fails or is skipped.

    Args:
        lock: the object, or the name of a `Lock`; of a `ReadWriteLock` one of its sides.

    Raises:
        AssertionError: it is already held.
        TypeError: it is none of these.
    """
    held = _held(lock)
    with ThreadPoolExecutor(1, "held_elsewhere") as pool:
        if not pool.submit(_acquire, held).result():
            raise AssertionError(f"{held!r} is already held{_holders(held)}.")
        try:
            yield
        finally:
            pool.submit(held.release).result()


def assert_not_held(*locks: str | Held) -> None:
    """Assert that nothing holds the locks, or any permit of the semaphores.

    Args:
        locks: as for `held_elsewhere`.

    Raises:
        AssertionError: one is held; the message names it and its holder.
        TypeError: it is none of these.
    """
    for lock in locks:
        held = _held(lock)
        is_held = held.inspect().held > 0 if isinstance(held, Semaphore) else held.locked()
        if is_held:
            raise AssertionError(f"{held!r} is held{_holders(held)}.")


def _held(lock: str | Held) -> Held:
    if isinstance(lock, str):
        return Lock(lock)
    if not isinstance(lock, Held):
        raise TypeError(
            f"{lock!r}: expected the name of a lock, or a Lock, MultiLock, Semaphore, or a side of a ReadWriteLock."
        )
    return lock


def _acquire(held: Held) -> bool:
    if not isinstance(held, Semaphore):
        return held.acquire(blocking=False)
    permits = held.available()
    return permits > 0 and held.acquire(permits, blocking=False)


def _holders(held: Held) -> str:
    """Return " by …", or "" if the holder is not known."""
    found: list[object] = []
    if isinstance(held, Lock):
        found = [held.inspect().held_by]
    elif isinstance(held, MultiLock):
        found = [state.held_by for state in held.inspect().values()]
    elif isinstance(held, Semaphore):
        found = [holder.held_by for holder in held.inspect().holders]
    names = list(dict.fromkeys(str(holder) for holder in found if holder))
    return f" by {', '.join(names)}" if names else ""

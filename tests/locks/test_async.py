"""The asyncio twins: the same promises, without a thread."""

from __future__ import annotations

import asyncio
import contextlib
import inspect

import pytest
from asgiref.sync import iscoroutinefunction

from django_redis_components.locks import Lock, LockNotAcquired, LockNotOwned
from tests.support import Store, eventually, run_async

pytestmark = pytest.mark.integration

#: Methods that ask the server.
ASKING = ["acquire", "release", "extend", "reacquire", "owned", "locked"]


def test_every_method_that_sends_requests_has_an_async_twin_with_the_same_arguments() -> None:
    for name in ASKING:
        method, twin = getattr(Lock, name), getattr(Lock, f"a{name}")

        assert iscoroutinefunction(twin)
        assert inspect.signature(method).parameters.keys() == inspect.signature(twin).parameters.keys()


def test_lock_is_acquired_extended_and_released(store: Store) -> None:
    async def main() -> None:
        lock, other = Lock("stock", timeout=5), Lock("stock")

        assert await lock.aacquire()
        assert await lock.aowned()
        assert await other.alocked()
        assert not await other.aacquire(blocking=False)
        assert not await other.aowned()
        assert await lock.aextend(60)
        assert await lock.areacquire()
        assert lock.remaining() > 30
        lock.check()

        await lock.arelease()
        assert not await lock.alocked()
        with pytest.raises(LockNotOwned):
            await lock.arelease()

    run_async(main)


def test_async_with_keeps_the_lock_during_the_block(store: Store) -> None:
    async def main() -> None:
        async with Lock("stock") as lock:
            assert await lock.aowned()
            with pytest.raises(LockNotAcquired):
                async with Lock("stock", blocking=False):
                    pytest.fail("the block ran")
        assert not await lock.alocked()

    run_async(main)


def test_waiting_task_does_not_block_other_tasks(store: Store) -> None:
    async def main() -> list[str]:
        events: list[str] = []

        async def waiter() -> None:
            async with Lock("stock"):
                events.append("held by the waiter")

        async with Lock("stock"):
            task = asyncio.create_task(waiter())
            for _ in range(3):
                await asyncio.sleep(0.01)
                events.append("others run")
        await task
        return events

    assert run_async(main) == ["others run"] * 3 + ["held by the waiter"]


def test_tasks_share_one_lock_object(store: Store) -> None:
    async def main() -> int:
        lock = Lock("stock")
        inside = most = 0

        async def work() -> None:
            nonlocal inside, most
            async with lock:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.001)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(20)))
        return most

    assert run_async(main) == 1


def test_lock_acquired_in_one_event_loop_is_released_in_another(redis_server: Store) -> None:
    lock = Lock("stock")
    run_async(lock.aacquire)

    run_async(lock.arelease)

    assert not lock.locked()


def test_lock_acquired_by_a_task_is_released_synchronously(redis_server: Store) -> None:
    lock = Lock("stock")
    run_async(lock.aacquire)

    lock.release()

    assert not lock.locked()


def test_cancelled_release_still_releases_the_lock(store: Store) -> None:
    async def main() -> None:
        for turns in range(6):
            lock = Lock("stock")
            await lock.aacquire()
            task = asyncio.create_task(lock.arelease())
            for _ in range(turns):
                await asyncio.sleep(0)
            started = turns > 0

            task.cancel()
            await asyncio.wait([task], timeout=60)

            assert await lock.alocked() is not started
            if not started:
                await lock.arelease()

    run_async(main)


def test_task_whose_wait_was_cancelled_cannot_release_the_lock_of_another(store: Store) -> None:
    async def late(shared: Lock) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await shared.aacquire()
        with pytest.raises(LockNotOwned):
            await shared.arelease()

    async def main() -> None:
        shared = Lock("stock")
        await shared.aacquire()
        task = asyncio.create_task(late(shared))
        await asyncio.to_thread(eventually, lambda: shared.inspect().waiting)
        task.cancel()
        await task
        assert await shared.aowned()

    run_async(main)

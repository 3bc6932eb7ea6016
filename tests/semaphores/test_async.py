"""The asyncio twins."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from asgiref.sync import iscoroutinefunction

from django_redis_components.semaphores import PermitNotOwned, Semaphore, SemaphoreFull
from tests.support import Store, run_async

pytestmark = pytest.mark.integration

#: Methods that ask the server.
ASKING = ["acquire", "release", "extend", "reacquire", "adopt", "owned", "locked", "available", "inspect", "set_limit"]


def test_every_method_that_sends_requests_has_an_async_twin_with_the_same_arguments() -> None:
    for name in ASKING:
        method, twin = getattr(Semaphore, name), getattr(Semaphore, f"a{name}")

        assert iscoroutinefunction(twin)
        assert inspect.signature(method).parameters.keys() == inspect.signature(twin).parameters.keys()


def test_permits_are_acquired_extended_and_released(store: Store) -> None:
    async def main() -> None:
        semaphore = Semaphore("pool", 3, blocking=False)

        assert await semaphore.aacquire(2)
        assert await semaphore.aavailable() == 1
        assert [holder.permits for holder in (await semaphore.ainspect()).holders] == [2]
        assert await semaphore.areacquire()
        assert not await Semaphore("pool", 3, blocking=False).aacquire(2)
        await semaphore.arelease()
        with pytest.raises(PermitNotOwned):
            await semaphore.arelease()

    run_async(main)


def test_async_with_keeps_a_permit_during_the_block(store: Store) -> None:
    async def main() -> None:
        async with Semaphore("pool", 1, blocking=False) as semaphore:
            assert await semaphore.aavailable() == 0
            with pytest.raises(SemaphoreFull):
                async with Semaphore("pool", 1, blocking=False):
                    pytest.fail("the block ran")
        assert await semaphore.aavailable() == 1

    run_async(main)


def test_tasks_share_one_semaphore_object(store: Store) -> None:
    async def main() -> int:
        semaphore = Semaphore("pool", 3)
        inside = most = 0

        async def work() -> None:
            nonlocal inside, most
            async with semaphore:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.002)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(20)))
        assert await semaphore.aavailable() == 3
        return most

    assert run_async(main) == 3

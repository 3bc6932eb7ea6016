"""A lease belongs to the thread or task that called `acquire`: locks of all kinds, and semaphores."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from django_redis_components.locks import Lock, LockNotOwned, MultiLock, ReadWriteLock
from django_redis_components.locks.readwrite import ReadLock
from django_redis_components.semaphores import PermitNotOwned, Semaphore
from tests.support import Store, eventually, run_async, run_together
from tests.support.renewals import renew_now

NOT_OWNED = (LockNotOwned, PermitNotOwned)

KINDS: dict[str, Callable[..., Any]] = {
    "lock": partial(Lock, "stock"),
    "reentrant": partial(Lock, "stock", reentrant=True),
    "renewed": partial(Lock, "stock", renew=True),
    "group": partial(MultiLock, "stock", "price", group="items"),
    "names": partial(MultiLock, "stock", "price"),
    "writer": lambda **options: ReadWriteLock("stock", **options).write(),
    "reader": lambda **options: ReadWriteLock("stock", **options).read(),
    "semaphore": partial(Semaphore, "stock", 1),
    "renewed semaphore": partial(Semaphore, "stock", 1, renew=True),
}


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return KINDS[request.param]


@pytest.fixture
def guard(make: Callable[..., Any], redis_server: Store) -> Any:
    """One object that threads and tasks share."""
    return make()


def is_free(guard: Any) -> bool:
    return guard.available() == 1 if isinstance(guard, Semaphore) else not guard.locked()


def gives_back(guard: Any) -> bool:
    """Return whether `release` released something."""
    try:
        guard.release()
    except NOT_OWNED:
        return False
    return True


async def gives_back_async(guard: Any) -> bool:
    try:
        await guard.arelease()
    except NOT_OWNED:
        return False
    return True


def extends(guard: Any, seconds: float) -> bool:
    try:
        return guard.extend(seconds)
    except NOT_OWNED:
        return False


def dumped(store: Store) -> dict[str, Any]:
    keys = store.keys()
    return {key: store.raw.dump(key) for key in keys}


def ended_thread(func: Callable[[], Any]) -> Any:
    """Call the function in a thread, and return its result when the thread has ended."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(func()))
    thread.start()
    thread.join()
    return found[0]


class OtherThread:
    """A thread that runs functions until it is ended."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)

    def __call__(self, func: Callable[..., Any], *args: Any) -> Any:
        return self._pool.submit(func, *args).result(60)

    def end(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def elsewhere() -> Iterator[OtherThread]:
    thread = OtherThread()
    yield thread
    thread.end()


def test_thread_that_never_acquired_cannot_release(guard: Any, elsewhere: OtherThread) -> None:
    guard.acquire()

    assert elsewhere(gives_back, guard) is False

    assert not is_free(guard)
    guard.check()
    assert gives_back(guard)
    assert is_free(guard)


def test_thread_that_never_acquired_cannot_extend(guard: Any, elsewhere: OtherThread) -> None:
    guard.acquire()
    before = guard.remaining()

    assert elsewhere(extends, guard, 300) is False

    assert guard.remaining() <= before


def test_lease_of_a_live_owner_is_invisible_to_others(guard: Any, elsewhere: OtherThread) -> None:
    guard.acquire()

    assert elsewhere(lambda: (guard.token, guard.remaining())) == (None, 0.0)
    with pytest.raises(NOT_OWNED):
        elsewhere(guard.check)
    if isinstance(guard, Lock):
        assert elsewhere(lambda: (guard.fencing_token, guard.owned())) == (None, False)


def test_refused_thread_cannot_release(guard: Any, elsewhere: OtherThread) -> None:
    if isinstance(guard, ReadLock):
        pytest.skip("readers are not refused by readers")

    def refused() -> bool:
        assert not guard.acquire(blocking=False)
        return gives_back(guard)

    guard.acquire()

    assert elsewhere(refused) is False
    assert not is_free(guard)


def test_refused_thread_cannot_release_the_lease_of_an_ended_thread(guard: Any) -> None:
    if isinstance(guard, ReadLock):
        pytest.skip("readers are not refused by readers")
    ended_thread(guard.acquire)

    assert not guard.acquire(blocking=False)

    assert gives_back(guard) is False
    assert not is_free(guard)


def test_task_cannot_release_the_lease_of_another_task(guard: Any) -> None:
    async def main() -> None:
        async def other() -> bool:
            return await gives_back_async(guard)

        await guard.aacquire()
        assert await asyncio.create_task(other()) is False
        assert await gives_back_async(guard) is True

    run_async(main)


def test_thread_cannot_release_the_lease_of_a_running_task(guard: Any) -> None:
    async def main() -> None:
        await guard.aacquire()
        assert await asyncio.to_thread(gives_back, guard) is False
        assert await gives_back_async(guard) is True

    run_async(main)


def test_lease_of_an_ended_thread_can_be_taken_over(guard: Any) -> None:
    ended_thread(guard.acquire)

    assert guard.token is not None
    assert extends(guard, 60) is True
    assert gives_back(guard) is True

    assert is_free(guard)
    assert gives_back(guard) is False


def test_lease_of_an_ended_thread_is_taken_over_once(guard: Any) -> None:
    for _ in range(5):
        ended_thread(guard.acquire)

        assert sorted(run_together(4, gives_back, guard)) == [False, False, False, True]


def test_lease_that_was_taken_over_belongs_to_its_new_owner(guard: Any, elsewhere: OtherThread) -> None:
    ended_thread(guard.acquire)
    assert extends(guard, 60)

    assert elsewhere(gives_back, guard) is False

    assert gives_back(guard) is True


def test_lease_of_an_ended_thread_is_not_visible_through_another_object(make: Callable[..., Any], guard: Any) -> None:
    ended_thread(guard.acquire)
    other = make()

    assert other.token is None
    assert gives_back(other) is False
    assert gives_back(guard) is True


def test_thread_uses_its_own_lease_before_one_that_it_may_take_over(redis_server: Store) -> None:
    pool = Semaphore("pool", 3, blocking=False)
    ended_thread(pool.acquire)
    abandoned = pool.token
    pool.acquire()

    assert pool.token != abandoned
    assert [gives_back(pool) for _ in range(3)] == [True, True, False]
    assert pool.available() == 3


def test_lease_acquired_by_async_to_sync_is_released_by_the_thread(guard: Any) -> None:
    assert async_to_sync(guard.aacquire)()

    assert gives_back(guard) is True
    assert is_free(guard)


def test_lease_acquired_by_the_thread_is_not_released_by_a_task(guard: Any) -> None:
    guard.acquire()

    assert async_to_sync(partial(gives_back_async, guard))() is False

    assert gives_back(guard) is True


def test_lease_acquired_and_released_by_sync_to_async(guard: Any) -> None:
    async def main() -> None:
        assert await sync_to_async(guard.acquire)()
        assert await gives_back_async(guard) is False  # the thread of sync_to_async has it
        assert await sync_to_async(gives_back)(guard) is True

    run_async(main)


def test_lease_acquired_in_an_executor_belongs_to_its_thread(guard: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as pool:
            assert await loop.run_in_executor(pool, guard.acquire)
            assert await gives_back_async(guard) is False
            assert await loop.run_in_executor(pool, gives_back, guard) is True

    run_async(main)


def test_coroutine_run_in_another_loop_acquires_for_its_caller(guard: Any) -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        assert asyncio.run_coroutine_threadsafe(guard.aacquire(), loop).result(60)
        assert gives_back(guard) is True
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _wait_for(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, 30)


async def _timeout(awaitable: Any) -> Any:
    async with asyncio.timeout(30):
        return await awaitable


async def _gather(awaitable: Any) -> Any:
    return (await asyncio.gather(awaitable, asyncio.sleep(0)))[0]


async def _shield(awaitable: Any) -> Any:
    return await asyncio.shield(awaitable)


async def _create_task(awaitable: Any) -> Any:
    return await asyncio.create_task(awaitable)


async def _task_group(awaitable: Any) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(awaitable)
    return task.result()


async def _wait(awaitable: Any) -> Any:
    done, _ = await asyncio.wait([asyncio.ensure_future(awaitable)])
    return done.pop().result()


async def _as_completed(awaitable: Any) -> Any:
    return await next(iter(asyncio.as_completed([awaitable])))


@pytest.mark.parametrize(
    "through",
    [_wait_for, _timeout, _gather, _shield, _create_task, _task_group, _wait, _as_completed],
    ids=lambda through: through.__name__.strip("_"),
)
def test_caller_owns_the_lease_whatever_drives_the_coroutine(
    guard: Any, through: Callable[[Awaitable[Any]], Awaitable[Any]]
) -> None:
    async def main() -> None:
        assert await through(guard.aacquire()) is True
        guard.check()
        assert guard.remaining() > 0
        assert await through(guard.aextend(60)) is True
        assert await through(guard.areacquire()) is True
        assert await through(guard.aowned()) is True
        token = guard.token
        await through(guard.aadopt(token))
        assert guard.token == token
        assert await through(guard.arelease()) is not False
        assert guard.token is None

    run_async(main)
    assert is_free(guard)


def test_wait_for_that_times_out_leaves_no_lease(guard: Any) -> None:
    """At each point of the timeout the caller holds the lease if it was granted; otherwise no one does."""

    async def main() -> None:
        for step in range(40):
            granted = False
            with contextlib.suppress(TimeoutError):
                granted = await asyncio.wait_for(guard.aacquire(), step / 20_000)
            if granted:
                assert await gives_back_async(guard) is True
            assert guard.token is None

    run_async(main)
    eventually(lambda: is_free(guard))


def test_lease_granted_to_a_shielded_coroutine_after_its_caller_ended_can_be_taken_over(redis_server: Store) -> None:
    lock, other = Lock("stock"), Lock("stock")

    async def main() -> None:
        async def impatient() -> None:
            inner.append(asyncio.ensure_future(lock.aacquire()))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(inner[0]), 0.01)

        inner: list[asyncio.Future[bool]] = []
        await other.aacquire()
        await asyncio.create_task(impatient())
        await other.arelease()
        assert await inner[0] is True
        await lock.arelease()

    run_async(main)
    assert not lock.locked()


def test_async_generator_block_is_exited_by_the_task_that_closes_it(guard: Any) -> None:
    async def held() -> Any:
        async with guard:
            yield

    async def main() -> None:
        generator = held()
        await anext(generator)
        await asyncio.create_task(generator.aclose())

    run_async(main)
    assert is_free(guard)


def test_generator_block_is_exited_by_the_thread_that_closes_it(guard: Any, elsewhere: OtherThread) -> None:
    def held() -> Iterator[None]:
        with guard:
            yield

    generator = held()
    next(generator)

    elsewhere(generator.close)

    assert is_free(guard)


def test_exit_stack_acquires_and_releases(guard: Any) -> None:
    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(guard)
            guard.check()
        assert guard.token is None

    with contextlib.ExitStack() as stack:
        stack.enter_context(guard)
        guard.check()
    assert is_free(guard)
    run_async(main)
    assert is_free(guard)


def test_adopt_moves_a_lease_to_another_thread(guard: Any, elsewhere: OtherThread) -> None:
    guard.acquire()
    token, before = guard.token, guard.remaining()

    elsewhere(guard.adopt, token)

    assert guard.token is None
    assert gives_back(guard) is False
    assert elsewhere(lambda: guard.token) == token
    assert 0 < elsewhere(guard.remaining) < before + 1
    assert elsewhere(gives_back, guard) is True
    assert is_free(guard)


def test_adopt_takes_over_a_lease_of_another_object(make: Callable[..., Any], redis_server: Store) -> None:
    first, second = make(timeout=20), make(timeout=60)
    first.acquire()

    second.adopt(first.token)

    assert second.token == first.token
    assert 0 < second.remaining() <= 20
    assert getattr(second, "fencing_token", None) == getattr(first, "fencing_token", None)
    assert getattr(second, "fencing_tokens", None) == getattr(first, "fencing_tokens", None)
    assert gives_back(second) is True
    assert is_free(second)


def test_adopt_writes_nothing(make: Callable[..., Any], redis_server: Store) -> None:
    first, second = make(), make()
    first.acquire()
    before = dumped(redis_server)

    second.adopt(first.token)

    assert dumped(redis_server) == before


def test_adopt_of_the_callers_own_lease_changes_nothing(guard: Any) -> None:
    guard.acquire()
    token = guard.token

    guard.adopt(token)

    assert guard.token == token
    assert gives_back(guard) is True
    assert guard.token is None


def test_adopt_raises_when_the_token_has_no_lease(make: Callable[..., Any], guard: Any) -> None:
    holder = make()
    holder.acquire()
    before = guard.token  # of a reentrant lock it is that of the holder

    for token in ("nobody", "nobody:r", "nobody:w", "nobody:1:1"):
        with pytest.raises(NOT_OWNED, match="is not held under the token"):
            guard.adopt(token)

    assert guard.token == before


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("renewed")])
def test_adopt_raises_when_the_lease_expired(kind: str, redis_server: Store) -> None:
    first, second = KINDS[kind](timeout=1), KINDS[kind]()
    first.acquire()
    token = first.token
    eventually(lambda: is_free(first))

    with pytest.raises(NOT_OWNED):
        second.adopt(token)


def test_adopted_lease_is_renewed(redis_server: Store) -> None:
    first, second = Lock("stock", timeout=60), Lock("stock", timeout=60, renew=True)
    first.acquire()
    second.adopt(first.token)

    renew_now(second)

    assert second.owned()
    second.release()


def test_lock_acquired_again_under_its_own_token_has_one_lease(redis_server: Store) -> None:
    lock = Lock("stock")
    lock.acquire()

    assert lock.acquire(token=lock.token)
    lock.release()

    assert lock.token is None
    with pytest.raises(LockNotOwned):
        lock.check()


def test_acquire_with_the_token_of_another_thread_takes_its_lease(redis_server: Store, elsewhere: OtherThread) -> None:
    lost: list[object] = []
    lock = Lock("stock", renew=True, on_lost=lost.append)
    lock.acquire()
    token = lock.token

    assert elsewhere(lambda: lock.acquire(token=token))

    assert lock.token is None
    elsewhere(lock.release)
    assert not lock.locked()
    assert lost == []


def test_reentrant_lock_is_entered_again_through_wait_for(redis_server: Store) -> None:
    async def main() -> None:
        lock = Lock("stock", reentrant=True)
        async with lock:
            assert await asyncio.wait_for(Lock("stock", reentrant=True).aacquire(), 30)
            await asyncio.wait_for(lock.arelease(), 30)
            assert await lock.aowned()
        assert not await lock.alocked()

    run_async(main)


def test_forked_child_takes_over_no_lease(guard: Any) -> None:
    ended_thread(guard.acquire)

    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os._exit(8 if guard.token is not None or gives_back(guard) else 7)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7
    assert gives_back(guard) is True


def test_repeated_acquire_without_release_does_not_leak_memory(redis_server: Store) -> None:
    pool = Semaphore("pool", 1, timeout=0.002)

    async def main() -> None:
        for _ in range(100):
            await asyncio.create_task(_take())

    async def _take() -> None:
        await pool.aacquire()

    run_async(main)
    assert len(pool.flows.leases.records) < 50

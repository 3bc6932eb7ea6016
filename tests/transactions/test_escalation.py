"""`lock_after`: callers acquire a lock after a number of conflicts."""

from __future__ import annotations

import asyncio
import functools
import itertools
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from django_redis_components.locks import Lock
from django_redis_components.transactions import TooMuchContention, aatomic_update, atomic_update
from django_redis_components.transactions.options import parse_options
from tests.support import Store, run_async
from tests.support.pools import aclose_pools
from tests.transactions.accounts import double


@pytest.fixture
def account(redis_server: Store) -> str:
    key = f"{redis_server.prefix}:account"
    redis_server.raw.set(key, 5)
    return key


def the_lock(*keys: str) -> Lock:
    return Lock(parse_options(double("k"), keys, 1, 1, None, "default").lock_name, blocking=False)


def test_lock_is_acquired_after_lock_after_conflicts_and_released(redis_server: Store, account: str) -> None:
    held = []

    def attempt(pipe: Any) -> int:
        held.append(the_lock(account).locked())
        balance = int(pipe.get(account))
        if len(held) < 4:
            redis_server.raw.incr(account)
        pipe.multi()
        pipe.set(account, balance * 2)
        return balance * 2

    assert atomic_update(attempt, account, lock_after=2) == 16

    assert held == [False, False, True, True]
    assert not the_lock(account).locked()


def test_wait_for_the_lock_ends_at_the_timeout(redis_server: Store, account: str) -> None:
    lock = the_lock(account)
    assert lock.acquire()

    with pytest.raises(TooMuchContention, match="the lock was not acquired within the timeout") as raised:
        atomic_update(double(account), account, lock_after=0, timeout=0.1)

    assert raised.value.attempts == 0
    assert str(raised.value).endswith(" s).")
    assert "(0 attempts in 0." in str(raised.value)
    assert lock.owned()
    assert redis_server.raw.get(account) == b"5"


def test_exception_of_the_function_releases_the_lock(redis_server: Store, account: str) -> None:
    with pytest.raises(ZeroDivisionError):
        atomic_update(lambda pipe: 1 / 0, account, lock_after=0)

    assert not the_lock(account).locked()


def test_lock_name_does_not_depend_on_the_order_of_keys() -> None:
    assert the_lock("a", "b").name == the_lock("b", "a").name != the_lock("a").name


def test_async_update_acquires_and_releases_the_lock(redis_server: Store, account: str) -> None:
    held = []

    async def attempt(pipe: Any) -> int:
        held.append(await the_lock(account).alocked())
        balance = int(await pipe.get(account))
        pipe.multi()
        pipe.set(account, balance * 2)
        return balance * 2

    assert run_async(lambda: aatomic_update(attempt, account, lock_after=0)) == 10

    assert held == [True]
    assert not the_lock(account).locked()


def test_expired_lease_does_not_change_the_outcome(redis_server: Store, account: str) -> None:
    def attempt(pipe: Any) -> int:
        balance = int(pipe.get(account))
        pipe.multi()
        pipe.set(account, balance * 2)
        assert redis_server.raw.delete(f"{redis_server.prefix}:locks:{{{the_lock(account).name}}}") == 1
        return balance * 2

    assert atomic_update(attempt, account, lock_after=0) == 10


def test_scripts_flushed_during_an_update_are_loaded_again(store: Store) -> None:
    account = f"{store.prefix}:forgotten"
    seen: list[bytes | None] = []

    def add(pipe: Any) -> int:
        seen.append(pipe.get(account))
        store.raw.script_flush()
        if len(seen) < 3:
            store.raw.incr(account)
        pipe.multi()
        pipe.incrby(account, 10)
        return len(seen)

    assert atomic_update(add, account, lock_after=1) == 3

    assert store.raw.get(account) == b"12"
    assert not the_lock(account).locked()


@types.coroutine
def cancelled_at(number: int, coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Cancel the running task at the nth await, counted from 0."""
    steps = coroutine.__await__()
    resume: Callable[[], Any] = functools.partial(next, steps)
    for count in itertools.count():
        try:
            awaited = resume()
        except StopIteration as stop:
            return stop.value
        if count == number:
            asyncio.current_task().cancel()
        try:
            yield awaited
        except BaseException as exc:  # noqa: BLE001 - passed through, as by `yield from`
            resume = functools.partial(steps.throw, exc)
        else:
            resume = functools.partial(next, steps)


def test_cancellation_at_any_await_releases_the_lock(redis_server: Store, account: str) -> None:
    attempts: list[int] = []

    async def attempt(pipe: Any) -> None:
        attempts.append(1)
        balance = int(await pipe.get(account))
        if len(attempts) == 1:
            redis_server.raw.incr(account)  # a conflict
        pipe.multi()
        pipe.set(account, balance * 2)

    async def is_cancelled(number: int) -> bool:
        attempts.clear()
        redis_server.raw.set(account, 5)
        await aclose_pools()  # each round awaits as often as the others
        task = asyncio.ensure_future(cancelled_at(number, aatomic_update(attempt, account, lock_after=1)))
        await asyncio.wait([task])
        assert not the_lock(account).locked(), f"cancelled at await {number}"
        assert redis_server.raw.get(account) in ({b"5", b"6", b"12"} if task.cancelled() else {b"12"})
        return task.cancelled()

    async def main() -> int:
        number = 0
        while await is_cancelled(number):
            number += 1
        return number

    assert run_async(main, timeout_s=60) > 8


def test_cancelled_function_releases_the_lock_before_the_task_ends(redis_server: Store, account: str) -> None:
    async def main() -> None:
        started = asyncio.Event()

        async def attempt(_: Any) -> None:
            started.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(aatomic_update(attempt, account, lock_after=0))
        await started.wait()
        assert await the_lock(account).alocked()

        task.cancel()
        await asyncio.wait([task])

        assert task.cancelled()
        assert not await the_lock(account).alocked()

    run_async(main)

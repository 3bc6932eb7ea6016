"""An interrupted function never leaves a connection with an outstanding reply in the pool."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis.exceptions import RedisError, ResponseError

from django_redis_components.transactions import aatomic_update, atomic_update
from tests.support import Proxy, Store, run_async

pytestmark = pytest.mark.integration


class TimeIsUp(Exception):
    """Raised by a signal handler, like a soft time limit."""


@contextmanager
def alarm_after(seconds: float) -> Iterator[None]:
    """Raise TimeIsUp in this thread."""

    def interrupt(*_: object) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def keys(redis_server: Store) -> tuple[str, str]:
    """Two keys, with the values 1 and 2."""
    one, two = f"{redis_server.prefix}:one", f"{redis_server.prefix}:two"
    redis_server.raw.set(one, 1)
    redis_server.raw.set(two, 2)
    return one, two


def test_read_interrupted_by_a_signal_leaves_no_reply_behind(proxy: Proxy, keys: tuple[str, str]) -> None:
    one, two = keys

    def slow(pipe: Any) -> None:
        proxy.delay(0.3)
        with alarm_after(0.05):
            pipe.get(one)

    with pytest.raises(TimeIsUp):
        atomic_update(slow, one, using="proxied")
    proxy.delay(0)

    assert atomic_update(lambda pipe: pipe.get(two), one, using="proxied") == b"2"


def test_function_that_catches_an_interrupted_read_is_called_again(proxy: Proxy, keys: tuple[str, str]) -> None:
    one, two = keys
    calls = []

    def impatient(pipe: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            proxy.delay(0.3)
            try:
                with alarm_after(0.05):
                    pipe.get(one)
            except TimeIsUp:
                proxy.delay(0)
        return pipe.get(two)

    assert atomic_update(impatient, one, using="proxied") == b"2"
    assert len(calls) == 2


def test_coroutine_function_that_catches_a_cancelled_read_is_called_again(proxy: Proxy, keys: tuple[str, str]) -> None:
    one, two = keys
    calls = []

    async def impatient(pipe: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            proxy.delay(0.3)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await pipe.get(one)
            proxy.delay(0)
        return await pipe.get(two)

    assert run_async(lambda: aatomic_update(impatient, one, using="proxied")) == b"2"
    assert len(calls) == 2


def test_concurrent_reads_of_tasks_get_their_own_replies(keys: tuple[str, str]) -> None:
    async def read(pipe: Any) -> Any:
        return await asyncio.gather(*(pipe.get(key) for key in keys * 20))

    assert run_async(lambda: aatomic_update(read, *keys)) == [b"1", b"2"] * 20


def test_task_that_was_not_awaited_reads_no_foreign_reply(proxy: Proxy, keys: tuple[str, str]) -> None:
    one, two = keys
    left: list[asyncio.Task[Any]] = []

    async def forget_to_await(pipe: Any) -> Any:
        proxy.delay(0.05)
        left.extend(asyncio.ensure_future(pipe.get(one)) for _ in range(3))
        await asyncio.sleep(0.01)
        raise LookupError

    async def read(pipe: Any) -> Any:
        return await pipe.get(two)

    async def act() -> list[Any]:
        with pytest.raises(LookupError):
            await aatomic_update(forget_to_await, one, using="proxied")
        proxy.delay(0)
        first = await aatomic_update(read, one, using="proxied")
        return [first, *await asyncio.gather(*left, return_exceptions=True)]

    first, *late = run_async(act)

    assert first == b"2"
    assert all(each == b"1" or "after its attempt had ended" in str(each) for each in late)


def test_pipe_raises_after_its_attempt_has_ended(keys: tuple[str, str]) -> None:
    kept: list[Any] = []

    async def keep(pipe: Any) -> None:
        kept.append(pipe)

    async def use_later() -> None:
        await aatomic_update(keep, *keys)
        with pytest.raises(RedisError, match=r"^The pipe was used after its attempt had ended"):
            await kept.pop().get(keys[0])

    atomic_update(kept.append, *keys)
    with pytest.raises(RedisError) as caught:
        kept.pop().get(keys[0])
    assert str(caught.value) == (
        "The pipe was used after its attempt had ended. Read everything within the function, lazy iterators "
        "(scan_iter) included, and await all tasks that use the pipe."
    )
    with pytest.raises(LookupError):
        atomic_update(lambda pipe: (kept.append(pipe), {}["missing"]), *keys)
    with pytest.raises(RedisError, match=r"^The pipe was used after"):
        kept.pop().get(keys[0])
    run_async(use_later)


def test_error_reply_to_a_read_leaves_a_usable_connection(keys: tuple[str, str]) -> None:
    def read(pipe: Any) -> Any:
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            pipe.llen(keys[0])
        return pipe.get(keys[1])

    assert atomic_update(read, *keys) == b"2"


def test_value_that_cannot_be_sent_leaves_a_usable_connection(keys: tuple[str, str]) -> None:
    with pytest.raises(UnicodeEncodeError):
        atomic_update(lambda pipe: pipe.get("\ud800"), keys[0])
    with pytest.raises(UnicodeEncodeError):
        atomic_update(lambda pipe: (pipe.multi(), pipe.set(keys[0], "\ud800")), keys[0])

    assert atomic_update(lambda pipe: pipe.get(keys[1]), keys[0]) == b"2"

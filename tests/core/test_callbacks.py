"""Coroutine functions are rejected as callbacks that would not be awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from django_redis_components.expiry import cached
from django_redis_components.locks import Lock, MultiLock, ReadWriteLock, lock
from django_redis_components.ratelimits import rate_limit
from django_redis_components.semaphores import Semaphore, semaphore
from django_redis_components.taskqueue import Batch, Concurrency, Rate, Unique, task
from django_redis_components.taskqueue.exceptions import InvalidTask
from tests.support import Store, eventually


async def coroutine_function(*args: object, **kwargs: object) -> Any:
    return None


class Callback:
    """An object that is called like a coroutine function."""

    async def __call__(self, *args: object, **kwargs: object) -> Any:
        return None


def generator_function(*args: object, **kwargs: object) -> Iterator[Any]:
    yield None


async def async_generator_function(*args: object, **kwargs: object) -> AsyncIterator[Any]:
    yield None


class GeneratorCallback:
    """An object that is called like a generator function."""

    def __call__(self, *args: object, **kwargs: object) -> Iterator[Any]:
        yield None


def decorated(decorator: Callable[..., Any]) -> Any:
    def charge(customer_id: int = 1) -> None:
        """Nothing."""

    charge.__qualname__ = "charge"  # a task must be at the top level of a module
    return decorator(charge)


USES: dict[str, Callable[[Any], object]] = {
    "Lock on_lost": lambda call: Lock("a", on_lost=call),
    "MultiLock on_lost": lambda call: MultiLock("a", "b", group="g", on_lost=call),
    "ReadWriteLock on_lost": lambda call: ReadWriteLock("a", on_lost=call).write(),
    "Semaphore on_lost": lambda call: Semaphore("a", 1, on_lost=call),
    "lock on_lost": lambda call: decorated(lock("a", on_lost=call)),
    "lock name": lambda call: decorated(lock(call)),
    "semaphore name": lambda call: decorated(semaphore(call, limit=1)),
    "cached key": lambda call: decorated(cached(call, 60)),
    "cached dumps": lambda call: decorated(cached("a", 60, dumps=call)),
    "cached loads": lambda call: decorated(cached("a", 60, loads=call)),
    "rate_limit key": lambda call: decorated(rate_limit("5/m", key=call)),
    "rate_limit response": lambda call: decorated(rate_limit("5/m", key=None, response=call)),
    "task backoff": lambda call: decorated(task(backoff=call, max_attempts=2)),
    "task unique": lambda call: decorated(task(unique=Unique(key=call))),
    "task concurrency": lambda call: decorated(task(concurrency=Concurrency(3, key=call))),
    "task rate": lambda call: decorated(task(rate=Rate("5/m", key=call))),
    "task fair": lambda call: decorated(task(fair=call)),
    "task batch": lambda call: decorated(task(batch=Batch(9, key=call))),
}


@pytest.mark.parametrize("callback", [coroutine_function, Callback(), partial(coroutine_function)], ids=["f", "o", "p"])
@pytest.mark.parametrize("use", USES)
def test_coroutine_function_is_rejected_as_a_callback(use: str, callback: Any) -> None:
    with pytest.raises((TypeError, InvalidTask), match=" is a coroutine function, which would not be awaited: "):
        USES[use](callback)


@pytest.mark.parametrize(
    "callback",
    [generator_function, async_generator_function, GeneratorCallback(), partial(generator_function)],
    ids=["f", "async", "o", "p"],
)
@pytest.mark.parametrize("use", USES)
def test_generator_function_is_rejected_as_a_callback(use: str, callback: Any) -> None:
    with pytest.raises((TypeError, InvalidTask), match=" is a generator function, whose call runs nothing of it: "):
        USES[use](callback)


def test_awaitable_name_is_rejected_at_the_call() -> None:
    charge = decorated(lock(lambda customer_id=1: coroutine_function()))

    with pytest.raises(TypeError, match=r"must be awaited: the name is needed before the call\.$"):
        charge()


def test_on_lost_that_returns_a_coroutine_is_logged(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    stock = Lock("stock", timeout=0.2, on_lost=lambda lock: coroutine_function())
    stock.acquire()

    eventually(lambda: "must be awaited: on_lost is called without waiting." in caplog.text)

"""An async function below a decorator that is not async: its body would never run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from django_redis_components.taskqueue import task
from tests.support import Store
from tests.taskqueue.support import running_worker, work_off
from tests.taskqueue.tasks import note

ran: list[str] = []


def plain(func: Callable[..., Any]) -> Callable[..., Any]:
    """Pass on a call, as a decorator does that knows nothing of coroutines."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper


@task
@plain
async def fetch_rates() -> str:
    ran.append("fetch_rates")
    return "rates"


@task
@functools.partial(getattr(inspect, "markcoroutinefunction", lambda func: func))
@plain
async def fetch_marked_rates() -> str:
    return "rates"


@task
@plain
def list_rates() -> Iterator[int]:
    yield 1


@task
@plain
async def stream_rates() -> AsyncIterator[int]:
    yield 1


def test_task_whose_decorator_is_not_async_fails_with_the_reason(redis_server: Store) -> None:
    result = fetch_rates.enqueue()

    work_off()

    result.refresh()
    assert (result.state, ran) == ("failed", [])
    assert result.errors[0].message == (
        "the return value is a coroutine, so fetch_rates() has not run: nothing has awaited it. A decorator of an async"
        " function must itself be an async function, or pass inspect.iscoroutinefunction() (see"
        " inspect.markcoroutinefunction)."
    )


@pytest.mark.skipif(not hasattr(inspect, "markcoroutinefunction"), reason="Python 3.12 has markcoroutinefunction")
def test_task_whose_decorator_is_marked_as_async_runs(redis_server: Store) -> None:
    result = fetch_marked_rates.enqueue()

    with running_worker():
        assert result.get(60) == "rates"


@pytest.mark.parametrize("made", [list_rates, stream_rates])
def test_task_that_is_a_generator_fails_with_the_reason(redis_server: Store, made: Any) -> None:
    result = made.enqueue()

    work_off()

    result.refresh()
    assert result.errors[0].message == (
        f"the return value is a generator, so {made.func.__name__}() has not run to its end. Expected JSON: collect"
        " its items in a list."
    )


def test_coroutine_as_an_argument_is_refused_with_the_reason() -> None:
    async def rates() -> str:
        return "rates"

    with pytest.raises(TypeError, match=r"^args\[0\] is a coroutine, so .*rates\(\) has not run: nothing has awaited"):
        note.enqueue(rates())

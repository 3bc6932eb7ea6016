"""Cached functions while Redis is slow or unavailable: values are computed, once at a time in each process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.expiry import cached
from tests.support import Store, eventually, run_async


@pytest.fixture
def away(own_server: Store) -> Store:
    own_server.servers[0].kill()
    return own_server


def in_threads(count: int, call: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=call, daemon=True) for _ in range(count)]
    for each in threads:
        each.start()
    return threads


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_values_are_computed_while_redis_is_away(away: Store, is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    @cached("square:{n}", 60)
    def square(n: int) -> list[int]:
        return [n * n]

    @cached("square:{n}", 60)
    async def asquare(n: int) -> list[int]:
        return [n * n]

    found = [run_async(asquare, n) if is_async else square(n) for n in (2, 3, 2)]

    assert found == [[4], [9], [4]]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "Cached values cannot be read, they are computed"
    ]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_error_is_raised_with_on_error_raise(away: Store, is_async: bool) -> None:
    @cached("value", 60, on_error="raise")
    def value() -> int:
        return 1

    @cached("value", 60, on_error="raise")
    async def avalue() -> int:
        return 1

    with pytest.raises(ConnectionError):
        run_async(avalue) if is_async else value()


def test_invalidate_raises_while_redis_is_away(away: Store) -> None:
    @cached("value", 60)
    def value() -> int:
        return 1

    with pytest.raises(ConnectionError):
        value.invalidate()


def test_concurrent_calls_compute_once_while_redis_is_away(away: Store) -> None:
    computed, found = [], []
    may_finish = threading.Event()

    @cached("value:{name}", 60)
    def value(name: str) -> str:
        computed.append(name)
        may_finish.wait(60)
        return name

    breaker_for("default").record_failure(open_s=60)
    threads = in_threads(20, lambda: found.append(value("a")))
    eventually(lambda: computed == ["a"])
    threads += in_threads(20, lambda: found.append(value("b")))
    eventually(lambda: sorted(computed) == ["a", "b"])
    may_finish.set()
    for each in threads:
        each.join(60)

    assert sorted(found) == ["a"] * 20 + ["b"] * 20
    # A thread that came after the value was computed computes again; most of them have waited.
    assert len(computed) < 40
    assert value("a") == "a"


def test_waiting_call_computes_when_the_computing_one_fails(away: Store) -> None:
    breaker_for("default").record_failure(open_s=60)
    calls: list[int] = []
    waiting, results = threading.Event(), []

    @cached("value", 60)
    def value() -> int:
        calls.append(1)
        if len(calls) == 1:
            waiting.wait(60)
            raise LookupError("first")
        return len(calls)

    def call() -> None:
        try:
            results.append(value())
        except LookupError as exc:
            results.append(str(exc))

    threads = in_threads(1, call)
    eventually(lambda: calls == [1])
    threads += in_threads(1, call)
    waiting.set()
    for each in threads:
        each.join(60)

    assert sorted(map(str, results)) == ["2", "first"]


def test_tasks_compute_once_and_survive_a_cancelled_one_while_redis_is_away(away: Store) -> None:
    computed: list[int] = []
    has_begun = asyncio.Event()

    @cached("value", 60)
    async def value() -> int:
        computed.append(1)
        has_begun.set()
        await asyncio.sleep(0 if len(computed) > 1 else 60)
        return len(computed)

    async def main() -> list[Any]:
        breaker_for("default").record_failure(open_s=60)
        tasks = [asyncio.ensure_future(value()) for _ in range(10)]
        await has_begun.wait()
        tasks[0].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, *others = run_async(main)

    assert isinstance(first, asyncio.CancelledError)
    assert others == [2] * 9


def test_calls_that_wait_longer_than_two_leases_compute_for_themselves(away: Store) -> None:
    breaker_for("default").record_failure(open_s=60)
    may_finish = threading.Event()
    computed: list[int] = []

    @cached("value", 60, lease=0.05)
    def value() -> int:
        computed.append(1)
        if len(computed) == 1:
            may_finish.wait(60)
        return len(computed)

    [thread] = in_threads(1, value)
    eventually(lambda: computed == [1])

    assert value() == 2

    may_finish.set()
    thread.join(60)


@pytest.mark.parametrize("on_error", ["ignore", "", None, True])
def test_unknown_on_error_is_refused(on_error: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^on_error=.*: expected one of 'compute', 'raise'\.$"):
        cached("value", 60, on_error=on_error)


def test_value_is_cached_again_after_the_outage(own_server: Store) -> None:
    calls: list[int] = []

    @cached("value", 60, early=False)
    def value() -> int:
        calls.append(1)
        return len(calls)

    own_server.servers[0].stop()
    assert [value(), value()] == [1, 2]
    own_server.servers[0].start()
    breaker_for("default").record_failure(open_s=0)

    assert [value(), value()] == [3, 3]

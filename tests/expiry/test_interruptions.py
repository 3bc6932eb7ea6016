"""A call of a cached function that ends without a value leaves no lease behind."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import django_redis_components
from django_redis_components.core.client import connections
from django_redis_components.expiry import cached
from django_redis_components.expiry.scripts import ABANDON, FETCH
from tests.support import Proxy, Store, run_async, run_together

pytestmark = pytest.mark.integration

PACKAGE = str(Path(django_redis_components.__file__).parent)


def leases(store: Store) -> list[bytes]:
    """Return the keys of leases, which other callers would wait for."""
    keys = store.keys()
    return [key for key in keys if key.endswith(b":lease")]


class InterruptAt:
    """Raise KeyboardInterrupt before the nth instruction of the package in this thread, as a signal handler would."""

    def __init__(self, instruction: int) -> None:
        self._left = instruction
        self.was_raised = False
        self.where: tuple[str, int, int] | None = None

    def __enter__(self) -> InterruptAt:
        self._before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 looks for such a frame when the trace function is set
        sys.settrace(self._trace)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if self.was_raised or not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self._left -= 1
            if self._left == 0:
                self.was_raised = True
                self.where = (frame.f_code.co_qualname, frame.f_lineno, frame.f_lasti)
                raise KeyboardInterrupt
        return self._trace


def test_keyboard_interrupt_at_any_instruction_leaves_no_lease(redis_server: Store) -> None:
    @cached("interrupted:{n}", 60, early=False)
    def value(n: int) -> int:
        return n

    value(0)

    def interrupt_at_each_instruction() -> int:
        for n in itertools.count(1):
            with InterruptAt(n) as interrupt:
                try:
                    value(n)
                except KeyboardInterrupt:
                    assert interrupt.was_raised
            assert leases(redis_server) == [], f"interrupted at instruction {n}: {interrupt.where}"
            redis_server.raw.delete(f"{redis_server.prefix}:expiry:{{interrupted:{n}}}")
            if not interrupt.was_raised:
                break
        return n

    # No signal handler runs at the first instructions of an `except` block, but a trace function does; CPython then
    # leaves the StopIteration of the flow in `sys.exc_info()` of its thread.
    [instructions] = run_together(1, interrupt_at_each_instruction)
    assert instructions > 100


@pytest.mark.parametrize("early", [False, 1e9], ids=["missing", "early"])
def test_cancellation_at_any_time_leaves_no_lease(redis_server: Store, early: float | bool) -> None:
    @cached("cancelled:{n}", 60, early=early)
    async def value(n: int) -> int:
        await asyncio.sleep(0)
        return n

    async def cancel_at_each_step() -> None:
        for steps in range(1, 10_000):
            if early:
                await value(steps)
            task = asyncio.ensure_future(value(steps))
            for _ in range(steps):
                await asyncio.sleep(0)
            was_late = task.done()
            task.cancel()
            await asyncio.wait([task])
            assert leases(redis_server) == [], f"cancelled after {steps} steps"
            if was_late and steps > 50:
                return

    run_async(cancel_at_each_step)


def test_fetch_after_its_cancellation_takes_no_lease(store: Store) -> None:
    value, lease = (f"{store.prefix}:expiry:{{late}}{part}" for part in ("", ":lease"))
    client = connections.client()

    assert client.execute(ABANDON(lease=lease, token="t", cancel_ms=5_000)) == 0
    reply = client.execute(FETCH(value=value, lease=lease, token="t", lease_ms=1_000, eagerness=""))

    assert reply == [0, b"", 0]
    assert leases(store) == []
    assert 0 < store.raw.pttl(f"{lease}:cancelled:t") <= 5_000
    assert client.execute(FETCH(value=value, lease=lease, token="u", lease_ms=1_000, eagerness=""))[0] == 3


def test_interruption_during_fetch_leaves_no_lease(proxy: Proxy, redis_server: Store) -> None:
    @cached("hanging", 60, using="proxied")
    async def value() -> int:
        return 7

    async def cancel() -> None:
        assert await value() == 7
        await value.ainvalidate()
        proxy.delay(0.2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await value()

    run_async(cancel)

    assert leases(redis_server) == []


def test_cancellation_during_abandon_leaves_no_lease(proxy: Proxy, redis_server: Store) -> None:
    @cached("failing", 60, using="proxied")
    async def value() -> int:
        proxy.delay(0.2)
        raise LookupError

    async def cancel() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await value()

    run_async(cancel)

    assert leases(redis_server) == []


CANNOT_BE_STORED = "returned a value that cannot be stored: 'utf-8' codec can't encode"


def surrogate() -> str:
    return "\ud800"


async def asurrogate() -> str:
    return "\ud800"


@pytest.mark.parametrize("dumps", [None, str], ids=["json", "own"])
def test_value_with_a_lone_surrogate_raises_and_leaves_no_lease(redis_server: Store, dumps: Any) -> None:
    options = {"dumps": dumps, "loads": bytes} if dumps else {}
    waited = cached("awaited", 60, **options)(asurrogate)

    with pytest.raises(TypeError, match=rf"^surrogate\(\) {CANNOT_BE_STORED}"):
        cached("called", 60, **options)(surrogate)()
    with pytest.raises(TypeError, match=rf"^asurrogate\(\) {CANNOT_BE_STORED}"):
        run_async(waited)

    assert redis_server.keys() == []


def test_waiter_computes_next_after_a_value_that_cannot_be_stored(redis_server: Store) -> None:
    answers = iter(("\ud800", "good"))

    @cached("second", 60, lease=60)
    def value() -> str:
        return next(answers)

    def ask(_: int) -> str:
        try:
            return value()
        except TypeError:
            return "refused"

    assert sorted(run_together(3, ask)) == ["good", "good", "refused"]


def test_early_value_that_cannot_be_stored_keeps_the_valid_one(redis_server: Store) -> None:
    answers = iter(("good", "\ud800"))

    @cached("early", 60, early=1e9)
    def value() -> str:
        return next(answers)

    assert [value(), value()] == ["good", "good"]
    assert leases(redis_server) == []


@pytest.mark.parametrize("setting", [("maxmemory", 1), ("proto-max-bulk-len", 1_048_576)], ids=lambda s: s[0])
def test_value_rejected_by_the_server_is_returned_and_leaves_no_lease(
    own_server: Store, caplog: pytest.LogCaptureFixture, setting: tuple[str, int]
) -> None:
    @cached("large", 60)
    def value() -> str:
        own_server.raw.config_set(*setting)
        return "x" * 2_000_000

    with caplog.at_level(logging.WARNING, "django_redis_components.expiry"):
        assert len(value()) == 2_000_000

    assert "The value of 'large' was computed but cannot be stored: " in caplog.text
    assert leases(own_server) == []


def test_waiters_are_woken_when_the_server_has_no_memory_left(own_server: Store) -> None:
    """RPUSH is refused at maxmemory, unless the script has written before."""
    lease = f"{own_server.prefix}:expiry:{{full}}:lease"
    own_server.raw.hset(lease, mapping={"token": "t", "until_ms": 2**52, "waiters": 1})
    own_server.raw.config_set("maxmemory", 1)

    assert connections.client().execute(ABANDON(lease=lease, token="t", cancel_ms=0)) == 1

    assert own_server.raw.lrange(f"{lease}:wakeup:t", 0, -1) == [b"1"]


def raise_stop(*_: object) -> Any:
    raise StopIteration("empty") from LookupError("cause")


@pytest.mark.parametrize(
    ("func", "options"),
    [
        (raise_stop, {}),
        (lambda: 7, {"dumps": raise_stop}),
        (lambda: 7, {"loads": raise_stop}),
    ],
    ids=["function", "dumps", "loads"],
)
def test_stop_iteration_of_the_function_reaches_the_caller(
    redis_server: Store, func: Callable[[], Any], options: Any
) -> None:
    value = cached("stopped", 60, **options)(func)

    for _ in range(2):
        with pytest.raises(StopIteration, match="empty") as caught:
            value()
        assert isinstance(caught.value.__cause__, LookupError)
    assert leases(redis_server) == []


def test_stop_async_iteration_of_a_coroutine_function_reaches_the_caller(redis_server: Store) -> None:
    @cached("stopped", 60)
    async def value() -> int:
        raise StopAsyncIteration("empty")

    with pytest.raises(StopAsyncIteration, match="empty"):
        run_async(value)
    assert leases(redis_server) == []


def test_stop_iteration_of_an_early_recomputation_keeps_the_valid_value(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter(("good",))
    value = cached("early", 60, early=1e9)(lambda: next(answers))

    with caplog.at_level(logging.WARNING, "django_redis_components.expiry"):
        assert [value(), value()] == ["good", "good"]

    assert "StopIteration" in caplog.text
    assert leases(redis_server) == []


@pytest.mark.contract
def test_lease_from_before_the_clock_was_set_back_is_not_waited_for(store: Store) -> None:
    """A waiter would wait for a dead holder in each call, until the clock has caught up."""
    value, lease = (f"{store.prefix}:expiry:{{late}}{part}" for part in ("", ":lease"))
    client = connections.client()

    def fetch(token: str) -> list[object]:
        return list(client.execute(FETCH(value=value, lease=lease, token=token, lease_ms=10_000, eagerness="")))

    assert fetch("holder")[0] == 3
    assert fetch("waiter")[:2] == [0, b"holder"]
    store.raw.hincrby(lease, "until_ms", 3_600_000)

    assert fetch("waiter")[0] == 3

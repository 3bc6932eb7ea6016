"""The two drivers: replies and errors reach the flow, and a cancelled flow cleans up."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import pytest
import redis

from django_redis_components.core.client import connections
from django_redis_components.core.keys import key
from django_redis_components.core.protocol import Batch, Command, Flow, Read, Sleep, Wait, arun, run
from tests.core.conftest import Driver
from tests.support import Proxy, Store, eventually, run_async

pytestmark = pytest.mark.integration


def one(request: Any) -> Flow[Any]:
    return (yield request)


def test_flow_receives_replies_and_returns_its_value(store: Store, drive: Driver) -> None:
    def flow() -> Flow[tuple[Any, ...]]:
        first = yield Command("SET", key("p", "a"), "1", "PX", 60_000)
        second = yield Read("GET", key("p", "a"))
        return first, second

    assert drive(flow()) == (b"OK", b"1")


def test_flow_without_requests_returns_its_value(drive: Driver) -> None:
    def flow() -> Flow[str]:
        return "done"
        yield

    assert drive(flow()) == "done"


def test_flow_can_continue_after_an_error(redis_server: Store, drive: Driver) -> None:
    def flow() -> Flow[Any]:
        try:
            yield Command("HSET", key("p", "a"))
        except redis.ResponseError as exc:
            answer = yield Read("PING")
            return str(exc), answer

    text, answer = drive(flow())

    assert "wrong number of arguments for 'hset'" in text
    assert answer == b"PONG"


def test_flow_can_return_a_value_after_an_error(redis_server: Store, drive: Driver) -> None:
    def flow() -> Flow[str]:
        try:
            yield Command("HSET", key("p", "a"))
        except redis.ResponseError:
            return "caught"
        return "not reached"

    assert drive(flow()) == "caught"


def test_error_that_the_flow_does_not_catch_is_raised(redis_server: Store, drive: Driver) -> None:
    with pytest.raises(redis.ResponseError, match="wrong number of arguments"):
        drive(one(Command("HSET", key("p", "a"))))


def test_error_of_the_flow_is_raised(redis_server: Store, drive: Driver) -> None:
    def flow() -> Flow[None]:
        yield Read("PING")
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        drive(flow())


def test_batch_returns_the_replies_in_order(store: Store, drive: Driver) -> None:
    keys = [key("p", str(number)) for number in range(30)]

    drive(one(Batch([Command("SET", name, at, "PX", 60_000) for at, name in enumerate(keys)])))

    assert drive(one(Batch([Read("GET", name) for name in keys]))) == [str(at).encode() for at in range(30)]
    assert drive(one(Batch([]))) == []


def test_batch_raises_its_first_error_after_all_requests_ran(store: Store, drive: Driver) -> None:
    bad, good = key("p", "bad"), key("p", "good")
    requests = [Command("HSET", bad), Command("LPUSH", bad), Command("SET", good, 1, "PX", 60_000)]

    with pytest.raises(redis.ResponseError, match="'hset'"):
        drive(one(Batch(requests)))

    assert store.raw.get(good) == b"1"


def test_batch_returns_errors_in_place_when_asked(store: Store, drive: Driver) -> None:
    bad, good = key("p", "bad"), key("p", "good")

    replies = drive(one(Batch([Command("HSET", bad), Command("SET", good, 1, "PX", 60_000)], return_exceptions=True)))

    assert isinstance(replies[0], redis.ResponseError)
    assert replies[1] == b"OK"


@pytest.mark.parametrize("value", [None, True, [1], object()])
def test_error_of_an_unsupported_type_names_the_part(redis_server: Store, drive: Driver, value: Any) -> None:
    with pytest.raises(redis.DataError) as caught:
        drive(one(Command("SET", key("p", "a"), value)))

    assert str(caught.value) == f"Part 2 of SET is {value!r}: expected str, bytes, int or float."
    assert drive(one(Read("PING"))) == b"PONG"


def test_batch_with_an_unsupported_type_sends_nothing(redis_server: Store, drive: Driver) -> None:
    good = key("p", "good")

    with pytest.raises(redis.DataError):
        drive(one(Batch([Command("SET", good, 1), Command("SET", good, None)])))

    assert redis_server.raw.get(good) is None


def test_numbers_bytes_and_enums_are_sent_as_text(redis_server: Store, drive: Driver) -> None:
    name = key("p", "list")
    parts = [1, 2.5, 10**20, b"\xff\x00", bytearray(b"x"), memoryview(b"y"), redis_color.GREEN, "é"]

    drive(one(Batch([Command("RPUSH", name, *parts), Command("PEXPIRE", name, 60_000)])))

    assert redis_server.raw.lrange(name, 0, 20) == [
        *(b"1", b"2.5", b"100000000000000000000", b"\xff\x00", b"x", b"y", b"3", "é".encode()),
    ]


class redis_color(int):  # noqa: N801
    """An int that hiredis does not take for one."""

    GREEN: redis_color


redis_color.GREEN = redis_color(3)


@pytest.mark.parametrize("seconds", [0.01, 0, -1])
def test_sleep_lasts_its_time_and_ignores_negative_ones(drive: Driver, seconds: float) -> None:
    def flow() -> Flow[float]:
        started_at = time.monotonic()
        yield Sleep(seconds)
        return time.monotonic() - started_at

    assert drive(flow()) >= max(0.0, seconds) * 0.9


def test_wait_returns_the_wakeup_or_none(store: Store, drive: Driver) -> None:
    wakeup = key("p", "wakeup")
    store.raw.rpush(wakeup, "1")

    assert drive(one(Wait(wakeup, 5))) == b"1"
    assert drive(one(Wait(wakeup, 0.01))) is None
    assert drive(one(Wait(wakeup, -1))) is None


def test_command_is_routed_by_its_first_argument_or_by_key() -> None:
    assert Command("GET", "k").key == "k"
    assert Command("PING").key is None
    assert Command("OBJECT", "FREQ", "k", key="k").key == "k"
    assert (Command("INCR", "k").retry, Read("GET", "k").retry) == (False, True)


def cancellable(steps: list[str], waiting: Any, *tidy_up: Any, swallow: bool = False) -> Flow[str]:
    """Return a flow that waits, and cleans up in several steps when it is cancelled."""
    try:
        yield waiting
    except asyncio.CancelledError:
        steps.append("cancelled")
        for request in tidy_up:
            yield request
            steps.append("cleaned up")
        if swallow:
            return "swallowed"
        raise
    return "not cancelled"


async def started(flow: Flow[Any]) -> asyncio.Task[Any]:
    """Return a task that waits for the reply to the flow's first request."""
    task = asyncio.ensure_future(arun(connections.aclient(), flow))
    await asyncio.sleep(0.01)
    return task


def test_cancelled_flow_cleans_up_before_the_cancellation_is_raised(redis_server: Store) -> None:
    name, steps = key("p", "held"), list[str]()
    redis_server.raw.set(name, "mine", px=60_000)

    async def main() -> None:
        task = await started(cancellable(steps, Sleep(30), Command("DEL", name), Command("PING")))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert steps == ["cancelled", "cleaned up", "cleaned up"]

    run_async(main)
    assert redis_server.raw.get(name) is None


def test_cancelled_wait_cleans_up(redis_server: Store) -> None:
    name, steps = key("p", "held"), list[str]()
    redis_server.raw.set(name, "mine", px=60_000)

    async def main() -> None:
        task = await started(cancellable(steps, Wait(key("p", "wakeup"), 3), Command("DEL", name)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_async(main)
    assert redis_server.raw.get(name) is None


@pytest.mark.parametrize("times", [1, 3])
def test_further_cancellations_do_not_reach_the_clean_up(proxy: Proxy, redis_server: Store, times: int) -> None:
    name, steps = key("p", "held"), list[str]()
    redis_server.raw.set(name, "mine", px=60_000)

    async def main() -> None:
        client = connections.aclient("proxied")
        await arun(client, one(Read("PING")))
        flow = cancellable(steps, Sleep(30), Command("PING"), Command("DEL", name))
        task = asyncio.ensure_future(arun(client, flow))
        await asyncio.sleep(0.01)
        proxy.delay(0.02)
        for _ in range(1 + times):
            task.cancel()
            await asyncio.sleep(0.005)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert steps == ["cancelled", "cleaned up", "cleaned up"]
        assert task.cancelled()

    run_async(main)
    assert redis_server.raw.get(name) is None


def test_flow_that_catches_its_cancellation_returns_its_value(redis_server: Store) -> None:
    async def main() -> str:
        task = await started(cancellable([], Sleep(30), Read("PING"), swallow=True))
        task.cancel()
        return str(await task)

    assert run_async(main) == "swallowed"


def test_flow_that_returns_when_cancelled_returns_its_value(redis_server: Store) -> None:
    async def main() -> str:
        task = await started(cancellable([], Sleep(30), swallow=True))
        task.cancel()
        return str(await task)

    assert run_async(main) == "swallowed"


def test_second_cancellation_is_raised_when_the_flow_catches_the_first(redis_server: Store) -> None:
    wakeup = key("p", "wakeup")

    async def main() -> bool:
        task = await started(cancellable([], Sleep(30), Wait(wakeup, 30), swallow=True))
        task.cancel()
        await asyncio.sleep(0.005)
        task.cancel()
        redis_server.raw.rpush(wakeup, "1")
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert run_async(main)


def test_error_during_the_clean_up_is_thrown_into_the_flow(redis_server: Store) -> None:
    seen: list[BaseException] = []

    def flow() -> Flow[str]:
        try:
            yield Sleep(30)
        except asyncio.CancelledError:
            try:
                yield Command("HSET", "x")
            except redis.ResponseError as exc:
                seen.append(exc)
                yield Read("PING")
            raise
        return "not cancelled"

    async def main() -> None:
        task = await started(flow())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_async(main)
    assert len(seen) == 1


def test_uncaught_error_of_the_clean_up_replaces_the_cancellation(redis_server: Store) -> None:
    async def main() -> None:
        task = await started(cancellable([], Sleep(30), Command("HSET", "x")))
        task.cancel()
        with pytest.raises(redis.ResponseError, match="'hset'"):
            await task

    run_async(main)


def test_flow_cleans_up_after_an_asyncio_timeout(redis_server: Store) -> None:
    steps: list[str] = []

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await arun(connections.aclient(), cancellable(steps, Sleep(30), Read("PING")))

    run_async(main)
    assert steps == ["cancelled", "cleaned up"]


def test_flow_of_an_ended_loop_is_closed_without_a_warning() -> None:
    steps: list[str] = []

    def flow() -> Flow[None]:
        try:
            yield Sleep(30)
        except BaseException:
            steps.append("ended")
            yield Sleep(1)
            steps.append("cleaned up")
            raise

    class NoClient:
        """Nothing but Sleep is asked for."""

    async def main() -> None:
        coroutine = arun(NoClient(), flow())  # type: ignore[arg-type]
        coroutine.send(None)
        coroutine.close()

    run_async(main)
    gc.collect()
    assert steps == ["ended"]


def test_lost_reply_is_thrown_into_the_flow(proxy: Proxy, drive: Driver) -> None:
    def flow() -> Flow[str]:
        try:
            yield Command("INCR", key("p", "n"))
        except redis.ConnectionError:
            return "lost"
        return "answered"

    proxy.drop_next_reply(after=b"INCR")

    assert drive(flow(), "proxied") == "lost"
    eventually(lambda: proxy.dropped == 1)


class InterruptedOnce:
    """A flow to which Ctrl-C comes between the reply to its request and its going on."""

    def __init__(self, flow: Flow[Any]) -> None:
        self._flow = flow
        self._interrupted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._flow, name)

    def __next__(self) -> Any:
        return next(self._flow)

    def send(self, reply: Any) -> Any:
        if self._interrupted:
            return self._flow.send(reply)
        self._interrupted = True
        raise KeyboardInterrupt


def test_interruption_between_requests_is_thrown_into_the_flow(redis_server: Store) -> None:
    cleaned_up: list[Any] = []

    def flow() -> Flow[None]:
        try:
            yield Read("PING")
            cleaned_up.append("continued")
        except KeyboardInterrupt:
            cleaned_up.append((yield Read("ECHO", "cleaned up")))
            raise

    with pytest.raises(KeyboardInterrupt):
        run(connections.client(), InterruptedOnce(flow()))

    assert cleaned_up == [b"cleaned up"]

"""`blocking_timeout` is a limit: the answer comes in time, and no grant after it. A lease that is over is no grant."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import ConnectionError, TimeoutError

from django_redis_components.core.client.connections import client
from django_redis_components.core.leasing import wait_queue
from django_redis_components.core.protocol import Wait
from django_redis_components.locks import Lock, LockNotAcquired, MultiLock, ReadWriteLock, lock
from django_redis_components.semaphores import Semaphore, SemaphoreFull
from tests.conftest import components_settings
from tests.locks.steps import Steps
from tests.support import Store, eventually, run_async

pytestmark = pytest.mark.integration

Make = Callable[..., Any]
MAKES: dict[str, Make] = {
    "lock": lambda **options: Lock("stock", **options),
    "group": lambda **options: MultiLock("stock", "price", group="items", **options),
    "spread": lambda **options: MultiLock("stock", "price", **options),
    "write": lambda **options: ReadWriteLock("stock", **options).write(),
    "read": lambda **options: ReadWriteLock("stock", **options).read(),
    "semaphore": lambda **options: Semaphore("stock", 1, **options),
}


@pytest.fixture(params=MAKES)
def make(request: pytest.FixtureRequest) -> Make:
    return MAKES[request.param]


@pytest.fixture(params=[kind for kind in MAKES if kind not in ("read", "spread")])
def make_exclusive(request: pytest.FixtureRequest) -> Make:
    return MAKES[request.param]


def flow_of(item: Any) -> Any:
    """Return the flow of `acquire`."""
    return item.flows.acquire()


def answered_late(steps: Steps, seconds: float) -> None:
    """Perform the request, and deliver its reply after a delay."""
    assert steps.request is not None
    reply = steps.request.perform(client())
    time.sleep(seconds)
    steps.send(reply)


def finished(steps: Steps) -> Any:
    while steps.request is not None:
        steps.perform()
    if steps.error is not None:
        raise steps.error
    return steps.value


def is_punctual(late_s: list[float]) -> bool:
    """Return whether half of the waits ended within 10 ms. A wait that the server rounds is up to 100 ms late."""
    assert min(late_s) >= 0
    return sorted(late_s)[len(late_s) // 2 - 1] < 0.01


def test_blocking_timeout_is_not_rounded_up_by_the_server(redis_server: Store, make_exclusive: Make) -> None:
    make_exclusive(timeout=60).acquire()

    def late_s() -> float:
        started_at = time.monotonic()
        assert not make_exclusive(blocking_timeout=0.03).acquire()
        return time.monotonic() - started_at - 0.03

    eventually(lambda: is_punctual([late_s() for _ in range(12)]))


def test_blocking_timeout_is_not_rounded_up_by_the_server_on_an_event_loop(redis_server: Store) -> None:
    async def late_s() -> float:
        started_at = time.monotonic()
        assert not await Lock("stock", blocking_timeout=0.03).aacquire()
        return time.monotonic() - started_at - 0.03

    async def twelve_waits() -> list[float]:
        return [await late_s() for _ in range(12)]

    Lock("stock").acquire()

    eventually(lambda: is_punctual(run_async(twelve_waits)))


def test_grant_that_arrives_after_the_timeout_is_released(redis_server: Store, make: Make) -> None:
    item = make(timeout=60, blocking_timeout=0.02)
    steps = Steps(flow_of(item))

    answered_late(steps, 0.03)

    assert finished(steps) is False
    assert item.remaining() == 0.0
    assert make(timeout=60, blocking_timeout=0).acquire()


def test_lease_that_expired_before_its_reply_is_requested_again(redis_server: Store, make: Make) -> None:
    item = make(timeout=0.05)
    steps = Steps(flow_of(item))

    answered_late(steps, 0.05)

    assert steps.value is not True
    assert finished(steps) is False or item.remaining() > 0


def test_replies_that_are_always_late_are_refused(redis_server: Store, make_exclusive: Make) -> None:
    item = make_exclusive(timeout=0.02)
    steps = Steps(flow_of(item))

    while steps.request is not None:
        answered_late(steps, 0.03)

    assert steps.value is False
    assert item.remaining() == 0.0
    assert make_exclusive(timeout=60, blocking_timeout=0).acquire()


#: A lease that is over when its reply arrives: the server rounds it to milliseconds.
TOO_SHORT_S = 0.001


def test_late_replies_are_counted_in_succession(redis_server: Store) -> None:
    late, refused = [5, 0], [0, 10]
    steps = Steps(flow_of(Lock("stock", timeout=TOO_SHORT_S)))

    for reply in (late, late, refused, late, late, refused, late, late):
        while not steps.wants("acquire"):
            steps.send(None)  # it waits
        steps.send(reply)
    assert steps.wants("acquire")

    steps.send(late)

    assert not steps.wants("acquire")
    assert finished(steps) is False


def test_block_whose_lease_is_over_at_the_reply_says_so(redis_server: Store, make: Make) -> None:
    text = r"too late, and released: Redis answered after the lease of 0\.001 s had expired\.$"

    with pytest.raises((LockNotAcquired, SemaphoreFull), match=text), make(timeout=TOO_SHORT_S):
        pytest.fail("it ran")


def test_several_locks_whose_lease_is_over_at_the_reply_are_not_requested_for_ever(redis_server: Store) -> None:
    item = MultiLock("stock", "price", timeout=TOO_SHORT_S)

    assert item.acquire() is False
    assert MultiLock("stock", "price", timeout=60, blocking=False).acquire()


def test_block_whose_grant_arrives_after_the_timeout_says_so(redis_server: Store) -> None:
    item = Lock("stock", timeout=60, blocking_timeout=0.02)
    steps = Steps(item.flows.enter())

    answered_late(steps, 0.03)

    with pytest.raises(
        LockNotAcquired, match=r"too late, and released: Redis answered after the time limit of the wait\.$"
    ):
        finished(steps)


@pytest.mark.parametrize("kind", ["lock", "group", "spread", "write", "read"])
def test_acquire_with_the_holders_token_does_not_shorten_its_lease(store: Store, kind: str) -> None:
    first, second = MAKES[kind](timeout=60), MAKES[kind](timeout=0.1)
    first.acquire()

    assert second.acquire(token=first.token)

    eventually(lambda: second.remaining() == 0.0)
    assert first.owned()
    first.check()


def test_wait_that_a_hung_server_prolonged_ends_without_another_request(
    redis_server: Store, make_exclusive: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, item = make_exclusive(timeout=60), make_exclusive(timeout=60, blocking_timeout=30)
    holder.acquire()
    steps = Steps(flow_of(item))
    steps.perform()
    assert isinstance(steps.request, Wait)

    with monkeypatch.context() as patch:
        patch.setattr(wait_queue, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 60))
        steps.send(None)

    assert (steps.request, steps.value) == (None, False)
    holder.release()
    assert item.acquire()  # the hand-off was for its place


#: Socket timeout of a client whose server hangs, in seconds: long enough to tell one from two on a busy machine.
HUNG_S = 5.0
#: Seconds of the wait during which the server is stopped: a busy machine needs some of them to stop it.
WAIT_S = 1.5


@pytest.fixture
def hung(own_server: Store, settings: Any) -> Iterator[Callable[[], None]]:
    """Stops the server; a request to it fails after `HUNG_S`."""
    impatient = components_settings(own_server)
    impatient["CONNECTIONS"]["default"]["SOCKET_TIMEOUT"] = HUNG_S
    settings.REDIS_COMPONENTS = impatient
    pid = own_server.servers[0].pid
    yield lambda: os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)


def test_hung_server_costs_one_socket_timeout_after_the_limit(own_server: Store, hung: Any) -> None:
    Lock("stock").acquire()
    outcome: list[object] = []

    def wait() -> None:
        try:
            outcome.append(Lock("stock").acquire(blocking_timeout=WAIT_S))
        except (ConnectionError, TimeoutError) as exc:
            outcome.append(exc)
        outcome.append(time.monotonic())

    thread = threading.Thread(target=wait)
    thread.start()
    eventually(lambda: Lock("stock").inspect().waiting == 1)
    hung()
    started_at = time.monotonic()
    thread.join(60)

    assert outcome[0] is False or isinstance(outcome[0], Exception)
    assert outcome[1] - started_at < WAIT_S + 1.9 * HUNG_S


def test_hung_server_costs_one_socket_timeout_on_an_event_loop(own_server: Store, hung: Any) -> None:
    took_s = []

    async def main() -> None:
        await Lock("stock").aacquire()
        waiter = asyncio.create_task(Lock("stock").aacquire(blocking_timeout=WAIT_S))
        await asyncio.to_thread(eventually, lambda: Lock("stock").inspect().waiting == 1)
        hung()
        started_at = time.monotonic()
        await asyncio.wait([waiter], timeout=30)
        took_s.append(time.monotonic() - started_at)
        assert waiter.exception() is not None or waiter.result() is False

    run_async(main)

    assert took_s[0] < WAIT_S + 1.9 * HUNG_S


def test_free_lock_is_acquired_with_any_timeout(redis_server: Store) -> None:
    assert any(Lock(f"stock {number}").acquire(blocking_timeout=0.0001) for number in range(20))


def test_decorated_function_is_not_called_under_an_expired_lease(redis_server: Store) -> None:
    called = []

    @lock("stock", timeout=0.002, on_conflict="skip")
    def work() -> None:
        called.append(True)

    work()

    assert called == []

"""Waiting for a lock: order, hand-off, dead waiters, and waiters that leave."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.client.connections import client
from django_redis_components.core.leasing import wait_queue
from django_redis_components.core.protocol import Sleep, Wait
from django_redis_components.locks import Lock
from django_redis_components.taskqueue import SoftTimeLimitExceeded
from tests.locks.steps import Steps, acquisition
from tests.support import Store, eventually, run_async
from tests.support.child import print_line
from tests.support.processes import Children


@pytest.fixture
def quick_handoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand-offs last for a tenth of a second."""
    monkeypatch.setattr(wait_queue, "HANDOFF_MS", 100)


def lock_key(store: Store) -> str:
    return f"{store.prefix}:locks:{{stock}}"


def queue(store: Store) -> list[bytes]:
    return store.raw.zrange(f"{lock_key(store)}:queue", 0, -1)


def queued(lock: Lock | None = None) -> Steps:
    """Return the steps of an `acquire` that is queued; its next request waits for the wakeup."""
    steps = Steps((lock or Lock("stock")).flows.acquire())
    steps.perform()
    assert isinstance(steps.request, Wait)
    return steps


def start(func: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=func)
    thread.start()
    return thread


def test_release_wakes_the_waiter(store: Store) -> None:
    holder, waiter = Lock("stock"), Lock("stock")
    holder.acquire()
    got: list[bool] = []
    thread = start(lambda: got.append(waiter.acquire()))
    eventually(lambda: len(queue(store)) == 1)

    holder.release()

    thread.join(60)
    assert got == [True]
    assert store.raw.get(lock_key(store)) == waiter.flows.leases.newest.token.encode()
    assert store.raw.pttl(lock_key(store)) > 15_000
    assert queue(store) == []


def test_waiters_are_served_in_fifo_order(store: Store) -> None:
    holder = Lock("stock")
    holder.acquire()
    served: list[int] = []

    def wait(number: int) -> None:
        with Lock("stock"):
            served.append(number)

    threads = []
    for number in range(6):
        threads.append(start(lambda number=number: wait(number)))
        eventually(lambda number=number: len(queue(store)) == number + 1)
    holder.release()

    for thread in threads:
        thread.join(60)
    assert served == list(range(6))


def test_newcomer_does_not_overtake_waiters(store: Store) -> None:
    holder = Lock("stock")
    holder.acquire()
    waiter = queued()

    holder.release()

    assert not Lock("stock").acquire(blocking=False)
    waiter.perform()
    waiter.perform()
    assert waiter.value is True


def test_handoff_is_a_short_lease_until_the_waiter_accepts_it(store: Store) -> None:
    holder, lock = Lock("stock"), Lock("stock", timeout=60)
    holder.acquire()
    waiter = queued(lock)

    holder.release()

    assert 0 < store.raw.pttl(lock_key(store)) <= wait_queue.HANDOFF_MS
    waiter.perform()
    waiter.perform()
    assert store.raw.pttl(lock_key(store)) > 30_000


def test_handoff_becomes_the_requested_lease_when_that_is_shorter(store: Store) -> None:
    holder, lock = Lock("stock"), Lock("stock", timeout=1.5)
    holder.acquire()
    waiter = queued(lock)
    holder.release()

    waiter.perform()
    waiter.perform()

    assert 0 < store.raw.pttl(lock_key(store)) <= 1_500


def test_waiter_is_served_after_its_wakeup_was_lost(store: Store) -> None:
    holder = Lock("stock")
    holder.acquire()
    waiter = queued()
    holder.release()
    store.raw.delete(waiter.request.wakeup.keys[0])

    waiter.send(None)
    waiter.perform()

    assert waiter.value is True


def test_wakeup_key_has_a_ttl(store: Store) -> None:
    holder = Lock("stock")
    holder.acquire()
    waiter = queued()

    holder.release()

    assert 0 < store.raw.pttl(waiter.request.wakeup.keys[0]) <= wait_queue.HANDOFF_MS


def test_dead_waiter_is_skipped(store: Store) -> None:
    holder = Lock("stock")
    holder.acquire()
    dead, alive = queued(), queued()
    first = queue(store)[0]
    store.raw.zadd(f"{lock_key(store)}:asked", {first: 1})

    holder.release()

    alive.perform()
    alive.perform()
    assert alive.value is True
    assert queue(store) == []
    assert dead.request is not None


def test_waiter_that_died_with_a_handoff_delays_by_its_lease_only(store: Store, quick_handoff: None) -> None:
    holder = Lock("stock")
    holder.acquire()
    queued()
    waiter = Lock("stock")
    got: list[bool] = []
    thread = start(lambda: got.append(waiter.acquire()))
    eventually(lambda: len(queue(store)) == 2)

    holder.release()

    thread.join(60)
    assert got == [True]


def test_killed_waiter_is_skipped(redis_server: Store, children: Children, quick_handoff: None) -> None:
    holder = Lock("stock", timeout=300)  # a child may take more than 30 s to start beside other load
    holder.acquire()
    child = children.call("tests.locks.test_waiting:acquire_and_print")
    eventually(lambda: len(queue(redis_server)) == 1)
    child.kill()

    holder.release()

    assert Lock("stock").acquire(blocking_timeout=60)


def test_waiter_is_served_when_the_lease_of_a_killed_holder_expires(redis_server: Store, children: Children) -> None:
    child = children.call("tests.locks.test_waiting:acquire_and_print", 0.3)
    child.wait_for("taken")
    child.kill()

    assert Lock("stock").acquire(blocking_timeout=60)


def acquire_and_print(timeout: float = 30) -> None:
    try:
        Lock("stock", timeout=timeout).acquire()
    except KeyboardInterrupt:
        print_line("interrupted")
        return
    print_line("taken")
    signal.pause()


def test_newcomer_grants_an_expired_lock_to_the_first_waiter(store: Store) -> None:
    holder = Lock("stock")
    holder.acquire()
    waiter = queued()
    store.raw.delete(lock_key(store))

    assert not Lock("stock").acquire(blocking=False)

    assert store.raw.llen(waiter.request.wakeup.keys[0]) == 1
    waiter.perform()
    waiter.perform()
    assert waiter.value is True


def test_waiter_leaves_the_queue_at_its_time_limit(store: Store) -> None:
    Lock("stock").acquire()

    assert not Lock("stock").acquire(blocking_timeout=0.02)

    assert queue(store) == []
    assert not store.raw.exists(f"{lock_key(store)}:asked")


def test_waiter_presumed_dead_rejoins_at_the_end_of_the_queue(store: Store) -> None:
    holder = Lock("stock")
    holder.acquire()
    slow, other = queued(), queued()
    slow_token, other_token = queue(store)
    store.raw.zrem(f"{lock_key(store)}:queue", slow_token)
    store.raw.zrem(f"{lock_key(store)}:asked", slow_token)

    slow.send(None)
    slow.perform()

    assert queue(store) == [other_token, slow_token]
    assert isinstance(other.request, Wait)


def test_queue_order_survives_a_server_clock_that_was_set_back(store: Store) -> None:
    holder = Lock("stock")
    holder.acquire()
    queued()
    first = queue(store)[0]
    store.raw.zadd(f"{lock_key(store)}:queue", {first: 2**52})

    queued()

    assert queue(store)[0] == first


def test_dead_waiters_are_skipped_after_the_server_clock_was_set_back(store: Store) -> None:
    holder = Lock("stock")
    holder.acquire()
    queued()
    waiter = queued()
    store.raw.zadd(f"{lock_key(store)}:asked", {queue(store)[0]: 2**52}, xx=True)  # an hour ahead, as it were

    holder.release()

    waiter.send(None)
    waiter.perform()
    assert waiter.value is True


def test_no_wait_is_longer_than_a_handoff(store: Store) -> None:
    holder = Lock("stock", timeout=600)
    holder.acquire()

    waiter = queued()

    assert waiter.request.seconds == pytest.approx(0.75 * wait_queue.HANDOFF_MS / 1_000)
    assert store.raw.pttl(f"{lock_key(store)}:queue") > wait_queue.liveness_ms() - 1_000


def test_wait_ends_when_the_lease_expires_and_the_last_waiter_wakes_last(store: Store) -> None:
    Lock("stock", timeout=1.9).acquire()

    first, second = queued(), queued()

    assert 0.5 < first.request.seconds <= 1.901
    assert second.request.seconds <= 1.903
    assert queued().request.seconds > 0.5


def test_wait_ends_at_the_time_limit_of_the_waiter(redis_server: Store) -> None:
    Lock("stock").acquire()

    assert queued(Lock("stock", blocking_timeout=0.25)).request.seconds <= 0.25


def test_newcomer_may_acquire_a_freed_lock_when_not_fair(store: Store) -> None:
    holder = Lock("stock", fair=False)
    holder.acquire()
    waiter = queued(Lock("stock", fair=False))

    holder.release()

    newcomer = Lock("stock", fair=False)
    assert newcomer.acquire(blocking=False)
    waiter.perform()
    waiter.perform()
    assert isinstance(waiter.request, Wait)
    newcomer.release()
    waiter.perform()
    waiter.perform()
    assert waiter.value is True
    assert queue(store) == []


def test_unread_wakeup_is_written_once_when_not_fair(store: Store) -> None:
    waiter_lock = Lock("stock", fair=False)
    Lock("stock", fair=False).acquire(token="first")
    waiter = queued(waiter_lock)
    for _ in range(3):
        lock = Lock("stock", fair=False)
        lock.acquire(token="first")
        lock.release()

    assert store.raw.llen(waiter.request.wakeup.keys[1]) == 1


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_interrupted_waiter_leaves_the_queue(store: Store, interruption: type[BaseException]) -> None:
    Lock("stock").acquire()
    waiter = queued()

    waiter.throw(interruption())

    assert waiter.wants("abandon")
    assert waiter.perform() == 1
    assert isinstance(waiter.error, interruption)
    assert queue(store) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_interrupted_waiter_passes_on_its_handoff(store: Store, interruption: type[BaseException]) -> None:
    holder = Lock("stock")
    holder.acquire()
    interrupted, next_one = queued(), queued()
    holder.release()

    interrupted.throw(interruption())
    interrupted.perform()

    next_one.perform()
    next_one.perform()
    assert next_one.value is True
    assert isinstance(interrupted.error, interruption)
    assert store.raw.pttl(f"{lock_key(store)}:wakeup") <= 2_000  # the shared wakeup is a hint that expires


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_interrupted_last_waiter_frees_the_lock(store: Store, interruption: type[BaseException]) -> None:
    holder = Lock("stock")
    holder.acquire()
    interrupted = queued()
    holder.release()

    interrupted.throw(interruption())
    interrupted.perform()

    assert not holder.locked()
    assert [key for key in store.keys() if b"wakeup" in key] == []  # noqa: SIM118


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_interrupted_waiter_wakes_the_next_one_when_not_fair(store: Store, interruption: type[BaseException]) -> None:
    holder = Lock("stock", fair=False)
    holder.acquire()
    interrupted, next_one = queued(Lock("stock", fair=False)), queued(Lock("stock", fair=False))
    holder.release()
    interrupted.send(None)
    interrupted.request.perform(client())  # granted, but the reply is not read

    interrupted.throw(interruption())
    interrupted.perform()

    assert store.raw.llen(next_one.request.wakeup.keys[1]) == 1
    next_one.perform()
    next_one.perform()
    assert next_one.value is True


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_request_that_arrives_after_the_interruption_is_undone(store: Store, interruption: type[BaseException]) -> None:
    interrupted = acquisition(Lock("stock"))
    sent = interrupted.request

    interrupted.throw(interruption())
    assert interrupted.perform() == 0
    sent.perform(client())
    assert isinstance(interrupted.request, Sleep)
    interrupted.perform()
    assert interrupted.perform() == 1

    assert isinstance(interrupted.error, interruption)
    assert not Lock("stock").locked()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_interruption_is_raised_when_the_server_is_unavailable(
    redis_server: Store, interruption: type[BaseException]
) -> None:
    Lock("stock").acquire()
    waiter = queued()
    waiter.throw(interruption())

    waiter.throw(ConnectionError("away"))

    assert isinstance(waiter.error, interruption)


def test_ctrl_c_ends_a_wait_and_leaves_the_queue(redis_server: Store, children: Children) -> None:
    Lock("stock").acquire()
    child = children.call("tests.locks.test_waiting:acquire_and_print")
    eventually(lambda: len(queue(redis_server)) == 1)

    child.signal(signal.SIGINT)

    child.wait_for("interrupted")
    assert queue(redis_server) == []


def test_closed_flow_sends_no_more_requests(redis_server: Store) -> None:
    Lock("stock").acquire()
    flow = Lock("stock").flows.acquire()
    next(flow)

    flow.close()


def test_cancelled_task_leaves_the_queue(store: Store) -> None:
    async def main() -> None:
        holder = Lock("stock")
        await holder.aacquire()
        task = asyncio.create_task(Lock("stock").aacquire())
        await asyncio.to_thread(eventually, lambda: len(queue(store)) == 1)

        task.cancel()

        await asyncio.wait([task], timeout=60)
        assert task.cancelled()
        assert queue(store) == []
        await holder.arelease()
        assert not await holder.alocked()

    run_async(main)


@pytest.mark.contract
def test_task_cancelled_during_its_handoff_passes_it_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_queue, "HANDOFF_MS", 20_000)  # the wait after a lost hand-off

    async def once(iterations: int) -> bool:
        holder, cancelled, next_one = Lock("stock"), Lock("stock"), Lock("stock")
        await holder.aacquire()
        task = asyncio.create_task(cancelled.aacquire())
        await asyncio.to_thread(eventually, lambda: len(queue(store)) == 1)
        waiting = asyncio.create_task(next_one.aacquire())
        await asyncio.to_thread(eventually, lambda: len(queue(store)) == 2)

        holder.release()  # on a separate connection: the event loop has not noticed it yet
        for _ in range(iterations):
            await asyncio.sleep(0)
        task.cancel()

        await asyncio.wait([task], timeout=60)
        if not task.cancelled():  # it was granted the lock before the cancellation
            await cancelled.arelease()
        async with asyncio.timeout(15):
            assert await waiting
        await next_one.arelease()
        return task.cancelled()

    async def main() -> None:
        assert any([await once(iterations) for iterations in range(12)])

    run_async(main)


def test_wait_ended_by_asyncio_timeout_leaves_the_queue(store: Store) -> None:
    async def main() -> None:
        await Lock("stock").aacquire()

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await Lock("stock").aacquire()

        assert queue(store) == []

    run_async(main)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_request_of_a_waiter_that_arrives_after_the_interruption_is_undone(
    store: Store, interruption: type[BaseException]
) -> None:
    holder = Lock("stock")
    holder.acquire()
    steps = acquisition(Lock("stock"))
    steps.perform()
    steps.send(None)  # it waited and asks again
    sent = steps.request

    steps.throw(interruption())
    steps.perform()
    holder.release()
    sent.perform(client())
    assert isinstance(steps.request, Sleep)
    steps.perform()
    steps.perform()

    assert isinstance(steps.error, interruption)
    assert not holder.locked()

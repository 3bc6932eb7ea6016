"""Waiting for a semaphore: order, hand-off, dead waiters, and waiters that leave."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from django_redis_components.core.client.connections import client
from django_redis_components.core.leasing import wait_queue
from django_redis_components.core.protocol import Sleep
from django_redis_components.semaphores import PermitNotOwned, Semaphore
from django_redis_components.taskqueue import SoftTimeLimitExceeded
from tests.locks.steps import acquisition
from tests.semaphores.support import Waiter, held, key_of, queue
from tests.support import Store, eventually, run_async
from tests.support.child import print_line
from tests.support.processes import Children


def test_release_wakes_the_waiter(store: Store) -> None:
    holder, waiter = held(), Semaphore("pool", 1, timeout=60)
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(waiter.acquire()))
    thread.start()
    eventually(lambda: len(queue(store)) == 1)

    holder.release()

    thread.join(60)
    assert got == [True]
    assert waiter.inspect().holders[0].remaining > 30
    assert queue(store) == []


def test_waiters_are_served_in_fifo_order(store: Store) -> None:
    holder = held()
    waiters = [Waiter() for _ in range(3)]

    for waiter in waiters:
        holder.release()
        assert waiter.is_served()
        holder = waiter.semaphore

    assert queue(store) == []


def test_newcomer_does_not_overtake_waiters(store: Store) -> None:
    holder = held()
    waiter = Waiter()

    holder.release()

    assert not Semaphore("pool", 1, blocking=False).acquire()
    assert waiter.is_served()


def test_request_for_many_permits_is_not_overtaken_by_smaller_ones(store: Store) -> None:
    first, second = held(limit=3, permits=2), held(limit=3)
    many, few = Waiter(limit=3, permits=3), Waiter(limit=3)

    second.release()
    assert not few.is_served()
    assert not Semaphore("pool", 3, blocking=False).acquire()
    first.release()

    assert many.is_served()
    assert not few.is_served()
    many.semaphore.release()
    assert few.is_served()


def test_release_serves_as_many_waiters_as_fit(store: Store) -> None:
    holder = held(limit=3, permits=3)
    waiters = [Waiter(limit=3) for _ in range(4)]

    holder.release()

    assert [waiter.is_served() for waiter in waiters] == [True, True, True, False]


def test_each_waiter_is_served_under_its_own_limit(store: Store) -> None:
    wide = held(limit=5, permits=5)
    narrow = Waiter(limit=2)
    single = held_more = Semaphore("pool", 5, blocking=False)

    wide.release()
    assert narrow.is_served()
    assert held_more.acquire(4)
    second = Waiter(limit=2)
    single.release()

    assert second.is_served()
    assert Semaphore("pool", 5, blocking=False).available() == 3


def test_handoff_is_a_short_lease_until_the_waiter_accepts_it(store: Store) -> None:
    holder = held()
    waiter = Waiter(timeout=60)

    holder.release()

    assert 0 < holder.inspect().holders[0].remaining <= wait_queue.HANDOFF_MS / 1_000
    assert waiter.is_served()
    assert holder.inspect().holders[0].remaining > 30


def test_handoff_becomes_the_requested_lease_when_that_is_shorter(store: Store) -> None:
    holder = held()
    waiter = Waiter(timeout=1.5)
    holder.release()

    assert waiter.is_served()

    assert holder.inspect().holders[0].remaining <= 1.5


def test_waiter_is_served_after_a_lost_wakeup_and_an_unread_wakeup_expires(store: Store) -> None:
    holder = held()
    waiter = Waiter()

    holder.release()

    assert 0 < store.raw.pttl(waiter.steps.request.wakeup.keys[0]) <= wait_queue.HANDOFF_MS
    assert waiter.is_served()


def test_waiter_is_served_after_script_flush(store: Store) -> None:
    holder, waiter = held(), Waiter()

    store.raw.script_flush()
    holder.release()
    store.raw.script_flush()

    assert waiter.is_served()


def test_dead_waiter_is_skipped(store: Store) -> None:
    holder = held()
    dead, alive = Waiter(), Waiter()
    store.raw.zadd(f"{key_of(store)}:asked", {queue(store)[0]: 1})

    holder.release()

    assert alive.is_served()
    assert queue(store) == []
    assert dead.steps.value is None


def test_waiter_that_died_with_a_handoff_delays_by_its_lease_only(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_queue, "HANDOFF_MS", 100)
    holder = held()
    Waiter()

    holder.release()

    assert Semaphore("pool", 1, blocking_timeout=60).acquire()


def test_waiter_is_served_when_the_permit_of_a_killed_holder_expires(redis_server: Store, children: Children) -> None:
    child = children.call("tests.semaphores.test_waiting:acquire_and_print", 0.3)
    child.wait_for("taken")
    child.kill()

    assert Semaphore("pool", 1, blocking_timeout=60).acquire()


def acquire_and_print(timeout: float) -> None:
    Semaphore("pool", 1, timeout=timeout, blocking=False).acquire()
    print_line("taken")
    signal.pause()


def test_wait_ends_when_the_first_permit_expires(store: Store) -> None:
    held(timeout=1.9)

    assert 0.5 < Waiter().steps.request.seconds <= 1.901
    assert Waiter().steps.request.seconds <= 1.903


def test_no_wait_is_longer_than_a_handoff(store: Store) -> None:
    held(timeout=600)

    assert Waiter().steps.request.seconds == pytest.approx(0.75 * wait_queue.HANDOFF_MS / 1_000)


def test_waiter_behind_a_larger_request_waits(store: Store) -> None:
    big = Waiter
    holder = held(limit=2)
    first = big(limit=2, permits=2)
    store.raw.delete(key_of(store))

    second = Semaphore("pool", 2, blocking_timeout=0.02)

    assert not second.acquire()
    assert first.is_served()
    with pytest.raises(PermitNotOwned):
        holder.release()


def test_waiter_leaves_the_queue_at_its_time_limit(store: Store) -> None:
    held()

    assert not Semaphore("pool", 1, blocking_timeout=0.02).acquire()

    assert queue(store) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_interrupted_waiter_leaves_the_queue(store: Store, interruption: type[BaseException]) -> None:
    held()
    steps = Waiter().steps

    steps.throw(interruption())

    assert steps.wants("abandon")
    assert steps.perform() == 1
    assert isinstance(steps.error, interruption)
    assert queue(store) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_interrupted_waiter_passes_on_its_handoff(store: Store, interruption: type[BaseException]) -> None:
    holder = held(limit=2, permits=2)
    interrupted, next_one = Waiter(limit=2, permits=2).steps, Waiter(limit=2)
    holder.release()

    interrupted.throw(interruption())
    interrupted.perform()

    assert next_one.is_served()
    assert holder.available() == 1
    assert isinstance(interrupted.error, interruption)


@pytest.mark.contract
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_request_that_arrives_after_the_interruption_is_undone(store: Store, interruption: type[BaseException]) -> None:
    semaphore = Semaphore("pool", 1, blocking=False)
    steps = acquisition(semaphore)
    sent = steps.request

    steps.throw(interruption())
    assert steps.perform() == 0
    sent.perform(client())
    assert isinstance(steps.request, Sleep)
    steps.perform()
    steps.perform()

    assert semaphore.available() == 1
    assert isinstance(steps.error, interruption)


def test_cancelled_task_leaves_the_queue(store: Store) -> None:
    async def main() -> None:
        holder = Semaphore("pool", 1, blocking=False)
        await holder.aacquire()
        task = asyncio.create_task(Semaphore("pool", 1).aacquire())
        await asyncio.to_thread(eventually, lambda: len(queue(store)) == 1)

        task.cancel()

        await asyncio.wait([task], timeout=60)
        assert task.cancelled()
        assert queue(store) == []
        await holder.arelease()
        assert await holder.aavailable() == 1

    run_async(main)


def test_large_request_that_reaches_its_time_limit_unblocks_later_ones(store: Store) -> None:
    held = Semaphore("pool", 3, timeout=60, blocking=False)
    held.acquire(2)
    many = acquisition(Semaphore("pool", 3, blocking_timeout=0.001), 3)
    many.perform()
    few = acquisition(Semaphore("pool", 3))
    few.perform()
    while many.request:
        many.perform()

    assert many.value is False
    assert held.available() == 0

"""The line before a semaphore: order, hand-off, the dead, and those who give up."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from django_redis_components.core.client.connections import client
from django_redis_components.core.leasing import wait_queue
from django_redis_components.core.protocol import Sleep, Wait
from django_redis_components.semaphores import PermitNotOwned, Semaphore
from django_redis_components.taskqueue import SoftTimeLimitExceeded
from tests.locks.steps import acquisition
from tests.support import Store, eventually, run_async
from tests.support.child import say
from tests.support.processes import Children


def key_of(store: Store) -> str:
    return f"{store.prefix}:semaphores:{{pool}}"


def line(store: Store) -> list[bytes]:
    return store.raw.zrange(f"{key_of(store)}:queue", 0, -1)


def held(limit: int = 1, permits: int = 1, **options: object) -> Semaphore:
    """A semaphore whose permits are taken."""
    semaphore = Semaphore("pool", limit, **options, blocking=False)
    assert semaphore.acquire(permits)
    return semaphore


class Waiter:
    """One who stands in line and is about to wait for the bell."""

    def __init__(self, limit: int = 1, permits: int = 1, **options: object) -> None:
        self.semaphore = Semaphore("pool", limit, **options)
        self.steps = acquisition(self.semaphore, permits)
        self.steps.go()
        assert isinstance(self.steps.request, Wait)

    def is_served(self) -> bool:
        """Ask again without hearing the bell; whether it got its permits."""
        self.steps.send(None)
        self.steps.go()
        return self.steps.value is True


def test_a_release_wakes_the_waiter(store: Store) -> None:
    holder, waiter = held(), Semaphore("pool", 1, timeout=60)
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(waiter.acquire()))
    thread.start()
    eventually(lambda: len(line(store)) == 1)

    holder.release()

    thread.join(60)
    assert got == [True]
    assert waiter.inspect().holders[0].remaining > 59
    assert line(store) == []


def test_waiters_are_served_in_the_order_in_which_they_came(store: Store) -> None:
    holder = held()
    waiters = [Waiter() for _ in range(3)]

    for waiter in waiters:
        holder.release()
        assert waiter.is_served()
        holder = waiter.semaphore

    assert line(store) == []


def test_a_newcomer_does_not_jump_the_line(store: Store) -> None:
    holder = held()
    waiter = Waiter()

    holder.release()

    assert not Semaphore("pool", 1, blocking=False).acquire()
    assert waiter.is_served()


def test_who_wants_many_is_not_overtaken_by_who_wants_few(store: Store) -> None:
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


def test_one_release_serves_as_many_as_there_is_room_for(store: Store) -> None:
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


def test_a_hand_off_is_a_short_lease_until_the_waiter_takes_it(store: Store) -> None:
    holder = held()
    waiter = Waiter(timeout=60)

    holder.release()

    assert 1 < holder.inspect().holders[0].remaining <= wait_queue.HANDOFF_MS / 1_000
    assert waiter.is_served()
    assert holder.inspect().holders[0].remaining > 59


def test_a_hand_off_becomes_the_lease_that_was_asked_for_also_when_that_is_shorter(store: Store) -> None:
    holder = held()
    waiter = Waiter(timeout=1.5)
    holder.release()

    assert waiter.is_served()

    assert holder.inspect().holders[0].remaining <= 1.5


def test_a_lost_bell_loses_nothing_and_an_unheard_one_goes_by_itself(store: Store) -> None:
    holder = held()
    waiter = Waiter()

    holder.release()

    assert 0 < store.raw.pttl(waiter.steps.request.wakeup.keys[0]) <= wait_queue.HANDOFF_MS
    assert waiter.is_served()


def test_a_waiter_goes_on_when_the_server_forgets_the_scripts_meanwhile(store: Store) -> None:
    holder, waiter = held(), Waiter()

    store.raw.script_flush()
    holder.release()
    store.raw.script_flush()

    assert waiter.is_served()


def test_a_dead_waiter_is_skipped(store: Store) -> None:
    holder = held()
    dead, alive = Waiter(), Waiter()
    store.raw.zadd(f"{key_of(store)}:asked", {line(store)[0]: 1})

    holder.release()

    assert alive.is_served()
    assert line(store) == []
    assert dead.steps.value is None


def test_a_waiter_that_died_holding_a_hand_off_costs_its_time_only(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_queue, "HANDOFF_MS", 100)
    holder = held()
    Waiter()

    holder.release()

    assert Semaphore("pool", 1, blocking_timeout=60).acquire()


def test_the_permit_of_a_killed_holder_goes_to_the_waiter_when_it_expires(
    redis_server: Store, children: Children
) -> None:
    child = children.call("tests.semaphores.test_waiting:take_and_say", 0.3)
    child.wait_for("taken")
    child.kill()

    assert Semaphore("pool", 1, blocking_timeout=60).acquire()


def take_and_say(timeout: float) -> None:
    Semaphore("pool", 1, timeout=timeout, blocking=False).acquire()
    say("taken")
    signal.pause()


def test_a_wait_ends_with_the_first_permit_that_expires(store: Store) -> None:
    held(timeout=1.9)

    assert 0.5 < Waiter().steps.request.seconds <= 1.901
    assert Waiter().steps.request.seconds <= 1.903


def test_no_wait_is_longer_than_a_hand_off(store: Store) -> None:
    held(timeout=600)

    assert Waiter().steps.request.seconds == pytest.approx(0.75 * wait_queue.HANDOFF_MS / 1_000)


def test_who_stands_behind_somebody_who_wants_more_than_is_free_waits_too(store: Store) -> None:
    big = Waiter
    holder = held(limit=2)
    first = big(limit=2, permits=2)
    store.raw.delete(key_of(store))

    second = Semaphore("pool", 2, blocking_timeout=0.02)

    assert not second.acquire()
    assert first.is_served()
    with pytest.raises(PermitNotOwned):
        holder.release()


def test_a_waiter_whose_patience_ends_leaves_the_line(store: Store) -> None:
    held()

    assert not Semaphore("pool", 1, blocking_timeout=0.02).acquire()

    assert line(store) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_an_interrupted_waiter_leaves_the_line(store: Store, interruption: type[BaseException]) -> None:
    held()
    steps = Waiter().steps

    steps.throw(interruption())

    assert steps.wants("abandon")
    assert steps.go() == 1
    assert isinstance(steps.error, interruption)
    assert line(store) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_an_interrupted_waiter_hands_on_what_it_was_just_given(store: Store, interruption: type[BaseException]) -> None:
    holder = held(limit=2, permits=2)
    interrupted, next_one = Waiter(limit=2, permits=2).steps, Waiter(limit=2)
    holder.release()

    interrupted.throw(interruption())
    interrupted.go()

    assert next_one.is_served()
    assert holder.available() == 1
    assert isinstance(interrupted.error, interruption)


@pytest.mark.contract
@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_a_request_that_arrives_after_the_interruption_is_undone_too(
    store: Store, interruption: type[BaseException]
) -> None:
    semaphore = Semaphore("pool", 1, blocking=False)
    steps = acquisition(semaphore)
    under_way = steps.request

    steps.throw(interruption())
    assert steps.go() == 0
    under_way.perform(client())
    assert isinstance(steps.request, Sleep)
    steps.go()
    steps.go()

    assert semaphore.available() == 1
    assert isinstance(steps.error, interruption)


def test_a_cancelled_task_leaves_the_line(store: Store) -> None:
    async def main() -> None:
        holder = Semaphore("pool", 1, blocking=False)
        await holder.aacquire()
        task = asyncio.create_task(Semaphore("pool", 1).aacquire())
        await asyncio.to_thread(eventually, lambda: len(line(store)) == 1)

        task.cancel()

        await asyncio.wait([task], timeout=60)
        assert task.cancelled()
        assert line(store) == []
        await holder.arelease()
        assert await holder.aavailable() == 1

    run_async(main)


def test_one_who_wants_many_and_loses_patience_lets_those_behind_in(store: Store) -> None:
    held = Semaphore("pool", 3, timeout=60, blocking=False)
    held.acquire(2)
    many = acquisition(Semaphore("pool", 3, blocking_timeout=0.001), 3)
    many.go()
    few = acquisition(Semaphore("pool", 3))
    few.go()
    while many.request:
        many.go()

    assert many.value is False
    assert held.available() == 0

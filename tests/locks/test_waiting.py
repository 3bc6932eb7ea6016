"""The line before a lock: order, hand-off, the dead, and those who give up."""

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
from tests.support.child import say
from tests.support.processes import UNMEASURED, Children


@pytest.fixture
def quick_handoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand-offs that wait a tenth of a second."""
    monkeypatch.setattr(wait_queue, "HANDOFF_MS", 100)


def lock_key(store: Store) -> str:
    return f"{store.prefix}:locks:{{door}}"


def line(store: Store) -> list[bytes]:
    return store.raw.zrange(f"{lock_key(store)}:queue", 0, -1)


def queued(lock: Lock | None = None) -> Steps:
    """One who stands in line and is about to wait for the bell."""
    steps = Steps((lock or Lock("door")).flows.acquire())
    steps.go()
    assert isinstance(steps.request, Wait)
    return steps


def start(func: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=func)
    thread.start()
    return thread


def test_a_release_wakes_the_waiter(store: Store) -> None:
    holder, waiter = Lock("door"), Lock("door")
    holder.acquire()
    got: list[bool] = []
    thread = start(lambda: got.append(waiter.acquire()))
    eventually(lambda: len(line(store)) == 1)

    holder.release()

    thread.join(60)
    assert got == [True]
    assert store.raw.get(lock_key(store)) == waiter.flows.leases.newest.token.encode()
    assert store.raw.pttl(lock_key(store)) > 29_000
    assert line(store) == []


def test_waiters_are_served_in_the_order_in_which_they_came(store: Store) -> None:
    holder = Lock("door")
    holder.acquire()
    served: list[int] = []

    def wait(number: int) -> None:
        with Lock("door"):
            served.append(number)

    threads = []
    for number in range(6):
        threads.append(start(lambda number=number: wait(number)))
        eventually(lambda number=number: len(line(store)) == number + 1)
    holder.release()

    for thread in threads:
        thread.join(60)
    assert served == list(range(6))


def test_a_newcomer_does_not_jump_the_line(store: Store) -> None:
    holder = Lock("door")
    holder.acquire()
    waiter = queued()

    holder.release()

    assert not Lock("door").acquire(blocking=False)
    waiter.go()
    waiter.go()
    assert waiter.value is True


def test_a_hand_off_is_a_short_lease_until_the_waiter_takes_it(store: Store) -> None:
    holder, lock = Lock("door"), Lock("door", timeout=60)
    holder.acquire()
    waiter = queued(lock)

    holder.release()

    assert 0 < store.raw.pttl(lock_key(store)) <= wait_queue.HANDOFF_MS
    waiter.go()
    waiter.go()
    assert store.raw.pttl(lock_key(store)) > 59_000


def test_a_hand_off_becomes_the_lease_that_was_asked_for_also_when_that_is_shorter(store: Store) -> None:
    holder, lock = Lock("door"), Lock("door", timeout=1.5)
    holder.acquire()
    waiter = queued(lock)
    holder.release()

    waiter.go()
    waiter.go()

    assert 0 < store.raw.pttl(lock_key(store)) <= 1_500


def test_a_lost_bell_loses_nothing(store: Store) -> None:
    holder = Lock("door")
    holder.acquire()
    waiter = queued()
    holder.release()
    store.raw.delete(waiter.request.wakeup.keys[0])

    waiter.send(None)
    waiter.go()

    assert waiter.value is True


def test_a_bell_has_a_ttl(store: Store) -> None:
    holder = Lock("door")
    holder.acquire()
    waiter = queued()

    holder.release()

    assert 0 < store.raw.pttl(waiter.request.wakeup.keys[0]) <= wait_queue.HANDOFF_MS


def test_a_dead_waiter_is_skipped(store: Store) -> None:
    holder = Lock("door")
    holder.acquire()
    dead, alive = queued(), queued()
    first = line(store)[0]
    store.raw.zadd(f"{lock_key(store)}:asked", {first: 1})

    holder.release()

    alive.go()
    alive.go()
    assert alive.value is True
    assert line(store) == []
    assert dead.request is not None


def test_a_waiter_that_died_holding_a_hand_off_costs_its_time_only(store: Store, quick_handoff: None) -> None:
    holder = Lock("door")
    holder.acquire()
    queued()
    waiter = Lock("door")
    got: list[bool] = []
    thread = start(lambda: got.append(waiter.acquire()))
    eventually(lambda: len(line(store)) == 2)

    holder.release()

    thread.join(60)
    assert got == [True]


def test_a_waiter_that_is_killed_is_skipped(redis_server: Store, children: Children, quick_handoff: None) -> None:
    holder = Lock("door")
    holder.acquire()
    child = children.call("tests.locks.test_waiting:take_and_say")
    eventually(lambda: len(line(redis_server)) == 1)
    child.kill()

    holder.release()

    assert Lock("door").acquire(blocking_timeout=60)


def test_the_lock_of_a_killed_holder_goes_to_the_waiter_when_its_lease_ends(
    redis_server: Store, children: Children
) -> None:
    child = children.call("tests.locks.test_waiting:take_and_say", 0.3)
    child.wait_for("taken")
    child.kill()

    assert Lock("door").acquire(blocking_timeout=60)


def take_and_say(timeout: float = 30) -> None:
    try:
        Lock("door", timeout=timeout).acquire()
    except KeyboardInterrupt:
        say("interrupted")
        return
    say("taken")
    signal.pause()


def test_whoever_comes_to_a_lock_that_expired_hands_it_to_the_first_in_line(store: Store) -> None:
    holder = Lock("door")
    holder.acquire()
    waiter = queued()
    store.raw.delete(lock_key(store))

    assert not Lock("door").acquire(blocking=False)

    assert store.raw.llen(waiter.request.wakeup.keys[0]) == 1
    waiter.go()
    waiter.go()
    assert waiter.value is True


def test_a_waiter_whose_patience_ends_leaves_the_line(store: Store) -> None:
    Lock("door").acquire()

    assert not Lock("door").acquire(blocking_timeout=0.02)

    assert line(store) == []
    assert not store.raw.exists(f"{lock_key(store)}:asked")


def test_a_waiter_that_was_taken_for_dead_goes_on_at_the_end_of_the_line(store: Store) -> None:
    holder = Lock("door")
    holder.acquire()
    slow, other = queued(), queued()
    slow_token, other_token = line(store)
    store.raw.zrem(f"{lock_key(store)}:queue", slow_token)
    store.raw.zrem(f"{lock_key(store)}:asked", slow_token)

    slow.send(None)
    slow.go()

    assert line(store) == [other_token, slow_token]
    assert isinstance(other.request, Wait)


def test_tickets_grow_also_when_the_servers_clock_was_set_back(store: Store) -> None:
    holder = Lock("door")
    holder.acquire()
    queued()
    first = line(store)[0]
    store.raw.zadd(f"{lock_key(store)}:queue", {first: 2**52})

    queued()

    assert line(store)[0] == first


def test_the_dead_are_passed_over_also_when_the_servers_clock_was_set_back(store: Store) -> None:
    holder = Lock("door")
    holder.acquire()
    queued()
    waiter = queued()
    store.raw.zadd(f"{lock_key(store)}:asked", {line(store)[0]: 2**52}, xx=True)  # an hour ahead, as it were

    holder.release()

    waiter.send(None)
    waiter.go()
    assert waiter.value is True


def test_no_wait_is_longer_than_a_hand_off(store: Store) -> None:
    holder = Lock("door", timeout=600)
    holder.acquire()

    waiter = queued()

    assert waiter.request.seconds == pytest.approx(0.75 * wait_queue.HANDOFF_MS / 1_000)
    assert store.raw.pttl(f"{lock_key(store)}:queue") > wait_queue.liveness_ms() - 1_000


def test_a_wait_ends_with_the_lease_of_the_holder_and_the_last_in_line_wakes_last(store: Store) -> None:
    Lock("door", timeout=1.9).acquire()

    first, second = queued(), queued()

    assert 0.5 < first.request.seconds <= 1.901
    assert second.request.seconds <= 1.903
    assert queued().request.seconds > 0.5


def test_a_wait_ends_with_the_waiters_patience(redis_server: Store) -> None:
    Lock("door").acquire()

    assert queued(Lock("door", blocking_timeout=0.25)).request.seconds <= 0.25


def test_not_fair_a_newcomer_may_take_a_lock_that_was_just_freed(store: Store) -> None:
    holder = Lock("door", fair=False)
    holder.acquire()
    waiter = queued(Lock("door", fair=False))

    holder.release()

    newcomer = Lock("door", fair=False)
    assert newcomer.acquire(blocking=False)
    waiter.go()
    waiter.go()
    assert isinstance(waiter.request, Wait)
    newcomer.release()
    waiter.go()
    waiter.go()
    assert waiter.value is True
    assert line(store) == []


def test_not_fair_a_wakeup_that_is_not_read_is_written_once(store: Store) -> None:
    waiter_lock = Lock("door", fair=False)
    Lock("door", fair=False).acquire(token="first")
    waiter = queued(waiter_lock)
    for _ in range(3):
        lock = Lock("door", fair=False)
        lock.acquire(token="first")
        lock.release()

    assert store.raw.llen(waiter.request.wakeup.keys[1]) == 1


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_an_interrupted_waiter_leaves_the_line(store: Store, interruption: type[BaseException]) -> None:
    Lock("door").acquire()
    waiter = queued()

    waiter.throw(interruption())

    assert waiter.wants("abandon")
    assert waiter.go() == 1
    assert isinstance(waiter.error, interruption)
    assert line(store) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_an_interrupted_waiter_hands_on_what_it_was_just_given(store: Store, interruption: type[BaseException]) -> None:
    holder = Lock("door")
    holder.acquire()
    interrupted, next_one = queued(), queued()
    holder.release()

    interrupted.throw(interruption())
    interrupted.go()

    next_one.go()
    next_one.go()
    assert next_one.value is True
    assert isinstance(interrupted.error, interruption)
    assert not store.raw.exists(f"{lock_key(store)}:bell")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_an_interrupted_waiter_without_followers_frees_the_lock(
    store: Store, interruption: type[BaseException]
) -> None:
    holder = Lock("door")
    holder.acquire()
    interrupted = queued()
    holder.release()

    interrupted.throw(interruption())
    interrupted.go()

    assert not holder.locked()
    assert [key for key in store.keys() if b"bell" in key] == []  # noqa: SIM118


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_not_fair_an_interrupted_waiter_tells_the_next_one(store: Store, interruption: type[BaseException]) -> None:
    holder = Lock("door", fair=False)
    holder.acquire()
    interrupted, next_one = queued(Lock("door", fair=False)), queued(Lock("door", fair=False))
    holder.release()
    interrupted.send(None)
    interrupted.request.perform(client())  # granted, but nobody looks at the reply

    interrupted.throw(interruption())
    interrupted.go()

    assert store.raw.llen(next_one.request.wakeup.keys[1]) == 1
    next_one.go()
    next_one.go()
    assert next_one.value is True


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_a_request_that_arrives_after_the_interruption_is_undone_too(
    store: Store, interruption: type[BaseException]
) -> None:
    interrupted = acquisition(Lock("door"))
    under_way = interrupted.request

    interrupted.throw(interruption())
    assert interrupted.go() == 0
    under_way.perform(client())
    assert isinstance(interrupted.request, Sleep)
    interrupted.go()
    assert interrupted.go() == 1

    assert isinstance(interrupted.error, interruption)
    assert not Lock("door").locked()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_an_interruption_is_not_hidden_by_a_server_that_is_away(
    redis_server: Store, interruption: type[BaseException]
) -> None:
    Lock("door").acquire()
    waiter = queued()
    waiter.throw(interruption())

    waiter.throw(ConnectionError("away"))

    assert isinstance(waiter.error, interruption)


def test_control_c_ends_a_wait_and_leaves_the_line(redis_server: Store, children: Children) -> None:
    Lock("door").acquire()
    child = children.call("tests.locks.test_waiting:take_and_say", env=UNMEASURED)
    eventually(lambda: len(line(redis_server)) == 1)

    child.signal(signal.SIGINT)

    child.wait_for("interrupted")
    assert line(redis_server) == []


def test_a_flow_that_is_closed_asks_for_nothing_more(redis_server: Store) -> None:
    Lock("door").acquire()
    flow = Lock("door").flows.acquire()
    next(flow)

    flow.close()


def test_a_cancelled_task_leaves_the_line(store: Store) -> None:
    async def main() -> None:
        holder = Lock("door")
        await holder.aacquire()
        task = asyncio.create_task(Lock("door").aacquire())
        await asyncio.to_thread(eventually, lambda: len(line(store)) == 1)

        task.cancel()

        await asyncio.wait([task], timeout=60)
        assert task.cancelled()
        assert line(store) == []
        await holder.arelease()
        assert not await holder.alocked()

    run_async(main)


@pytest.mark.contract
def test_a_task_that_is_cancelled_while_it_is_given_the_lock_hands_it_on(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_queue, "HANDOFF_MS", 20_000)  # what a hand-off that is lost would cost

    async def once(turns_of_the_loop: int) -> bool:
        holder, cancelled, next_one = Lock("door"), Lock("door"), Lock("door")
        await holder.aacquire()
        task = asyncio.create_task(cancelled.aacquire())
        await asyncio.to_thread(eventually, lambda: len(line(store)) == 1)
        waiting = asyncio.create_task(next_one.aacquire())
        await asyncio.to_thread(eventually, lambda: len(line(store)) == 2)

        holder.release()  # on a connection of its own: the loop sees nothing of it yet
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        task.cancel()

        await asyncio.wait([task], timeout=60)
        if not task.cancelled():  # it had the lock before it was cancelled
            await cancelled.arelease()
        async with asyncio.timeout(15):
            assert await waiting
        await next_one.arelease()
        return task.cancelled()

    async def main() -> None:
        assert any([await once(turns_of_the_loop) for turns_of_the_loop in range(12)])

    run_async(main)


def test_a_wait_with_a_timeout_of_asyncio_leaves_the_line(store: Store) -> None:
    async def main() -> None:
        await Lock("door").aacquire()

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await Lock("door").aacquire()

        assert line(store) == []

    run_async(main)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_a_question_of_one_in_line_that_arrives_after_the_interruption_is_undone_too(
    store: Store, interruption: type[BaseException]
) -> None:
    holder = Lock("door")
    holder.acquire()
    steps = acquisition(Lock("door"))
    steps.go()
    steps.send(None)  # it has waited, and asks again
    under_way = steps.request

    steps.throw(interruption())
    steps.go()
    holder.release()
    under_way.perform(client())
    assert isinstance(steps.request, Sleep)
    steps.go()
    steps.go()

    assert isinstance(steps.error, interruption)
    assert not holder.locked()

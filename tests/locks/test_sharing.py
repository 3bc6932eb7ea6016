"""One object, many holders: threads, tasks, and the children of a fork."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from django_redis_components.core.leasing import lease as lease_module
from django_redis_components.core.leasing import owner
from django_redis_components.core.leasing.lease import Lease, LostEvent
from django_redis_components.core.leasing.owner import Acquisition, OwnedLeases
from django_redis_components.locks import Lock, LockNotOwned
from tests.support import Store, eventually, run_together


def in_a_thread(func) -> None:
    """Run to its end in another thread; what it raises is raised here."""
    run_together(1, func)


def test_threads_share_one_lock_object(redis_server: Store) -> None:
    lock = Lock("stock")
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(5):
            with lock:
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    run_together(8, work)

    assert set(most) == {1}
    assert len(most) == 40
    assert not lock.locked()


def test_thread_whose_lease_expired_cannot_release_the_lock_of_another(redis_server: Store) -> None:
    lock = Lock("stock", timeout=1)
    lock.acquire()
    eventually(lambda: not lock.locked())
    taken, may_release = threading.Event(), threading.Event()
    survived: list[bool] = []

    def other() -> None:
        lock.acquire(blocking=False)
        lock.extend(30)
        taken.set()
        may_release.wait(60)
        survived.append(lock.owned())

    thread = threading.Thread(target=other)
    thread.start()
    taken.wait(60)

    with pytest.raises(LockNotOwned):
        lock.release()

    may_release.set()
    thread.join(60)
    assert survived == [True]


def test_refused_thread_cannot_release_the_lock_of_another(redis_server: Store) -> None:
    lock = Lock("stock")
    lock.acquire()

    def careless() -> None:
        try:
            lock.acquire(blocking=False)
        finally:
            lock.release()

    with pytest.raises(LockNotOwned):
        in_a_thread(careless)

    assert lock.owned()


def test_forked_child_does_not_own_its_parents_lock(redis_server: Store) -> None:
    lock = Lock("stock")
    lock.acquire()

    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            lock.release()
        except LockNotOwned:
            os._exit(7 if lock.token is None and lock.locked() else 8)
        os._exit(9)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7
    assert lock.owned()


def test_forked_child_does_not_use_an_unsettled_token_of_its_parent(redis_server: Store) -> None:
    queue = Lock("stock").flows.queue
    queue.keep_unsettled("of-the-parent")

    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        os._exit(7 if queue.pop_unsettled() is None else 8)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7
    assert queue.pop_unsettled() == "of-the-parent"


def test_lost_event_wakes_a_waiting_thread(redis_server: Store) -> None:
    lock = Lock("stock")
    lock.acquire()
    lost = lock.lost
    woken: list[bool] = []
    thread = threading.Thread(target=lambda: woken.append(lost.wait(60)))
    thread.start()
    redis_server.raw.delete(f"{redis_server.prefix}:locks:{{stock}}")

    with pytest.raises(LockNotOwned):
        lock.release()

    thread.join(60)
    assert woken == [True]
    assert lock.lost is lost


class ExtendedMeanwhile(Lease):
    """Its first deadline comes when a thread waits for its loss, and another thread extends it."""

    is_waited_for = False

    @property
    def is_lost(self) -> bool:
        if self.is_waited_for:
            self.deadline_at = float("inf")
        is_lost = super().is_lost
        if not self.is_waited_for:
            self.deadline_at = time.monotonic()
        self.is_waited_for = True
        return is_lost


def test_extended_lease_is_not_lost_at_its_first_deadline() -> None:
    lease = ExtendedMeanwhile("token", deadline_at=float("inf"))

    assert lease.lost.wait(0.05) is False


def test_wait_for_the_lost_event_ends_when_the_lease_was_released_before() -> None:
    lease = Lease("token", deadline_at=time.monotonic())
    lease.mark_released()
    woken: list[bool] = []
    thread = threading.Thread(target=lambda: woken.append(lease.lost.wait()), daemon=True)

    thread.start()

    thread.join(60)
    assert woken == [False]


def test_threads_that_read_the_lost_event_first_at_the_same_time_get_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    lease = Lease("token", deadline_at=float("inf"))
    others: list[LostEvent] = []

    class CreatedByAnotherThreadToo(LostEvent):
        def __init__(self, of: Lease) -> None:
            super().__init__(of)
            if not others:
                others.append(self)
                others[0] = lease.lost

    monkeypatch.setattr(lease_module, "LostEvent", CreatedByAnotherThreadToo)

    assert lease.lost is others[0]


def test_wait_for_the_lost_event_ends_after_its_timeout() -> None:
    lease = Lease("token", deadline_at=float("inf"))

    assert lease.lost.wait(0.01) is False


def test_lease_can_be_removed_twice() -> None:
    leases = OwnedLeases()
    lease = Lease("token", deadline_at=float("inf"))
    leases.add(lease, Acquisition())

    leases.remove(lease)
    leases.remove(lease)

    assert leases.current() is None
    assert not lease.is_lost
    assert lease.remaining_s == 0.0


def test_closed_release_flow_removes_the_lease(redis_server: Store) -> None:
    lock = Lock("stock")
    lock.acquire()
    flow = lock.flows.release()
    next(flow)

    flow.close()

    assert lock.token is None


def test_forked_child_can_acquire_while_a_parent_thread_creates_a_lock(redis_server: Store) -> None:
    making, made = threading.Event(), threading.Event()

    def make() -> None:
        with owner.Mutexes.shared:
            making.set()
            made.wait(60)

    thread = threading.Thread(target=make)
    thread.start()
    making.wait(60)

    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        signal.alarm(30)
        with Lock("stock", reentrant=True):
            os._exit(7)
    made.set()
    thread.join()
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 7

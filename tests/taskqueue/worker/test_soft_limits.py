"""A soft time limit interrupts our components; none suppresses it or reports it as its own outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from django_redis_components.analytics.safeguard import Safeguard
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.expiry import cached
from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.ratelimits import RateLimit
from django_redis_components.ratelimits.signals import rate_limited
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue import SoftTimeLimitExceeded, task
from django_redis_components.taskqueue.signals import task_enqueued
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker.interruption import ThreadRun
from django_redis_components.transactions import atomic_update
from tests.support import Store, eventually
from tests.support.clients import blocked_ids

pytestmark = pytest.mark.integration

JOB = Job("id", "token", "name", b"[[],{}]", "default", 0, 0, 0, 0, 0)
#: Seconds of a lease: none ends by itself during a test.
LONG_S = 600

WAITERS: dict[str, Callable[[], Any]] = {
    "lock": partial(Lock, "door", timeout=LONG_S),
    "renewed": partial(Lock, "door", timeout=LONG_S, renew=True),
    "group": partial(MultiLock, "door", "gate", timeout=LONG_S, group="doors"),
    "names": partial(MultiLock, "door", "gate", timeout=LONG_S),
    "reader": lambda: ReadWriteLock("door", timeout=LONG_S).read(),
    "writer": lambda: ReadWriteLock("door", timeout=LONG_S).write(),
    "semaphore": partial(Semaphore, "door", 1, timeout=LONG_S, blocking=True),
}


def is_free(guard: Any) -> bool:
    return guard.available() == 1 if isinstance(guard, Semaphore) else not guard.locked()


@pytest.mark.parametrize("kind", WAITERS)
def test_soft_limit_of_a_waiter_leaves_nothing_held(redis_server: Store, kind: str) -> None:
    """The thread waits in C: the interruption comes when it is woken, that is between the grant and its return."""
    holder = ReadWriteLock("door", timeout=LONG_S).write() if kind == "reader" else WAITERS[kind]()
    holder.acquire()
    run, waiter, ends = ThreadRun(JOB), WAITERS[kind](), []
    blocked_before = blocked_ids(redis_server)

    def wait() -> None:
        try:
            run.call(waiter.acquire, [], {}, None)
        except BaseException as exc:  # noqa: BLE001 - looked at below
            ends.append(exc)

    thread = threading.Thread(target=wait)
    thread.start()
    if kind != "names":  # these do not queue
        eventually(lambda: blocked_ids(redis_server) - blocked_before)
    run.interrupt(SoftTimeLimitExceeded)
    holder.release()
    thread.join(60)

    assert is_free(holder)
    assert [type(end) for end in ends] == [SoftTimeLimitExceeded]
    assert waiter.token is None
    assert WAITERS[kind]().acquire()


def test_soft_limit_is_no_error_of_an_operation() -> None:
    """A handler of those must not handle it."""
    assert not issubclass(SoftTimeLimitExceeded, RedisComponentsError)
    assert issubclass(SoftTimeLimitExceeded, Exception)


def test_soft_limit_passes_through_counting() -> None:
    guard = Safeguard()

    with pytest.raises(SoftTimeLimitExceeded), guard.suppress_errors("page views"):
        raise SoftTimeLimitExceeded
    with pytest.raises(SoftTimeLimitExceeded), guard.log_errors("page views"):
        raise SoftTimeLimitExceeded


def test_soft_limit_ends_an_early_recomputation(redis_server: Store) -> None:
    values = iter([1])

    @cached("early", 60, early=1e9)
    def value() -> int:
        for number in values:
            return number
        raise SoftTimeLimitExceeded

    assert value() == 1
    with pytest.raises(SoftTimeLimitExceeded):
        value()
    assert [key for key in redis_server.keys() if key.endswith(b":lease")] == []  # noqa: SIM118


def test_soft_limit_in_a_receiver_ends_the_task_that_sent_the_signal(redis_server: Store) -> None:
    def interrupted(**_: object) -> None:
        raise SoftTimeLimitExceeded

    limit = RateLimit("visits", "1/h")
    limit.hit("ada")
    for signal, send in ((rate_limited, partial(limit.hit, "ada")), (task_enqueued, nothing.enqueue)):
        signal.connect(interrupted)
        try:
            with pytest.raises(SoftTimeLimitExceeded):
                send()
        finally:
            signal.disconnect(interrupted)


def test_soft_limit_in_an_atomic_update_closes_its_connection(redis_server: Store) -> None:
    def update(pipe: Any) -> None:
        pipe.get("stock")
        raise SoftTimeLimitExceeded

    with pytest.raises(SoftTimeLimitExceeded):
        atomic_update(update, "stock")
    atomic_update(lambda pipe: pipe.multi(), "stock")


@task
def nothing() -> None:
    pass

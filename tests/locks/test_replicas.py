"""`min_replicas`: a lock is granted when that many replicas have acknowledged it."""

from __future__ import annotations

import os
import signal

import pytest
import redis

from django_redis_components.locks import Lock, MultiLock, NotEnoughReplicas, ReadWriteLock
from django_redis_components.locks.base import BaseLock
from tests.locks.steps import Steps, acquisition
from tests.support import Store, eventually, run_async
from tests.support.pools import close_pools
from tools.localserver import LocalServer


def test_grant_acknowledged_by_a_replica_is_kept(own_server: Store, replica: LocalServer) -> None:
    lock = Lock("stock", min_replicas=1)

    def is_acquired() -> bool:
        try:
            return lock.acquire()
        except NotEnoughReplicas:  # the replica had no CPU for a second
            return False

    eventually(is_acquired)
    with redis.Redis.from_url(replica.url) as copy:
        assert copy.get(f"{own_server.prefix}:locks:{{stock}}") == lock.token.encode()


def test_grant_without_acknowledgement_is_released(own_server: Store, replica: LocalServer) -> None:
    lock = Lock("stock", min_replicas=1, timeout=0.5)
    os.kill(replica.pid, signal.SIGSTOP)

    with pytest.raises(NotEnoughReplicas) as caught:
        lock.acquire()

    expected = "Lock 'stock' was released: 0 of 1 replicas acknowledged the grant in time."
    assert str(caught.value) == expected
    assert (caught.value.name, caught.value.wanted, caught.value.acknowledged) == ("stock", 1, 0)
    assert lock.token is None
    assert not lock.locked()


def test_acknowledgement_is_checked_on_another_connection(own_server: Store, replica: LocalServer) -> None:
    lock = Lock("stock", min_replicas=1, timeout=0.5)
    os.kill(replica.pid, signal.SIGSTOP)
    steps = acquisition(lock)
    steps.perform()
    close_pools()

    assert steps.perform()[1] == 0

    steps.perform()
    assert isinstance(steps.error, NotEnoughReplicas)


def a_reader(name: str, *, min_replicas: int) -> BaseLock:
    return ReadWriteLock(name, min_replicas=min_replicas).read()


@pytest.mark.parametrize("make", [Lock, MultiLock, a_reader])
def test_grant_missing_on_the_primary_of_the_replicas_is_refused(own_server: Store, replica: LocalServer, make) -> None:
    lock = make("stock", min_replicas=1)
    steps = acquisition(lock)
    steps.perform()
    own_server.raw.flushall()  # as after a failover to a replica that had not got it

    while steps.request:
        steps.perform()

    assert isinstance(steps.error, NotEnoughReplicas)
    assert lock.token is None


def test_server_without_replicas_grants_nothing(redis_server: Store) -> None:
    async def main() -> None:
        with pytest.raises(NotEnoughReplicas, match="0 of 2 replicas"):
            await Lock("stock", min_replicas=2, timeout=0.2).aacquire()

    run_async(main)
    assert not Lock("stock").locked()


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: MultiLock("a", "b", group="items", **options),
        lambda **options: MultiLock("a", "b", **options),
        lambda **options: ReadWriteLock("stock", **options).read(),
        lambda **options: ReadWriteLock("stock", **options).write(),
    ],
    ids=["group", "spread", "read", "write"],
)
def test_all_kinds_of_locks_wait_for_the_replicas(store: Store, make) -> None:
    lock = make(min_replicas=1, timeout=0.2)

    with pytest.raises(NotEnoughReplicas):
        lock.acquire()

    assert not lock.locked()


def test_refused_acquire_does_not_wait_for_replicas(redis_server: Store) -> None:
    Lock("stock").acquire()

    assert not Lock("stock", min_replicas=1).acquire(blocking=False)


def test_error_while_waiting_for_replicas_releases_the_lock(redis_server: Store) -> None:
    lock = Lock("stock", min_replicas=1)
    steps = acquisition(lock)
    steps.perform()

    steps.throw(redis.ConnectionError("away"))
    assert steps.wants("release")
    steps.perform()

    assert isinstance(steps.error, redis.ConnectionError)
    assert lock.token is None
    assert not lock.locked()


def test_lasting_error_leaves_the_lease_to_expire(redis_server: Store) -> None:
    lock = Lock("stock", min_replicas=1)
    steps = acquisition(lock)
    steps.perform()

    for _ in range(3):
        if steps.request is not None:
            steps.throw(redis.ConnectionError("away"))

    assert isinstance(steps.error, redis.ConnectionError)
    assert lock.token is None
    assert Lock("stock").locked()


def test_flow_closed_while_waiting_for_replicas_sends_no_more_requests(redis_server: Store) -> None:
    flow = Lock("stock", min_replicas=1).flows.acquire()
    steps = Steps(flow)
    steps.perform()

    flow.close()

"""Permits that are renewed while their holders work, and holders that learn that they lost theirs.

Renewal in general is tested with locks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from redis.exceptions import NoPermissionError

from django_redis_components.core.leasing import renewal
from django_redis_components.semaphores import PermitLost, PermitNotOwned, Semaphore, SemaphoreError, semaphore
from tests.semaphores.support import key_of
from tests.support import Store, eventually, run_async
from tests.support.renewals import end_renewer

#: Seconds of a lease. It is renewed after a hundredth of them, so that a busy machine does not lose it.
LEASE_S = 60


@pytest.fixture(autouse=True)
def _own_renewer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No thread of an earlier test runs, and that of this test ends with it."""
    monkeypatch.setattr(renewal, "LINGER_S", 0.05)
    monkeypatch.setattr(renewal, "RENEW_AFTER", 0.01)
    end_renewer()
    yield
    end_renewer()


def test_all_permits_of_a_lease_are_renewed(store: Store) -> None:
    pool = Semaphore("pool", 5, timeout=LEASE_S, renew=True, blocking=False)
    assert pool.acquire(3)

    wait_for_renewal(store)

    pool.check()
    assert pool.available() == 2
    pool.release()
    assert not store.raw.exists(key_of(store))


def test_permit_of_a_task_is_renewed(redis_server: Store) -> None:
    async def main() -> None:
        async with Semaphore("pool", 1, timeout=LEASE_S, renew=True, blocking=False) as pool:
            wait_for_renewal(redis_server)
            pool.check()
            assert await pool.aavailable() == 0

    run_async(main)


def test_permit_granted_after_a_wait_is_renewed(redis_server: Store) -> None:
    first, second = Semaphore("pool", 1, timeout=0.1, blocking=False), Semaphore("pool", 1, timeout=LEASE_S, renew=True)
    first.acquire()
    assert second.acquire()

    wait_for_renewal(redis_server)

    second.check()
    second.release()


def test_released_permit_is_not_renewed(redis_server: Store) -> None:
    lost: list[object] = []
    pool = Semaphore("pool", 1, timeout=LEASE_S, renew=True, on_lost=lost.append, blocking=False)
    with pool:
        assert len(renewal.renewer.watches) == 1

    assert not renewal.renewer.watches
    assert lost == []
    assert pool.available() == 1


def test_refused_acquire_is_not_renewed(redis_server: Store) -> None:
    Semaphore("pool", 1, blocking=False).acquire()

    assert not Semaphore("pool", 1, renew=True, blocking=False).acquire()

    assert not renewal.renewer.watches


def test_permit_is_not_renewed_after_max_lease(redis_server: Store) -> None:
    lost: list[object] = []
    pool = Semaphore("pool", 1, timeout=0.2, renew=True, max_lease=0.4, on_lost=lost.append, blocking=False)
    pool.acquire()

    eventually(lambda: lost == [pool], timeout_s=30)

    with pytest.raises(PermitLost):
        pool.check()
    eventually(lambda: pool.available() == 1, timeout_s=30)


def test_on_lost_is_called_when_the_server_lost_the_permit(redis_server: Store) -> None:
    lost: list[object] = []
    pool = Semaphore("pool", 1, timeout=0.5, renew=True, on_lost=lost.append, blocking=False)
    pool.acquire()

    redis_server.raw.delete(key_of(redis_server))

    eventually(lambda: lost == [pool], timeout_s=30)
    assert pool.lost.is_set()
    assert pool.available() == 1, "it was not taken again"


def test_on_lost_is_called_at_once_when_extend_is_refused(redis_server: Store) -> None:
    lost: list[object] = []
    pool = Semaphore("pool", 1, timeout=60, on_lost=lost.append, blocking=False)
    pool.acquire()
    redis_server.raw.delete(key_of(redis_server))

    with pytest.raises(PermitNotOwned):
        pool.reacquire()

    eventually(lambda: lost == [pool], timeout_s=30)


def test_permit_whose_release_failed_is_left_to_expire(redis_server: Store) -> None:
    pool = Semaphore("pool", 1, timeout=LEASE_S, renew=True, blocking=False)
    pool.acquire()
    flow = pool.flows.release()
    next(flow)

    with pytest.raises(NoPermissionError):
        flow.throw(NoPermissionError("NOPERM"))

    assert not renewal.renewer.watches
    pool.release()


def test_check_and_remaining_use_the_local_deadline(redis_server: Store) -> None:
    pool = Semaphore("pool", 1, timeout=60, blocking=False)
    assert pool.remaining() == 0
    pool.acquire()

    pool.check()
    assert 30 < pool.remaining() <= 60
    assert not pool.lost.is_set()


def test_expired_permit_is_lost(redis_server: Store) -> None:
    pool = Semaphore("pool", 1, timeout=0.02, blocking=False)
    pool.acquire()

    assert pool.lost.wait(30)

    with pytest.raises(PermitLost) as caught:
        pool.check()
    assert str(caught.value) == "Permit of semaphore 'pool' is lost: its lease expired before it was released."
    assert isinstance(caught.value, PermitNotOwned)
    assert pool.remaining() == 0


def test_check_raises_when_no_permit_was_acquired(redis_server: Store) -> None:
    pool = Semaphore("pool", 1, blocking=False)

    with pytest.raises(PermitNotOwned) as caught:
        pool.check()

    assert (
        str(caught.value)
        == "Permit of semaphore 'pool' is not held by this thread or task: not acquired here, or released."
    )
    assert isinstance(caught.value, SemaphoreError)
    assert not pool.lost.is_set()


def test_permit_of_a_decorated_function_is_renewed(redis_server: Store) -> None:
    @semaphore("pool", limit=1, timeout=LEASE_S, renew=True)
    def work() -> int:
        wait_for_renewal(redis_server)
        return Semaphore("pool", 1, blocking=False).available()

    assert work() == 0


def wait_for_renewal(store: Store) -> None:
    """Until each permit that is held now expires later than it does now."""
    before = dict(store.raw.zrange(key_of(store), 0, -1, withscores=True))
    assert before
    eventually(
        lambda: all((store.raw.zscore(key_of(store), each) or 0) > ends for each, ends in before.items()), timeout_s=30
    )


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"max_lease": 60}, ValueError, "max_lease=60 requires renew=True: otherwise a lease ends after its timeout."),
        ({"max_lease": 5, "renew": True}, ValueError, "max_lease=5: expected at least the timeout, which is 10.0."),
        ({"max_lease": "60", "renew": True}, TypeError, "max_lease='60': expected a number of seconds"),
        ({"on_lost": 7}, TypeError, "on_lost=7: expected a function that takes the semaphore."),
    ],
)
def test_invalid_option_is_refused(arguments: dict[str, object], error: type, text: str) -> None:
    for make in (Semaphore, semaphore):
        with pytest.raises(error) as caught:
            make("pool", limit=5, **arguments)

        assert text in str(caught.value)


def test_permit_is_released_when_the_renewal_thread_cannot_start(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more_threads(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool = Semaphore("pool", 1, renew=True, blocking=False)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_more_threads)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.acquire()

    assert pool.available() == 1

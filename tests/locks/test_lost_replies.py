"""Each operation while the reply, and only the reply, is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.locks import Lock, LockNotOwned
from tests.locks.steps import Steps, acquisition
from tests.support import Proxy, Store, eventually, run_async, run_together
from tests.support.pools import close_pools

KEY = b"{stock}"
#: One request and its three repetitions.
ALL_TRIES = 4

Do = Callable[..., Any]


@pytest.fixture(autouse=True)
def _known_scripts(redis_server: Store) -> None:
    """A server that does not know a script refuses it: when that reply is lost, nothing has run."""
    with Lock("warm", timeout=60) as lock:
        lock.extend(70)


@pytest.fixture(params=["sync", "async"])
def do(request: pytest.FixtureRequest) -> Do:
    """``do(lock, "acquire", …)`` calls the method, or its async twin in a new event loop."""

    def call(lock: Lock, method: str, *args: Any, **kwargs: Any) -> Any:
        if request.param == "sync":
            return getattr(lock, method)(*args, **kwargs)

        async def twin() -> Any:
            awaitable: Awaitable[Any] = getattr(lock, f"a{method}")(*args, **kwargs)
            return await awaitable

        return run_async(twin)

    return call


def test_acquire_succeeds_when_its_reply_is_lost(proxy: Proxy, do: Do) -> None:
    lock = Lock("stock", using="proxied")
    proxy.drop_next_reply(after=KEY)

    assert do(lock, "acquire", blocking=False) is True

    assert proxy.dropped == 1
    assert Lock("stock").acquire(blocking=False, token=lock.token)
    assert not Lock("stock").acquire(blocking=False)


def test_repeated_acquire_takes_one_fencing_token(proxy: Proxy, redis_server: Store, do: Do) -> None:
    lock = Lock("stock", using="proxied")
    proxy.drop_next_reply(after=KEY, times=2)

    do(lock, "acquire")

    assert int(redis_server.raw.get(f"{redis_server.prefix}:locks:{{stock}}:fence")) == lock.fencing_token


def test_release_succeeds_when_its_reply_is_lost(proxy: Proxy, do: Do) -> None:
    lock = Lock("stock", using="proxied")
    do(lock, "acquire")
    proxy.drop_next_reply(after=KEY)

    do(lock, "release")

    assert proxy.dropped == 1
    assert not Lock("stock").locked()


def test_repeated_release_grants_to_one_waiter(proxy: Proxy, do: Do) -> None:
    holder, waiter = Lock("stock", using="proxied"), Lock("stock")
    do(holder, "acquire")
    steps = acquisition(waiter)
    steps.perform()
    proxy.drop_next_reply(after=KEY)

    do(holder, "release")

    steps.perform()
    steps.perform()
    assert steps.value is True
    assert waiter.owned()


def test_extend_succeeds_when_its_reply_is_lost(proxy: Proxy, redis_server: Store, do: Do) -> None:
    lock = Lock("stock", using="proxied", timeout=5)
    do(lock, "acquire")
    proxy.drop_next_reply(after=KEY)

    assert do(lock, "extend", 60)

    assert proxy.dropped == 1
    assert redis_server.raw.pttl(f"{redis_server.prefix}:locks:{{stock}}") > 30_000


@pytest.mark.parametrize("method", ["owned", "locked"])
def test_read_methods_return_when_their_reply_is_lost(proxy: Proxy, do: Do, method: str) -> None:
    lock = Lock("stock", using="proxied")
    do(lock, "acquire")
    proxy.drop_next_reply(after=KEY)

    assert do(lock, method) is True

    assert proxy.dropped == 1


def test_next_acquire_finds_the_grant_after_all_attempts_failed(proxy: Proxy, do: Do) -> None:
    lock = Lock("stock", using="proxied")
    proxy.drop_next_reply(after=KEY, times=ALL_TRIES)
    with pytest.raises(ConnectionError):
        do(lock, "acquire")
    assert Lock("stock").locked()

    assert do(lock, "acquire", blocking=False) is True


def test_next_release_succeeds_after_all_attempts_failed(proxy: Proxy, do: Do) -> None:
    lock = Lock("stock", using="proxied")
    do(lock, "acquire")
    proxy.drop_next_reply(after=KEY, times=1 + ALL_TRIES)
    with pytest.raises(ConnectionError):
        do(lock, "release")
    assert not Lock("stock").locked()

    do(lock, "release")

    with pytest.raises(LockNotOwned, match="not acquired here, or released"):
        do(lock, "release")


def test_release_refused_by_the_first_reply_raises(proxy: Proxy, redis_server: Store, do: Do) -> None:
    lock = Lock("stock", using="proxied")
    do(lock, "acquire")
    redis_server.raw.delete(f"{redis_server.prefix}:locks:{{stock}}")

    with pytest.raises(LockNotOwned):
        do(lock, "release")


def test_repeated_release_raises_when_the_lease_ended_before_the_first_arrived(
    proxy: Proxy, redis_server: Store
) -> None:
    lock = Lock("stock", using="proxied")
    lock.acquire()
    proxy.stop_accepting()
    close_pools()
    with pytest.raises(NotConnected):
        lock.release()
    redis_server.raw.delete(f"{redis_server.prefix}:locks:{{stock}}")
    proxy.accept_again()

    with pytest.raises(LockNotOwned):
        lock.release()


def test_repeated_release_raises_when_the_lease_expired(proxy: Proxy) -> None:
    lock = Lock("stock", using="proxied", timeout=0.03)
    lock.acquire()
    assert lock.lost.wait(60)
    eventually(lambda: not Lock("stock").locked())
    proxy.drop_next_reply(after=KEY)

    with pytest.raises(LockNotOwned):
        lock.release()


def test_token_of_the_caller_is_not_reused_by_the_next_acquire(proxy: Proxy) -> None:
    lock = Lock("stock", using="proxied")
    proxy.drop_next_reply(after=KEY, times=ALL_TRIES)
    with pytest.raises(ConnectionError):
        lock.acquire(token="mine")

    assert lock.acquire(blocking=False) is False


def test_threads_do_not_share_the_token_of_a_failed_acquire(proxy: Proxy) -> None:
    lock = Lock("stock", using="proxied")
    proxy.drop_next_reply(after=KEY, times=ALL_TRIES)
    with pytest.raises(ConnectionError):
        lock.acquire()

    grants = run_together(4, lambda: lock.acquire(blocking=False))

    assert sorted(grants) == [False, False, False, True]


def test_error_of_the_block_takes_precedence_over_a_failed_release(proxy: Proxy) -> None:
    def block() -> None:
        with Lock("stock", using="proxied"):
            proxy.stop_accepting()
            close_pools()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        block()

    assert "NotConnected on leaving the block" in caught.value.__notes__[0]


def fail_to_release(lock: Lock, proxy: Proxy) -> None:
    """The lock is released, and its holder does not learn it."""
    proxy.drop_next_reply(after=KEY, times=1 + ALL_TRIES)
    with pytest.raises(ConnectionError):
        lock.release()
    assert not Lock("stock").locked()


def test_reentrant_lock_is_not_entered_after_an_unconfirmed_release(proxy: Proxy) -> None:
    lock = Lock("stock", using="proxied", reentrant=True)
    lock.acquire()
    fail_to_release(lock, proxy)
    assert Lock("stock").acquire(blocking=False)

    assert lock.acquire(blocking=False) is False


def test_reentrant_lock_is_acquired_again_after_its_release_never_arrived(proxy: Proxy) -> None:
    lock = Lock("stock", using="proxied", reentrant=True)
    lock.acquire()
    first = lock.token
    steps = Steps(lock.flows.release())
    steps.throw(ConnectionError("lost"))
    steps.throw(ConnectionError("lost"))
    assert lock.owned()

    assert lock.acquire(blocking=False) is True

    assert lock.owned()
    assert lock.token != first
    lock.release()
    assert not lock.locked()


def test_check_raises_after_an_unconfirmed_release(proxy: Proxy) -> None:
    lock = Lock("stock", using="proxied")
    lock.acquire()
    fail_to_release(lock, proxy)

    assert lock.remaining() == 0.0
    with pytest.raises(LockNotOwned) as caught:
        lock.check()
    assert str(caught.value) == "Lock 'stock' may have been released: the reply to its release was lost."


def test_thread_whose_acquire_failed_cannot_release_the_lock_of_another(proxy: Proxy) -> None:
    shared = Lock("stock", using="proxied")
    shared.acquire()

    def late() -> None:
        proxy.drop_next_reply(after=KEY, times=ALL_TRIES)
        with pytest.raises(ConnectionError):
            shared.acquire(blocking=False)
        with pytest.raises(LockNotOwned, match="is not held by this thread or task"):
            shared.release()

    run_together(1, late)

    assert shared.owned()

"""Each operation while the reply, and only the reply, is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.semaphores import PermitNotOwned, Semaphore
from tests.locks.steps import acquisition, is_released
from tests.support import Proxy, Store, eventually, run_async, run_together
from tests.support.pools import close_pools

KEY = b"{pool}"
#: One request and its three repetitions.
ALL_TRIES = 4

Do = Callable[..., Any]


@pytest.fixture(autouse=True)
def _known_scripts(redis_server: Store) -> None:
    """A server that does not know a script refuses it: when that reply is lost, nothing has run."""
    with Semaphore("warm", 3, blocking=False) as semaphore:
        semaphore.reacquire()
        semaphore.inspect()


@pytest.fixture(params=["sync", "async"])
def do(request: pytest.FixtureRequest) -> Do:
    """``do(semaphore, "acquire", …)`` calls the method, or its async twin in a new event loop."""

    def call(semaphore: Semaphore, method: str, *args: Any) -> Any:
        if request.param == "sync":
            return getattr(semaphore, method)(*args)
        return run_async(getattr(semaphore, f"a{method}"), *args)

    return call


def test_repeated_acquire_takes_one_permit(proxy: Proxy, do: Do) -> None:
    semaphore = Semaphore("pool", 3, using="proxied", blocking=False)
    proxy.drop_next_reply(after=KEY, times=2)

    assert do(semaphore, "acquire") is True

    assert proxy.dropped == 2
    assert Semaphore("pool", 3, blocking=False).available() == 2


def test_release_succeeds_when_its_reply_is_lost(proxy: Proxy, do: Do) -> None:
    semaphore = Semaphore("pool", 3, using="proxied", blocking=False)
    do(semaphore, "acquire", 2)
    proxy.drop_next_reply(after=KEY)

    do(semaphore, "release")

    assert proxy.dropped == 1
    assert Semaphore("pool", 3, blocking=False).available() == 3


def test_repeated_release_serves_one_waiter_for_one_permit(proxy: Proxy, do: Do) -> None:
    semaphore = Semaphore("pool", 1, using="proxied", blocking=False)
    do(semaphore, "acquire")
    waiters = [acquisition(Semaphore("pool", 1)) for _ in range(2)]
    for waiter in waiters:
        waiter.perform()
    proxy.drop_next_reply(after=KEY)

    do(semaphore, "release")

    for waiter in waiters:
        waiter.send(None)
        waiter.perform()
    assert [waiter.value for waiter in waiters] == [True, None]


@pytest.mark.parametrize(("method", "expected"), [("reacquire", True), ("available", 2), ("locked", False)])
def test_read_methods_return_when_their_reply_is_lost(proxy: Proxy, do: Do, method: str, expected: object) -> None:
    semaphore = Semaphore("pool", 3, using="proxied", blocking=False)
    do(semaphore, "acquire")
    proxy.drop_next_reply(after=KEY)

    assert do(semaphore, method) == expected

    assert proxy.dropped == 1


def test_set_limit_succeeds_when_its_reply_is_lost(proxy: Proxy, do: Do) -> None:
    proxy.drop_next_reply(after=KEY)

    do(Semaphore("pool", 3, using="proxied", blocking=False), "set_limit", 7)

    assert proxy.dropped == 1
    assert Semaphore("pool", 3, blocking=False).available() == 7


def test_inspect_succeeds_when_its_reply_is_lost(proxy: Proxy, do: Do) -> None:
    semaphore = Semaphore("pool", 3, using="proxied", blocking=False)
    do(semaphore, "acquire")
    proxy.drop_next_reply(after=KEY)

    assert len(do(semaphore, "inspect").holders) == 1


def test_next_acquire_finds_its_permit_after_all_attempts_failed(proxy: Proxy, do: Do) -> None:
    semaphore = Semaphore("pool", 3, using="proxied", blocking=False)
    proxy.drop_next_reply(after=KEY, times=ALL_TRIES)
    with pytest.raises(ConnectionError):
        do(semaphore, "acquire")
    assert Semaphore("pool", 3, blocking=False).available() == 2

    assert do(semaphore, "acquire") is True

    assert Semaphore("pool", 3, blocking=False).available() == 2


def test_acquire_of_another_number_does_not_reuse_a_failed_token(proxy: Proxy, do: Do) -> None:
    semaphore = Semaphore("pool", 3, using="proxied", blocking=False)
    proxy.drop_next_reply(after=KEY, times=ALL_TRIES)
    with pytest.raises(ConnectionError):
        do(semaphore, "acquire")

    assert do(semaphore, "acquire", 2) is True

    assert Semaphore("pool", 3, blocking=False).available() == 0


def test_next_release_succeeds_after_all_attempts_failed(proxy: Proxy, do: Do) -> None:
    semaphore = Semaphore("pool", 3, using="proxied", blocking=False)
    do(semaphore, "acquire")
    proxy.drop_next_reply(after=KEY, times=1 + ALL_TRIES)
    with pytest.raises(ConnectionError):
        do(semaphore, "release")
    assert Semaphore("pool", 3, blocking=False).available() == 3

    do(semaphore, "release")
    with pytest.raises(PermitNotOwned):
        do(semaphore, "release")


def test_repeated_release_raises_when_the_permit_expired(proxy: Proxy) -> None:
    semaphore = Semaphore("pool", 1, timeout=0.02, using="proxied", blocking=False)
    semaphore.acquire()
    eventually(lambda: Semaphore("pool", 1, blocking=False).available() == 1)
    proxy.drop_next_reply(after=KEY)

    with pytest.raises(PermitNotOwned):
        semaphore.release()


def test_with_raises_when_its_permit_could_not_be_released(proxy: Proxy, redis_server: Store) -> None:
    def block() -> None:
        with Semaphore("pool", 1, using="proxied", blocking=False):
            proxy.stop_accepting()
            close_pools()

    with pytest.raises(NotConnected):
        block()


def test_error_of_the_block_takes_precedence_over_a_failed_release(proxy: Proxy) -> None:
    def block() -> None:
        with Semaphore("pool", 1, using="proxied", blocking=False):
            proxy.stop_accepting()
            close_pools()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        block()

    assert "NotConnected on leaving the block" in caught.value.__notes__[0]


def test_unreachable_server_raises_connection_error(own_server: Store) -> None:
    semaphore = Semaphore("pool", 1, blocking=False)
    semaphore.acquire()
    own_server.servers[0].kill()

    asking = (semaphore.acquire, semaphore.release, semaphore.reacquire, semaphore.available, semaphore.inspect)
    for ask in (*asking, lambda: semaphore.set_limit(2)):
        with pytest.raises(ConnectionError, match=own_server.servers[0].url.split("/")[2]):
            ask()


def test_check_raises_after_an_unconfirmed_release(proxy: Proxy) -> None:
    semaphore = Semaphore("pool", 3, using="proxied", blocking=False)
    semaphore.acquire()
    proxy.drop_next_reply(after=KEY, times=1 + ALL_TRIES)
    with pytest.raises(ConnectionError):
        semaphore.release()

    assert semaphore.remaining() == 0.0
    with pytest.raises(PermitNotOwned) as caught:
        semaphore.check()
    assert str(caught.value) == "Permit of semaphore 'pool' may have been released: the reply to its release was lost."


def test_thread_whose_acquire_failed_cannot_release_the_permit_of_another(proxy: Proxy) -> None:
    shared = Semaphore("pool", 3, using="proxied", blocking=False)
    shared.acquire()

    def late() -> bool:
        proxy.drop_next_reply(after=KEY, times=ALL_TRIES)
        with pytest.raises(ConnectionError):
            shared.acquire()
        return is_released(shared)

    assert run_together(1, late) == [False]
    assert shared.reacquire()

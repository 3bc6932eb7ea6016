"""A server that is away: a clear error, soon, and recovery by itself."""

from __future__ import annotations

import threading

import pytest
from redis.exceptions import ConnectionError, TimeoutError

from django_redis_components.locks import Lock
from tests.conftest import components_settings
from tests.support import Proxy, Store, eventually, run_async


def test_unreachable_server_raises_connection_error(own_server: Store) -> None:
    lock = Lock("stock")
    lock.acquire()
    own_server.servers[0].kill()

    for ask in (Lock("stock").acquire, lock.release, lock.owned, lock.locked, lock.reacquire):
        with pytest.raises(ConnectionError, match=own_server.servers[0].url.split("/")[2]):
            ask()
    with pytest.raises(ConnectionError):
        run_async(Lock("stock").aacquire)
    lock.check()


def test_release_succeeds_after_the_server_is_back(own_server: Store) -> None:
    lock = Lock("stock")
    lock.acquire()
    own_server.servers[0].stop()
    with pytest.raises(ConnectionError):
        lock.release()

    own_server.servers[0].start()
    lock.release()

    assert not lock.locked()


def test_acquire_raises_timeout_when_the_server_hangs(proxy: Proxy, redis_server: Store, settings) -> None:
    impatient = components_settings(redis_server, proxied=proxy.url)
    impatient["CONNECTIONS"]["proxied"] |= {"SOCKET_TIMEOUT": 0.5, "RETRIES": 1}
    settings.REDIS_COMPONENTS = impatient
    lock = Lock("stock", using="proxied")
    assert not lock.locked()
    proxy.delay(60)

    with pytest.raises(TimeoutError, match=r"did not answer within 0\.\d+ s"):
        lock.acquire()


def test_waiter_survives_a_restart_of_the_server(own_server: Store) -> None:
    holder, waiter = Lock("stock"), Lock("stock")
    holder.acquire()
    outcome: list[object] = []

    def wait() -> None:
        try:
            outcome.append(waiter.acquire(blocking_timeout=20))
        except ConnectionError as exc:
            outcome.append(exc)

    thread = threading.Thread(target=wait)
    thread.start()
    line = f"{own_server.prefix}:locks:{{stock}}:queue"
    eventually(lambda: own_server.raw.zcard(line) == 1)
    own_server.servers[0].stop()
    own_server.servers[0].start()

    holder.release()

    thread.join(60)
    assert outcome == [True] or isinstance(outcome[0], ConnectionError)


def test_wait_may_be_longer_than_the_socket_timeout(redis_server: Store, settings) -> None:
    impatient = components_settings(redis_server)
    impatient["CONNECTIONS"]["default"]["SOCKET_TIMEOUT"] = 1.0
    settings.REDIS_COMPONENTS = impatient
    Lock("stock", timeout=1.5).acquire()

    assert Lock("stock").acquire()

"""A release that is interrupted has happened all the same."""

from __future__ import annotations

import pytest
from redis.exceptions import ConnectionError, ResponseError

from django_redis_components.core.exceptions import UnsupportedServer
from django_redis_components.locks import Lock
from django_redis_components.taskqueue import SoftTimeLimitExceeded
from tests.locks.steps import Steps, acquisition
from tests.support import Store

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_interrupted_release_is_sent_again(store: Store, interruption: type[BaseException]) -> None:
    lock = Lock("stock")
    lock.acquire()
    steps = Steps(lock.flows.release())

    steps.throw(interruption())
    steps.perform()

    assert isinstance(steps.error, interruption)
    assert not lock.locked()
    assert lock.token is None


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SoftTimeLimitExceeded])
def test_interruption_is_raised_when_the_server_is_unavailable(
    redis_server: Store, interruption: type[BaseException]
) -> None:
    lock = Lock("stock")
    lock.acquire()
    steps = Steps(lock.flows.release())
    steps.throw(interruption())

    steps.throw(ConnectionError("away"))

    assert isinstance(steps.error, interruption)


@pytest.mark.parametrize("error", [ResponseError("NOPERM"), UnsupportedServer("Redis 6", "here")], ids=["acl", "old"])
def test_release_can_be_retried_after_an_error_reply(redis_server: Store, error: Exception) -> None:
    lock = Lock("stock")
    lock.acquire()
    steps = Steps(lock.flows.release())

    steps.throw(error)

    assert steps.error is error
    lock.release()
    assert not lock.locked()


def test_refused_acquire_on_an_unsupported_server_sends_no_cleanup(redis_server: Store) -> None:
    steps = acquisition(Lock("stock"))

    steps.throw(UnsupportedServer("Redis 6", "here"))

    assert isinstance(steps.error, UnsupportedServer)

"""The errors of the ground floor: one root, facts as attributes."""

from __future__ import annotations

import redis
from django.core.exceptions import ImproperlyConfigured

from django_redis_components.core.exceptions import (
    ConfigurationError,
    NotConnected,
    RedisComponentsError,
    TryLater,
    UnsupportedServer,
)


def test_all_errors_of_ours_have_one_root() -> None:
    assert all(issubclass(kind, RedisComponentsError) for kind in (ConfigurationError, TryLater, UnsupportedServer))
    assert issubclass(ConfigurationError, ImproperlyConfigured)


def test_an_unmade_connection_is_one_of_redis_pys_errors() -> None:
    assert issubclass(NotConnected, redis.ConnectionError)


def test_a_task_that_is_put_off_says_what_that_means_outside_a_task() -> None:
    signal = TryLater("the lock is held", delay_s=2.5)

    assert (signal.reason, signal.delay_s) == ("the lock is held", 2.5)
    assert str(signal) == (
        'the lock is held (on_conflict="delay" runs a task again later; outside a task it is an error)'
    )
    assert TryLater("held").delay_s is None

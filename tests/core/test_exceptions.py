"""The errors of core: one root, facts as attributes."""

from __future__ import annotations

import redis
from django.core.exceptions import ImproperlyConfigured

from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.exceptions import (
    ConfigurationError,
    RedisComponentsError,
    TaskDelayed,
    UnsupportedServer,
)


def test_all_errors_have_one_root() -> None:
    assert all(issubclass(kind, RedisComponentsError) for kind in (ConfigurationError, TaskDelayed, UnsupportedServer))
    assert issubclass(ConfigurationError, ImproperlyConfigured)


def test_not_connected_is_a_connection_error_of_redis_py() -> None:
    assert issubclass(NotConnected, redis.ConnectionError)


def test_try_later_explains_itself_outside_a_task() -> None:
    signal = TaskDelayed("the lock is held", delay_s=2.5)

    assert (signal.reason, signal.delay_s) == ("the lock is held", 2.5)
    assert str(signal) == (
        'the lock is held (on_conflict="delay" runs a task again later; outside a task it is an error)'
    )
    assert TaskDelayed("held").delay_s is None

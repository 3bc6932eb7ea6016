"""The errors of core: one root, facts as attributes."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.core.exceptions import ImproperlyConfigured

import django_redis_components
from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.exceptions import (
    ConfigurationError,
    RedisComponentsError,
    TaskDelayed,
    UnsupportedServer,
)
from django_redis_components.locks import LockLost
from django_redis_components.taskqueue import ResultTooLarge, WaitTimeout


def kinds_of(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from kinds_of(each)


def all_kinds() -> list[type[Any]]:
    for module in pkgutil.walk_packages(django_redis_components.__path__, "django_redis_components."):
        if module.name.endswith("exceptions"):
            importlib.import_module(module.name)
    return [each for each in kinds_of(RedisComponentsError) if each.__module__.startswith("django_redis_components.")]


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.__name__)
def test_every_error_can_be_pickled_whatever_its_arguments(kind: type[Any]) -> None:
    exc = kind.__new__(kind)
    exc.args, exc.name, exc.limit = ("the text",), "a name", 5
    exc.add_note("a note")

    for other in (pickle.loads(pickle.dumps(exc)), copy.copy(exc)):  # noqa: S301
        assert (type(other), other.args, str(other), vars(other)) == (kind, exc.args, str(exc), vars(exc))
        assert other.__notes__ == ["a note"]


@pytest.mark.parametrize(
    "exc", [ResultTooLarge(5, 3), LockLost("stock:7", "is lost"), WaitTimeout("late"), TaskDelayed("held", 2.5)]
)
def test_pickled_error_has_its_text_and_its_facts(exc: Any) -> None:
    other = pickle.loads(pickle.dumps(exc))  # noqa: S301

    assert (str(other), vars(other)) == (str(exc), vars(exc))


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

"""The root of all errors, the root of interruptions, and the errors of `core` but for those of `core.client`.

Settings and system checks use this module: it does not import redis-py, which takes as long as a third of Django.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured


class RedisComponentsError(Exception):
    """Root of all errors of operations. Interruptions have another root: `Interruption`.

    Its subclasses take other arguments than a text. They can be pickled nevertheless: an error that cannot ends a pool
    of processes, and Django's parallel tests.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, vars(self).copy())


def _restored(kind: type[RedisComponentsError], args: tuple[Any, ...], state: dict[str, Any]) -> RedisComponentsError:
    exc = kind.__new__(kind)
    exc.args = args
    vars(exc).update(state)
    return exc


class BaseInterruption(BaseException):
    """Root of what ends running code from outside, at any instruction: a soft time limit, the cancellation of a task.

    Code that outlives all errors of the site's code must raise it again (`must_raise`).
    """


class Interruption(BaseInterruption, Exception):
    """Raised in running code from outside, at any instruction: a soft time limit.

    It is not the outcome of an operation, so it is not a `RedisComponentsError`: a handler for the errors of a lock
    must not catch it. An `except Exception` that continues after errors must raise it again.
    """


def raise_interruption(responses: Iterable[tuple[object, object]]) -> None:
    """Raise the interruption that Django's `send_robust` caught in a receiver, if any.

    Args:
        responses: the return value of `send_robust`.
    """
    for _, response in responses:
        if isinstance(response, Interruption):
            raise response


def must_raise(exc: BaseException) -> bool:
    """Return whether an exception in the site's code concerns our code that called it, which then raises it again.

    An interruption does, and what ends the main thread, such as KeyboardInterrupt. In another thread, SystemExit and
    the like would end that thread unnoticed. The class is examined, not the instance, whose `__class__`
    may be the site's code.
    """
    kind = type(exc)
    if issubclass(kind, BaseInterruption):
        return True
    return not issubclass(kind, Exception) and threading.current_thread() is threading.main_thread()


class ConfigurationError(RedisComponentsError, ImproperlyConfigured):
    """A setting in `REDIS_COMPONENTS` is unknown or has an invalid value."""


class UnknownConnection(ConfigurationError):
    """No connection in `REDIS_COMPONENTS["CONNECTIONS"]` has this alias.

    Attributes:
        alias: the requested one.
    """

    def __init__(self, alias: str, hint: str) -> None:
        super().__init__(f'REDIS_COMPONENTS["CONNECTIONS"] has no {alias!r}. {hint}')
        self.alias = alias


class UnsupportedServer(RedisComponentsError):
    """The server is older than the oldest supported version.

    Attributes:
        version: product and version of the server, such as ``"Redis 6.2.14"``.
        address: its address, without credentials.
    """

    def __init__(self, version: str, address: str) -> None:
        super().__init__(f"{version} at {address} is too old: expected at least Redis 7.0 or Valkey 7.2.")
        self.version = version
        self.address = address


class StoredFormatTooNew(RedisComponentsError):
    """The server has data of a newer release, in formats that this release cannot read.

    Attributes:
        address: of the server, without credentials.
        newer: the components, each with what is stored, by which release, and what this release reads.
    """

    def __init__(self, address: str, release: str, newer: Sequence[str]) -> None:
        super().__init__(
            f"The data at {address} are newer than django-redis-components {release} can read: {'; '.join(newer)}."
            " Install the release that has written them, or a newer one; to stay with this one, restore a backup"
            " from before the change."
        )
        self.address = address
        self.newer = tuple(newer)


class RebuildSuperseded(RedisComponentsError):
    """A rebuild was discarded: a later one started, or it paused too long. The data from before it stay in use.

    Attributes:
        name: of what was rebuilt: an index, a filter, ranges.
    """

    def __init__(self, label: str, name: str, ttl_s: float) -> None:
        super().__init__(
            f"The rebuild of {label} {name!r} was discarded: a later one started, {ttl_s:.0f} s passed between two"
            " chunks, or the server removed its keys."
        )
        self.name = name


class TaskDelayed(RedisComponentsError):
    """Asks the worker to run the current task again later (``on_conflict="delay"``). Outside a task it is an error.

    It is defined here because locks and semaphores do not import the task queue.

    Attributes:
        delay_s: seconds until the next run; None: the worker decides.
    """

    def __init__(self, reason: str, delay_s: float | None = None) -> None:
        super().__init__(f'{reason} (on_conflict="delay" runs a task again later; outside a task it is an error)')
        self.reason = reason
        self.delay_s = delay_s


def missing_extra(feature: str, package: str, extra: str) -> ImportError:
    """Return the error for a feature whose package is not installed.

    Args:
        feature: what needs the package.
        package: its name on PyPI.
        extra: the extra of this package that installs it.
    """
    return ImportError(f"{feature} needs the package {package}: pip install 'django-redis-components[{extra}]'.")

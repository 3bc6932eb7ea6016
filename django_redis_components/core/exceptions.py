"""The root of the errors of all operations, the root of interruptions, and the errors of `core`."""

from __future__ import annotations

from collections.abc import Iterable

from django.core.exceptions import ImproperlyConfigured
from redis.exceptions import ConnectionError, TryAgainError


class RedisComponentsError(Exception):
    """Root of all errors of operations. See `Interruption` for what is none."""


class Interruption(Exception):
    """Raised in running code from outside, wherever it is just then: a soft time limit.

    It is the outcome of no operation, so it is no `RedisComponentsError`: whoever handles the error of a lock must not
    take this for one. An `except Exception` that goes on after errors lets it pass.
    """


def raise_interruption(responses: Iterable[tuple[object, object]]) -> None:
    """Raise the interruption that Django's `send_robust` has caught of a receiver.

    Args:
        responses: what `send_robust` returned.
    """
    for _, response in responses:
        if isinstance(response, Interruption):
            raise response


class ConfigurationError(RedisComponentsError, ImproperlyConfigured):
    """A setting in `REDIS_COMPONENTS` is unknown or has a value that is not accepted."""


class NotConnected(ConnectionError):
    """No connection could be made, so nothing was sent: redis-py's `ConnectionError`, told apart from a lost reply."""


class SlotMigrating(RedisComponentsError, TryAgainError):
    """The Cluster slot of the request's keys is being moved to another node, for longer than the request may wait.

    Nothing was executed: the request may be made again. See ``SLOT_MIGRATION_TIMEOUT``.

    Attributes:
        slot: its number.
        waited_s: seconds that the request has waited.
    """

    def __init__(self, slot: int, waited_s: float, where: str) -> None:
        waited = f"; waited for {waited_s:.1f} s" if waited_s >= 0.05 else ""
        super().__init__(
            f"Slot {slot} of the Cluster {where} is being moved to another node{waited}. "
            "Nothing was executed: try again when it has moved."
        )
        self.slot = slot
        self.waited_s = waited_s


class UnsupportedServer(RedisComponentsError):
    """The server is older than what this package needs.

    Attributes:
        found: product and version as the server reports them, such as ``"Redis 6.2.14"``.
        address: where, without credentials.
    """

    def __init__(self, found: str, address: str) -> None:
        super().__init__(f"{found} at {address} is too old: Redis 7.0 or Valkey 7.2 is the least that works.")
        self.found = found
        self.address = address


class TryLater(RedisComponentsError):
    """Asks the task executor to put the running task off (``on_conflict="delay"``).

    It lives here so that locks and semaphores need not know the queue. Outside a task nobody
    catches it, and it reaches the caller as the error that it then is.

    Attributes:
        delay_s: seconds until the next try, or None for the executor's own choice.
    """

    def __init__(self, reason: str, delay_s: float | None = None) -> None:
        super().__init__(f'{reason} (on_conflict="delay" puts a running task off; outside a task it is an error)')
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

"""The root of every error of this package, and the errors of the ground floor."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured
from redis.exceptions import ConnectionError


class RedisComponentsError(Exception):
    """Root of all errors raised by django-redis-components."""


class ConfigurationError(RedisComponentsError, ImproperlyConfigured):
    """A setting in `REDIS_COMPONENTS` is unknown or has a value that is not accepted."""


class NotConnected(ConnectionError):
    """No connection could be made, so nothing was sent: redis-py's `ConnectionError`, told apart from a lost reply."""


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

"""What connections of threads and of event loops share: errors, and the limit of a wait."""

from __future__ import annotations

import builtins
import math
import time
from collections.abc import Callable
from typing import Any

from redis.exceptions import ConnectionError, InvalidResponse, RedisError, TimeoutError

from django_redis_components.core.client.budget import budget_left_s
from django_redis_components.core.client.exceptions import MALFORMED, NotConnected


class BaseConnection:
    """What both connections share.

    Attributes:
        released_at: when the connection was last put back into its pool, by the monotonic clock; 0.0: never; -inf: it
            must be checked before its next use.
        opened_s: seconds of the timeout that opening it has used, which the first request has waited already.
    """

    __slots__ = ("_on_late", "_redis_connection", "opened_s", "released_at")

    def __init__(self, redis_connection: Any, on_late: Callable[[float], None] | None = None) -> None:
        """
        Args:
            redis_connection: a connection of redis-py.
            on_late: is called with the seconds since a request was sent, again and again until it is answered.
        """
        self._redis_connection = redis_connection
        self._on_late = on_late
        self.released_at = self.opened_s = 0.0

    def connect_error(self, error: Exception, waited_s: float) -> RedisError:
        """Return `NotConnected` for an error after seconds of connecting, unless the error says more."""
        if type(error) not in (
            ConnectionError,
            TimeoutError,
            UnicodeError,
            UnicodeEncodeError,
        ):  # a host that cannot be encoded
            return self.redis_error(error)
        address, text = self._redis_connection._host_error(), str(error)
        if isinstance(error, TimeoutError):
            text = f"{text} after {waited_s:.2g} s"
        return NotConnected(text if address in text else f"{address}: {text}")

    @property
    def socket_timeout_s(self) -> float:
        """The longest wait for a reply, in seconds."""
        return float(self._redis_connection.socket_timeout)

    def redis_error(self, error: Exception) -> RedisError:
        """Return redis-py's error for one of the socket, with the address in it."""
        if isinstance(error, RedisError) and type(error) not in (ConnectionError, TimeoutError):
            return error  # such as BusyLoadingError, which is a reply
        address = self._redis_connection._host_error()
        if isinstance(error, MALFORMED) and not isinstance(error, OSError):  # an error of TLS may be both
            return InvalidResponse(f"{type(error).__name__}: {error}")
        if isinstance(error, TimeoutError | builtins.TimeoutError):
            return TimeoutError(f"{address} did not answer within {self._redis_connection.socket_timeout:g} s.")
        return ConnectionError(f"{address}: {str(error) or type(error).__name__}")

    def _limit_s(self, timeout_s: float | None, spent_s: float = 0.0) -> float:
        """Return the seconds that a late request may wait in all.

        Args:
            spent_s: how many of them were taken from the budget already.
        """
        limit_s: float = self._redis_connection.socket_timeout
        if not self.released_at:
            limit_s, self.opened_s = limit_s - self.opened_s, 0.0
        return min(limit_s, math.inf if timeout_s is None else timeout_s, spent_s + budget_left_s())

    def _record_opening(self, started_at: float, timeout_s: float | None) -> None:
        unused_s = 0.0 if timeout_s is None else max(0.0, self._redis_connection.socket_timeout - timeout_s)
        self.opened_s = time.monotonic() - started_at + unused_s

    def report_late(self, waited_s: float) -> None:
        """Report that a request has waited for this long, in seconds."""
        if self._on_late is not None:
            self._on_late(waited_s)

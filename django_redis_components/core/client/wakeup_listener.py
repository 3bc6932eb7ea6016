"""Waiting for wakeup keys with a local timer.

An idle server ends a blocking command 5 to 99 ms after its timeout. A process that must act at a given moment, such as
the poller at the next due task, therefore leaves the command outstanding and watches the socket with its own timer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from redis.exceptions import AskError, RedisError, TimeoutError, TryAgainError

from django_redis_components.core.client._sync.client import SyncClient
from django_redis_components.core.client.server import blocking_timeout_s, explain_error
from django_redis_components.core.client.slot_migration import retry_delay_s
from django_redis_components.core.client.transport import SyncConnection
from django_redis_components.core.polling import POLLIN, new_poller


class WakeupListener:
    """Waits for the first of several wakeup keys (sorted sets of one slot) on its own connection. For one thread.

    The timer of `wait` may end while the blocking command is outstanding; the next `wait` continues it.

    Attributes:
        last_key: the key of the last wakeup; empty before the first.
    """

    def __init__(self, client: SyncClient, keys: Sequence[str], wake_fd: int | None = None) -> None:
        """
        Args:
            wake_fd: a file descriptor that also ends a wait when it is readable (a signal, a stop).
        """
        self._client = client
        self._keys = tuple(keys)
        self._wake_fd = wake_fd
        self._connection: SyncConnection | None = None
        self.last_key = ""
        #: When the reply to the outstanding command is overdue, by the monotonic clock; None without a command.
        self._overdue_at: float | None = None

    def wait(self, seconds: float) -> bool:
        """Wait for a wakeup, for `wake_fd` to be readable, or until `seconds` have passed.

        Returns:
            True after a wakeup, which is consumed.

        Raises:
            redis.exceptions.RedisError: Redis is unavailable; the next wait connects again.
        """
        deadline = time.monotonic() + seconds
        try:
            return self._wait(deadline)
        except RedisError as exc:
            self.close()
            self._client.reset_topology()
            if self._client.endpoint.kind != "cluster" or not isinstance(exc, AskError | TryAgainError):
                raise explain_error(exc, self._client.endpoint) from exc.__cause__
        # The slot is being moved, or has moved. The caller reads the state again after each wait anyway.
        self._sleep(min(retry_delay_s(), deadline - time.monotonic()))
        return False

    def abandon(self) -> None:
        """Close the connection if a command is outstanding: it would take a wakeup from another client."""
        if self._overdue_at is not None:
            self.close()

    def close(self) -> None:
        """Close the connection, with the outstanding command."""
        connection, self._connection, self._overdue_at = self._connection, None, None
        if connection is not None:
            connection.close()

    def _wait(self, deadline: float) -> bool:
        while True:
            connection, overdue_at = self._block()
            ready = self._poll(connection, min(deadline, overdue_at) - time.monotonic())
            if connection.fileno() in ready:
                if self._read(connection):
                    return True
            elif time.monotonic() >= overdue_at:
                raise TimeoutError(f"{self._client.endpoint} did not reply to a blocking command in time.")
            if self._wake_fd in ready or time.monotonic() >= deadline:
                return False

    def _block(self) -> tuple[SyncConnection, float]:
        """Return the connection with the outstanding command, and when its reply is overdue."""
        if self._connection is None:
            self._connection = self._client.pool_for(self._keys[0]).open()
        if self._overdue_at is None:
            settings = self._client.endpoint.settings
            self._connection.send("BZPOPMIN", *self._keys, f"{blocking_timeout_s(settings):.3f}")
            self._overdue_at = time.monotonic() + settings.socket_timeout_s
        return self._connection, self._overdue_at

    def _sleep(self, seconds: float) -> None:
        """Wait, unless `wake_fd` is readable."""
        poller = new_poller()
        if self._wake_fd is not None:
            poller.register(self._wake_fd, POLLIN)
        poller.poll(max(0.0, seconds * 1_000))

    def _poll(self, connection: SyncConnection, seconds: float) -> set[int]:
        """Return the descriptors that become readable within this time, or none slightly before its end.

        `poll`, because `select` supports no descriptor above 1023. It counts whole milliseconds; the rest is slept.
        """
        poller = new_poller()
        poller.register(connection.fileno(), POLLIN)
        if self._wake_fd is not None:
            poller.register(self._wake_fd, POLLIN)
        whole_ms = max(0, math.floor(seconds * 1_000))
        if not whole_ms:
            time.sleep(max(0.0, seconds))
        return {descriptor for descriptor, _ in poller.poll(whole_ms)}

    def _read(self, connection: SyncConnection) -> bool:
        """Read the reply. Return whether it is a wakeup: the server also replies when the command times out."""
        reply = connection.read()
        self._overdue_at = None
        if reply is None:
            return False
        self.last_key = reply[0].decode()
        return True

"""Waiting for wakeup keys with a local timer.

An idle server ends a blocking command 5 to 99 ms after its timeout. A process that must act at a given moment, such as
the poller at the next due task, therefore leaves the command outstanding and watches the socket with its own timer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence

from redis.exceptions import AskError, RedisError, TimeoutError, TryAgainError

from django_redis_components.core.client._sync.client import SyncClient
from django_redis_components.core.client.server import blocking_timeout_s, explain_error
from django_redis_components.core.client.slot_migration import retry_delay_s
from django_redis_components.core.client.transport import SyncConnection
from django_redis_components.core.polling import POLLIN, new_poller

#: Seconds after which a `WakeupGroup` tries a server again that has not answered.
RETRY_S = 0.5


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
            self.reset()
            if self._client.endpoint.kind != "cluster" or not isinstance(exc, AskError | TryAgainError):
                raise explain_error(exc, self._client.endpoint) from exc.__cause__
        # The slot is being moved, or has moved. The caller reads the state again after each wait anyway.
        self._sleep(min(retry_delay_s(), deadline - time.monotonic()))
        return False

    def abandon(self) -> None:
        """Close the connection if a command is outstanding: it would take a wakeup from another client."""
        if self._overdue_at is not None:
            self.close()

    def reset(self) -> None:
        """Close the connection after an error; the nodes of a Cluster are asked for their slots again."""
        self.close()
        self._client.reset_topology(self._keys[0])

    def close(self) -> None:
        """Close the connection, with the outstanding command."""
        connection, self._connection, self._overdue_at = self._connection, None, None
        if connection is not None:
            connection.close()

    def _wait(self, deadline: float) -> bool:
        while True:
            connection, overdue_at = self.start()
            ready = self._poll(connection, min(deadline, overdue_at) - time.monotonic())
            if connection.fileno() in ready:
                if self.read(connection):
                    return True
            elif time.monotonic() >= overdue_at:
                raise TimeoutError(f"{self._client.endpoint} did not reply to a blocking command in time.")
            if self._wake_fd in ready or time.monotonic() >= deadline:
                return False

    def start(self) -> tuple[SyncConnection, float]:
        """Send the blocking command unless it is outstanding; return its connection, and when the reply is overdue."""
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
        return _poll([connection.fileno()], self._wake_fd, seconds)

    def read(self, connection: SyncConnection) -> bool:
        """Read the reply. Return whether it is a wakeup: the server also replies when the command times out."""
        reply = connection.read()
        self._overdue_at = None
        if reply is None:
            return False
        self.last_key = reply[0].decode()
        return True


class WakeupGroup:
    """Waits for the first wakeup of several listeners, such as one for each of several servers. For one thread.

    A listener whose server does not answer is left out, and tried again after `RETRY_S`.

    Attributes:
        woken: the listeners that had a wakeup in the last `wait`.
    """

    def __init__(
        self,
        listeners: Sequence[WakeupListener],
        wake_fd: int | None = None,
        is_away: Callable[[WakeupListener], bool] = lambda _: False,
    ) -> None:
        """
        Args:
            wake_fd: a file descriptor that also ends a wait when it is readable.
            is_away: whether the server of a listener is known to be away; it is not connected to then.
        """
        self._listeners = tuple(listeners)
        self._wake_fd = wake_fd
        self._is_away = is_away
        self._retry_at: dict[WakeupListener, float] = {}
        self._were_away: set[WakeupListener] = set()
        self.woken: list[WakeupListener] = []

    def wait(self, seconds: float) -> bool:
        """Wait for a wakeup, for `wake_fd` to be readable, or until `seconds` have passed.

        Returns:
            True after a wakeup, which is consumed.
        """
        deadline = time.monotonic() + seconds
        self.woken = []
        while True:
            started = self._start()
            left_out = len(started) < len(self._listeners)
            ends = [deadline, *(overdue_at for _, _, overdue_at in started.values())]
            until = min([*ends, time.monotonic() + RETRY_S] if left_out else ends)
            ready = _poll(started, self._wake_fd, until - time.monotonic())
            for descriptor, (listener, connection, overdue_at) in started.items():
                if descriptor in ready:
                    self._read(listener, connection)
                elif time.monotonic() >= overdue_at:
                    self._leave_out(listener)
            if self.woken or self._wake_fd in ready or time.monotonic() >= deadline:
                return bool(self.woken)

    def abandon(self) -> None:
        """See `WakeupListener.abandon`."""
        for each in self._listeners:
            each.abandon()

    def close(self) -> None:
        """Close the connections."""
        for each in self._listeners:
            each.close()

    def _start(self) -> dict[int, tuple[WakeupListener, SyncConnection, float]]:
        """Send the blocking commands; return what to wait for, by descriptor."""
        started = {}
        for each in self._listeners:
            if self._is_away(each):
                each.close()
                self._were_away.add(each)
                continue
            if each in self._were_away:  # another node may serve its key now, and the one that did may hang
                self._were_away.discard(each)
                each.reset()
            if time.monotonic() >= self._retry_at.get(each, 0.0):
                try:
                    connection, overdue_at = each.start()
                except RedisError:
                    self._leave_out(each)
                else:
                    started[connection.fileno()] = each, connection, overdue_at
        return started

    def _read(self, listener: WakeupListener, connection: SyncConnection) -> None:
        try:
            if listener.read(connection):
                self.woken.append(listener)
        except RedisError:
            self._leave_out(listener)

    def _leave_out(self, listener: WakeupListener) -> None:
        listener.reset()
        self._retry_at[listener] = time.monotonic() + RETRY_S


def _poll(descriptors: Iterable[int], wake_fd: int | None, seconds: float) -> set[int]:
    """Return the descriptors that become readable within this time, or none slightly before its end.

    `poll`, because `select` supports no descriptor above 1023. It counts whole milliseconds; the rest is slept.
    """
    poller = new_poller()
    for descriptor in descriptors:
        poller.register(descriptor, POLLIN)
    if wake_fd is not None:
        poller.register(wake_fd, POLLIN)
    whole_ms = max(0, math.floor(seconds * 1_000))
    if not whole_ms:
        time.sleep(max(0.0, seconds))
    return {descriptor for descriptor, _ in poller.poll(whole_ms)}

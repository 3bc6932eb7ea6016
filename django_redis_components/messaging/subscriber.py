"""Notifications by pub/sub: one thread and one connection in each process, whatever the number of waiters.

On a Cluster it is one connection for each primary that serves a channel. Channels are sharded (``SSUBSCRIBE``), so that
scripts can notify in the slot of their keys. A notification is a hint and may be lost: a waiter reads the state again
after each one, and after the channel was subscribed again. The thread serves sync and async waiters alike, and ends
some time after the last one.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import random
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from redis.exceptions import ConnectionError, RedisError, TimeoutError

from django_redis_components.core.circuit_breaker import should_log_failure
from django_redis_components.core.client import connections
from django_redis_components.core.client.server import blocking_timeout_s, explain_error
from django_redis_components.core.exceptions import ConfigurationError, RedisComponentsError
from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.polling import POLLIN, new_poller
from django_redis_components.core.settings import conf

#: Seconds without a waiter after which the thread ends and closes its connections.
LINGER_S = 5.0
#: Seconds before the next attempt to connect: the first, and the longest. Each is shortened at random by up to a half,
#: so that the processes of a site do not connect all at once.
MIN_BACKOFF_S, MAX_BACKOFF_S = 0.05, 2.0
#: Payloads that a listener keeps until they are read, and their bytes, 64 of the largest; the oldest are dropped.
MAX_PAYLOADS, MAX_PAYLOAD_BYTES = 1_000, 4 * 1024 * 1024

logger = guarded_logger("django_redis_components.messaging")


class ChannelListener:
    """One waiter for notifications on a channel.

    Args:
        channel: the channel.
        keeps_payloads: whether payloads are kept for `pop`.

    Attributes:
        channel: the channel.
        is_subscribed: whether the channel has been subscribed.
        dropped: payloads that were dropped because too many were not read.
    """

    def __init__(self, channel: str, *, keeps_payloads: bool = False) -> None:
        self.channel = channel
        self._keeps_payloads = keeps_payloads
        self.is_subscribed = False
        self.dropped = 0
        self._payloads: deque[bytes] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._is_notified = False
        self._wake: Callable[[], object] | None = None

    def notify(self, payload: bytes | None = None) -> None:
        """Wake the waiter. None: the channel was subscribed, or the connection was lost."""
        with self._lock:
            if payload is not None and self._keeps_payloads:
                self._payloads.append(payload)
                self._bytes += len(payload)
                while len(self._payloads) > MAX_PAYLOADS or self._bytes > MAX_PAYLOAD_BYTES:
                    self._bytes -= len(self._payloads.popleft())
                    self.dropped += 1
            self._is_notified = True
            wake = self._wake
        if wake is not None:
            wake()

    def pop(self) -> bytes | None:
        """Return the oldest payload; None without one."""
        with self._lock:
            if not self._payloads:
                return None
            payload = self._payloads.popleft()
            self._bytes -= len(payload)
            return payload

    def wait(self, seconds: float) -> bool:
        """Wait in this thread until there was a notification since the last wait, or the time has passed.

        Returns:
            Whether there was a notification.
        """
        event = threading.Event()
        if not self._arm(event.set):
            event.wait(max(0.0, seconds))
        return self._disarm()

    async def await_notification(self, seconds: float) -> bool:
        """Wait in this task; see `wait`."""
        loop, event = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(event.set)

        try:
            if not self._arm(wake):
                with contextlib.suppress(builtins.TimeoutError):
                    async with asyncio.timeout(max(0.0, seconds)):
                        await event.wait()
        except BaseException:
            self._disarm()
            raise
        return self._disarm()

    def _arm(self, wake: Callable[[], object]) -> bool:
        """Set the function that wakes the waiter. Return whether it was notified already."""
        with self._lock:
            self._wake = wake
            return self._is_notified

    def _disarm(self) -> bool:
        """Forget the function. Return whether the waiter was notified."""
        with self._lock:
            is_notified = self._is_notified
            self._wake, self._is_notified = None, False
            return is_notified


class _Link:
    """A connection with subscriptions.

    Attributes:
        channel: the first of its channels.
        leaving: unsubscriptions of each channel that the server has not confirmed. What arrives on the channel before
            that belongs to an earlier subscription.
    """

    def __init__(self, connection: Any, channel: str) -> None:
        self.connection = connection
        self.channel = channel
        self.received_at = time.monotonic()
        self.is_pinged = False
        self.leaving: Counter[str] = Counter()


class ChannelSubscriber:
    """The subscriptions of one connection alias, served by one thread."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._lock = threading.Lock()
        self._listeners: dict[str, set[ChannelListener]] = {}
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        #: Channels that the server has confirmed; channels that were asked for.
        self._confirmed: set[str] = set()
        self._requested: dict[str, _Link] = {}
        self._links: dict[Any, _Link] = {}
        #: A channel of the node that is used now: it has failed if the thread is interrupted.
        self._used = ""
        self._wakeup, self._waker = socket.socketpair()
        self._waker.setblocking(False)

    @contextlib.contextmanager
    def listening(self, channel: str) -> Iterator[ChannelListener]:
        """Return a listener that is notified when the channel has been subscribed, and of each message."""
        listener = ChannelListener(channel)
        self.add(listener)
        try:
            yield listener
        finally:
            self.remove(listener)

    def add(self, listener: ChannelListener) -> None:
        """Notify a listener from now on.

        Raises:
            RuntimeError: the system can start no more threads.
        """
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._run, name=f"messages-{self._alias}", daemon=True)
                thread.start()  # it waits for the lock, so it finds the listener
                self._thread = thread
            self._listeners.setdefault(listener.channel, set()).add(listener)
            is_confirmed = listener.channel in self._confirmed
        if is_confirmed:
            listener.is_subscribed = True
            listener.notify()
        else:
            self._interrupt()

    def remove(self, listener: ChannelListener) -> None:
        """Notify a listener no more."""
        with self._lock:
            listeners = self._listeners.get(listener.channel, set())
            listeners.discard(listener)
            if not listeners:
                self._listeners.pop(listener.channel, None)
        self._interrupt()

    def stop(self) -> None:
        """End the thread, which closes the subscriber."""
        with self._lock:
            self._is_stopped = True
            if self._thread is None or not self._thread.is_alive():
                self.close()
        self._interrupt()

    def close(self) -> None:
        """Close the sockets that wake the thread. There must be no thread."""
        self._wakeup.close()
        self._waker.close()

    def _interrupt(self) -> None:
        """Have the thread look at the listeners."""
        with contextlib.suppress(OSError):  # the buffer is full: it will look anyway
            self._waker.send(b"x")

    def _run(self) -> None:
        backoff_s = MIN_BACKOFF_S
        while self._has_work():
            started_at, has_failed = time.monotonic(), True
            try:
                try:
                    self._serve()
                    has_failed = False
                finally:
                    self._disconnect(has_failed=has_failed)
            except (RedisError, RedisComponentsError, OSError) as exc:
                if should_log_failure("notifications"):
                    logger.warning("Waiting for messages is interrupted: %s", exc)
            except BaseException:  # without the thread, no waiter of the process would be woken any more
                logger.exception("Waiting for messages is interrupted by an error.")
            if has_failed:
                if time.monotonic() - started_at > MAX_BACKOFF_S:
                    backoff_s = MIN_BACKOFF_S
                time.sleep(backoff_s * random.uniform(0.5, 1))
                backoff_s = min(backoff_s * 2, MAX_BACKOFF_S)

    def _has_work(self) -> bool:
        """Return whether there are listeners; without any the thread ends.

        It has closed its connections then: the next waiter starts another thread, at any moment from now on.
        """
        with self._lock:
            if self._listeners and not self._is_stopped:
                return True
            self._thread = None
            if self._is_stopped:
                self.close()
            return False

    def _serve(self) -> None:
        """Subscribe and notify until there was no listener for some time."""
        client = connections.client(self._alias)
        ping_s = blocking_timeout_s(client.endpoint.settings)
        used_at = time.monotonic()
        try:
            while not self._is_stopped:
                self._update(client)
                if self._requested:
                    used_at = time.monotonic()
                elif time.monotonic() - used_at >= LINGER_S:
                    return
                self._poll(ping_s)
        except RedisError as exc:
            raise explain_error(exc, client.endpoint) from exc.__cause__

    def _update(self, client: connections.SyncClient) -> None:
        """Subscribe the channels that have listeners, and no others."""
        with self._lock:
            missing = self._listeners.keys() - self._requested.keys()
            unused = self._requested.keys() - self._listeners.keys()
            self._confirmed -= unused
        for channel in unused:
            link = self._requested.pop(channel)
            link.leaving[channel] += 1
            self._used = channel
            link.connection.send("SUNSUBSCRIBE", channel)
        for channel in missing:
            self._used = channel
            pool = client.pool_for(channel)
            if pool not in self._links:
                self._links[pool] = _Link(pool.open(), channel)
            link = self._requested[channel] = self._links[pool]
            link.connection.send("SSUBSCRIBE", channel)

    def _poll(self, ping_s: float) -> None:
        """Wait for messages and notify their listeners; check connections on which nothing arrives."""
        poller = new_poller()
        poller.register(self._wakeup, POLLIN)
        for link in self._links.values():
            poller.register(link.connection.fileno(), POLLIN)
        ready = {number for number, _ in poller.poll(min(ping_s, LINGER_S) * 1_000)}
        if self._wakeup.fileno() in ready:
            self._wakeup.recv(4_096)
        for link in self._links.values():
            if link.connection.fileno() in ready:
                self._read(link)
            elif time.monotonic() - link.received_at >= ping_s:
                self._ping(link)

    def _read(self, link: _Link) -> None:
        self._used = link.channel
        is_readable = True
        while is_readable:
            self._receive(link, link.connection.read())
            is_readable = link.connection.is_readable()
        link.received_at, link.is_pinged = time.monotonic(), False

    def _ping(self, link: _Link) -> None:
        self._used = link.channel
        if link.is_pinged:
            raise TimeoutError(f"Connection {self._alias!r} did not answer to PING.")
        link.connection.send("PING")
        link.received_at, link.is_pinged = time.monotonic(), True

    def _receive(self, link: _Link, reply: Any) -> None:
        """Notify the listeners of a message."""
        if not isinstance(reply, list) or len(reply) < 3:  # the reply to PING
            return
        kind, channel = bytes(reply[0]), reply[1].decode()
        if kind == b"sunsubscribe":
            if not link.leaving[channel]:
                self._used = channel
                raise ConnectionError(f"The server has ended the subscription to {channel}: its slot was moved.")
            link.leaving[channel] -= 1
            link.leaving += Counter()  # forget channels with a count of 0
        elif link.leaving[channel]:
            return
        elif kind == b"ssubscribe":
            with self._lock:
                self._confirmed.add(channel)
            self._notify(channel)
        elif kind == b"smessage":
            self._notify(channel, reply[2])

    def _notify(self, channel: str, payload: bytes | None = None) -> None:
        with self._lock:
            listeners = list(self._listeners.get(channel, ()))
        for listener in listeners:
            listener.is_subscribed = True
            listener.notify(payload)

    def _disconnect(self, *, has_failed: bool) -> None:
        """Close the connections, and wake all waiters: they have to look at the state again."""
        links, self._links = self._links, {}
        self._requested.clear()
        for link in links.values():
            link.connection.close()
        if has_failed and self._used:
            with contextlib.suppress(ConfigurationError):  # the alias is gone
                connections.client(self._alias).reset_topology(self._used)
        with self._lock:
            self._confirmed.clear()
            listeners = [each for some in self._listeners.values() for each in some]
        for listener in listeners:
            listener.notify()


_subscribers: dict[str, ChannelSubscriber] = {}
_mutex = threading.Lock()


def subscriber(alias: str) -> ChannelSubscriber:
    """Return the subscriber of an alias in this process."""
    with _mutex:
        if alias not in _subscribers:
            _subscribers[alias] = ChannelSubscriber(alias)
        return _subscribers[alias]


def stop_all() -> None:
    """End the threads of this process, as when the settings change."""
    with _mutex:
        stopped = list(_subscribers.values())
        _subscribers.clear()
    for each in stopped:
        each.stop()


def _after_fork() -> None:
    """Begin anew: a forked child has neither the parent's thread nor its connections."""
    global _mutex
    _mutex = threading.Lock()
    for each in _subscribers.values():
        each.close()
    _subscribers.clear()


conf.on_change(stop_all)
after_fork_in_child(_after_fork)

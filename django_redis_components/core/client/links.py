"""Held connections for threads: taken, used for one request and reply, put back.

redis-py's client layer costs about as much as the round trip itself, so this package takes from it
the making of a connection (login, TLS, database) and the parser, and no more. A free link is kept in
a deque, whose `pop` and `append` are atomic in CPython, so the hot path takes no lock. The number of
links follows the number of threads.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import ConnectionError, DataError, RedisError, ResponseError, TimeoutError

from django_redis_components.core.client.commands import lost, not_connected, pack, pack_many
from django_redis_components.core.protocol import CommandArgs

#: Free links kept for each node; more are closed when they come back.
MAX_FREE = 64
#: Seconds after which a free link is looked at before use: the server may have closed it meanwhile.
STALE_AFTER_S = 0.05


#: The connections of this process: free, in use, or about to be open.
_connections: weakref.WeakSet[Any] = weakref.WeakSet()


class SyncConnection:
    """One open connection."""

    __slots__ = ("_connection", "_parser", "_socket", "freed_at")

    def __init__(self, connection: Any) -> None:
        _connections.add(connection)
        connection.connect()
        self._connection = connection
        self._socket = connection._sock
        self._parser = connection._parser
        self.freed_at = 0.0

    def send(self, *wire: Any) -> None:
        """Send one command."""
        try:
            self._socket.sendall(pack(wire))
        except OSError as exc:
            raise lost(exc, self._connection) from exc

    def read(self) -> Any:
        """The next reply; an error reply is raised."""
        try:
            reply = self._parser.read_response()
        except (OSError, ConnectionError, TimeoutError) as exc:
            raise lost(exc, self._connection) from exc
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    def request(self, wire: CommandArgs) -> Any:
        """Send one command and return its reply."""
        try:
            self._socket.sendall(pack(wire))
            reply = self._parser.read_response()
        except (OSError, ConnectionError, TimeoutError) as exc:
            raise lost(exc, self._connection) from exc
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    def request_many(self, wires: Sequence[CommandArgs]) -> list[Any]:
        """Send several commands at once and return their replies; error replies stand in the list."""
        try:
            self._socket.sendall(pack_many(wires))
            return [self._parser.read_response() for _ in wires]
        except (OSError, ConnectionError, TimeoutError) as exc:
            raise lost(exc, self._connection) from exc

    def fileno(self) -> int:
        """The socket, for `poll`."""
        number: int = self._socket.fileno()
        return number

    def readable(self, timeout_s: float = 0.0) -> bool:
        """Whether a reply, or the end of the connection, waits to be read.

        Raises:
            redis.exceptions.ConnectionError: the server has closed the connection.
        """
        return bool(self._connection.can_read(timeout_s))

    def close(self) -> None:
        """Close the connection."""
        self._connection.disconnect()


class SyncConnectionPool:
    """The free links to one node, and how to make another."""

    def __init__(self, make: Callable[[], Any], on_open: Callable[[SyncConnection], None]) -> None:
        self._make = make
        self._on_open = on_open
        self._free: deque[SyncConnection] = deque()
        self._closed = False

    def acquire(self) -> SyncConnection:
        """A link that is open as far as can be seen without a round trip."""
        while True:
            try:
                link = self._free.pop()
            except IndexError:
                return self.open()
            if time.monotonic() - link.freed_at < STALE_AFTER_S or _alive(link):
                return link

    def open(self) -> SyncConnection:
        """A new link, which belongs to the caller.

        Raises:
            NotConnected: the node does not answer.
        """
        connection = self._make()
        try:
            link = SyncConnection(connection)
            self._on_open(link)
        except RedisError as exc:
            connection.disconnect()
            raise not_connected(exc, connection) from exc
        except BaseException:
            connection.disconnect()
            raise
        return link

    def release(self, link: SyncConnection) -> None:
        """Put a link back whose replies are all read."""
        if self._closed or len(self._free) >= MAX_FREE:
            link.close()
            return
        link.freed_at = time.monotonic()
        self._free.append(link)

    def request(self, wire: CommandArgs) -> Any:
        """One command and its reply over a held link; an error reply leaves the link in place."""
        link = self.acquire()
        try:
            reply = link.request(wire)
        except (ResponseError, DataError):  # an answer, or nothing was sent
            self.release(link)
            raise
        except BaseException:
            link.close()
            raise
        self.release(link)
        return reply

    def request_many(self, wires: Sequence[CommandArgs]) -> list[Any]:
        """Several commands in one round trip over a held link."""
        link = self.acquire()
        try:
            replies = link.request_many(wires)
        except DataError:
            self.release(link)
            raise
        except BaseException:
            link.close()
            raise
        self.release(link)
        return replies

    def close(self) -> None:
        """Close the free links, and those in use when they come back."""
        self._closed = True
        while self._free:
            self._free.pop().close()


def close_in_child() -> None:
    """Close the parent's connections in a forked child, those too that other threads use. The parent's stay open.

    redis-py shuts a socket down only in the process that has opened it, and TLS ends without a message.
    """
    for connection in list(_connections):
        connection.disconnect()
    _connections.clear()


def _alive(link: SyncConnection) -> bool:
    try:
        if not link.readable():
            return True
    except RedisError:
        pass
    link.close()
    return False

"""Connections to one node: commands to bytes, bytes to replies, socket errors to redis-py's errors.

redis-py opens the socket (login, TLS, database) and parses the replies. Its own `Connection` spends 10 µs and more on
checks per request, so this module writes to the socket and reads with the parser directly.

This is the only part of the client that is written twice: sockets differ between threads and event loops. The pools
and the clients exist once, in `_async`; `tools/generate_sync.py` makes `_sync` from them.

The time until a reply is the server's alone. Threads wait in the kernel, a part of the timeout at a time, which does
not count their wait for the interpreter. On an event loop a timer may be late, so the socket is asked whether the reply
has arrived meanwhile. A request that is answered within `PART_S` pays nothing for this.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import time
import weakref
from collections.abc import Sequence
from typing import Any

from hiredis import PushNotification
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis._parsers.socket import SERVER_CLOSED_CONNECTION_ERROR
from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError

from django_redis_components.core.client.base_connection import BaseConnection
from django_redis_components.core.client.budget import spend
from django_redis_components.core.client.encoding import pack, pack_many
from django_redis_components.core.client.event_loops import (
    PART_S,
    abort,
    finish,
    has_arrived,
    is_readable,
    limited_reads,
    shorter_timeouts,
)
from django_redis_components.core.client.exceptions import MALFORMED, READ_ERRORS, is_of_reply
from django_redis_components.core.client.kernel_timeout import set_kernel_timeout
from django_redis_components.core.protocol import CommandArgs

#: What `read_within` returns when no reply has arrived in time.
NO_REPLY = object()
#: What a socket raises at the end of a part; the second if the kernel ends it.
_PART_IS_OVER = (builtins.TimeoutError, BlockingIOError)
#: Shortest part in seconds: 0 would be no timeout at all.
MIN_PART_S = 0.001
#: Attempts to connect if they fail while the event loop is busy.
MAX_CONNECTS = 3
#: redis-py's connections of the threads of this process: free, in use, or about to be opened.
_sync_connections: weakref.WeakSet[Any] = weakref.WeakSet()


class SyncConnection(BaseConnection):
    """A connection for one request at a time, used by one thread at a time."""

    __slots__ = ("_buffer", "_has_kernel_timeout", "_parser", "_part_s", "_reader", "_socket", "_waited_s")

    def connect(self, timeout_s: float | None = None) -> None:
        """Open the connection. A step may take `timeout_s` seconds, if the settings allow more."""
        started_at = time.monotonic()
        connection = self._redis_connection
        _sync_connections.add(connection)
        with shorter_timeouts(connection, timeout_s), limited_reads(connection):
            connection.connect()
        self._socket = connection._sock
        self._parser = connection._parser
        self._reader, self._buffer = connection._parser._reader, connection._parser._buffer
        self._part_s = min(PART_S, connection.socket_timeout)
        self._has_kernel_timeout = set_kernel_timeout(self._socket, self._part_s)
        self._wait_in_parts()
        self._record_opening(started_at, timeout_s)

    def redis_error(self, error: Exception) -> RedisError:
        """See the base class. Raises the error itself if a signal handler of the site has raised it."""
        if isinstance(error, MALFORMED) and not isinstance(error, OSError) and not is_of_reply(error):
            raise error
        return super().redis_error(error)

    def request(self, args: CommandArgs, timeout_s: float | None = None) -> Any:
        """Send one command and return its reply; an error reply is raised.

        Args:
            timeout_s: seconds to wait for the reply, if the settings allow more.
        """
        data = pack(args)
        try:
            try:  # as `_send` does
                sent = self._socket.send(data)
            except _PART_IS_OVER:
                sent = 0
            if sent < len(data):
                self._send_rest(memoryview(data)[sent:])
            reply = self._read(timeout_s)
        except READ_ERRORS as exc:
            raise self.redis_error(exc) from exc
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    def request_many(self, commands: Sequence[CommandArgs], timeout_s: float | None = None) -> list[Any]:
        """Send several commands at once and return their replies, error replies among them."""
        data = pack_many(commands)
        try:
            self._send(data)
            self._waited_s = 0.0
            return [self._read(timeout_s, self._waited_s) for _ in commands]
        except READ_ERRORS as exc:
            raise self.redis_error(exc) from exc

    def send(self, *args: Any) -> None:
        """Send one command. Its reply must be read before the next request."""
        try:
            self._send(pack(args))
        except OSError as exc:
            raise self.redis_error(exc) from exc

    def read(self) -> Any:
        """Return the next reply; an error reply is raised."""
        try:
            reply = self._read(None)
        except READ_ERRORS as exc:
            raise self.redis_error(exc) from exc
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    def read_within(self, seconds: float) -> Any:
        """Return the next reply, or NO_REPLY if none arrives in time: it can be read later. Raises error replies."""
        return self.read() if self.is_readable(max(0.0, seconds)) else NO_REPLY

    def is_readable(self, timeout_s: float = 0.0) -> bool:
        """Return whether a reply can be read, or raise ConnectionError if the server has closed the connection."""
        return bool(self._redis_connection.can_read(timeout_s))

    def is_stale(self) -> bool:
        """Return whether the server has closed the free connection, or sent a reply that belongs to no request."""
        try:
            return self.is_readable()
        except RedisError:
            return True

    def fileno(self) -> int:
        """Return the socket's file descriptor, for `poll`."""
        return int(self._socket.fileno())

    def close(self) -> None:
        """Close the connection."""
        self._redis_connection.disconnect()

    def _send(self, data: bytes) -> None:
        try:
            sent = self._socket.send(data)
        except _PART_IS_OVER:
            sent = 0
        if sent < len(data):
            self._send_rest(memoryview(data)[sent:])

    def _send_rest(self, data: memoryview) -> None:
        """Send what the buffers of the network did not take at once."""
        waited_s = 0.0
        while data:
            try:
                data = data[self._socket.send(data) :]
                waited_s = 0.0
            except _PART_IS_OVER:
                waited_s += self._part_s
                if waited_s >= self._redis_connection.socket_timeout:
                    raise TimeoutError from None

    def _read(self, timeout_s: float | None, waited_s: float = 0.0) -> Any:
        """Return the next reply. This is redis-py's `read_response` without what a plain reply does not need.

        Args:
            waited_s: seconds that were waited for former replies of the same request.
        """
        reader = self._reader
        reply = reader.gets()
        if reply is NOT_ENOUGH_DATA:
            try:
                size = self._socket.recv_into(self._buffer)
            except _PART_IS_OVER:
                reply = self._read_late(timeout_s, waited_s, self._part_s)
            else:
                self._feed(size)
                reply = reader.gets()
                if reply is NOT_ENOUGH_DATA:
                    reply = self._read_late(timeout_s, waited_s)
        if isinstance(reply, PushNotification):
            self._parser.handle_push_response(reply)
            return self._read(timeout_s, waited_s)
        error = reply[0] if reply.__class__ is list and reply else reply
        if isinstance(error, ConnectionError):
            raise error
        return reply

    def _read_late(self, timeout_s: float | None, spent_s: float, unspent_s: float = 0.0) -> Any:
        """Continue to read a reply that did not arrive within the first part of the timeout, or not all of it.

        Args:
            spent_s: seconds that were waited for former replies, and are no part of the budget any more.
            unspent_s: seconds that were waited for this one.
        """
        limit_s, waited_s = self._limit_s(timeout_s, spent_s), spent_s + unspent_s
        try:
            while (reply := self._reader.gets()) is NOT_ENOUGH_DATA:
                part_s = min(self._part_s, limit_s - waited_s)
                if waited_s - spent_s >= self._part_s or part_s < MIN_PART_S:
                    self.report_late(waited_s)
                    spend(waited_s - spent_s)
                    spent_s = waited_s
                if part_s < MIN_PART_S:
                    raise TimeoutError
                waited_s += self._receive(part_s)
        finally:
            self._waited_s = waited_s
            self._wait_in_parts()
        return reply

    def _receive(self, seconds: float) -> float:
        """Read what arrives within this time. Return how long the server took: 0 for what had arrived before."""
        has_arrived, started_at = is_readable(self._socket), time.monotonic()
        if seconds < self._part_s:  # the last part
            self._socket.settimeout(seconds)
        try:
            size = self._socket.recv_into(self._buffer)
        except _PART_IS_OVER:
            return seconds
        self._feed(size)
        return 0.0 if has_arrived else min(seconds, time.monotonic() - started_at)

    def _feed(self, size: int) -> None:
        if not size:
            raise ConnectionError(SERVER_CLOSED_CONNECTION_ERROR)
        self._reader.feed(self._buffer, 0, size)

    def _wait_in_parts(self) -> None:
        """Limit each read and write to a part of the timeout."""
        self._socket.settimeout(None if self._has_kernel_timeout else self._part_s)


class AsyncConnection(BaseConnection):
    """A connection for one request at a time, used by one task at a time."""

    __slots__ = ()

    async def connect(self, timeout_s: float | None = None) -> None:
        """Open the connection.

        It is opened in a separate task: redis-py writes within `asyncio.wait_for`, which loses a cancellation now and
        then before Python 3.12, and would wait for a server that hangs. Its timeouts count the time in which the event
        loop is busy: then it tries again, for as long as the loop was busy. So a server that hangs costs one timeout.
        """
        started_at, limit_s = time.monotonic(), timeout_s
        for attempt in range(1, MAX_CONNECTS + 1):
            with shorter_timeouts(self._redis_connection, limit_s):
                opening = asyncio.ensure_future(self._redis_connection.connect())
                busy_s = await finish(opening, self.socket_timeout_s)
            try:
                opening.result()
            except (TimeoutError, builtins.TimeoutError):
                if busy_s < PART_S or attempt == MAX_CONNECTS:
                    raise
                limit_s = busy_s if timeout_s is None else min(busy_s, timeout_s)
            else:
                break
        self._record_opening(started_at, timeout_s)

    async def request(self, args: CommandArgs, timeout_s: float | None = None) -> Any:
        """See `SyncConnection.request`."""
        reply = (await self._exchange(pack(args), 1, timeout_s))[0]
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    async def request_many(self, commands: Sequence[CommandArgs], timeout_s: float | None = None) -> list[Any]:
        """Send several commands at once and return their replies, error replies among them."""
        return await self._exchange(pack_many(commands), len(commands), timeout_s)

    async def send(self, *args: Any) -> None:
        """Send one command. Its reply must be read before the next request."""
        await self._exchange(pack(args), 0)

    async def read_within(self, seconds: float) -> Any:
        """Return the next reply, or NO_REPLY if none arrives in time: it can be read later. Raises error replies."""
        try:
            async with asyncio.timeout(max(0.0, seconds)) as timer:
                reply = await self._redis_connection._parser.read_response()
        except READ_ERRORS as exc:
            if timer.expired():
                return NO_REPLY
            raise self.redis_error(exc) from exc
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    async def is_stale(self) -> bool:
        """Return whether the server has closed the free connection, or sent a reply that belongs to no request."""
        connection = self._redis_connection
        return not connection.is_connected or await connection.can_read() or has_arrived(connection._writer.transport)

    def take_over(self, protocol: asyncio.BaseProtocol) -> tuple[Any, Any, bool]:
        """Pass further replies to a protocol. Return the transport, their parser, and whether none has arrived yet."""
        connection = self._redis_connection
        transport, reader, stream = connection._writer.transport, connection._parser._reader, connection._reader
        transport.set_protocol(protocol)
        is_idle = not (reader.has_data() or stream._buffer or stream.at_eof() or transport.is_closing())
        return transport, reader, is_idle

    def close(self) -> None:
        """Close the connection without waiting for the server; this also works after the event loop has ended."""
        connection = self._redis_connection
        writer = connection._writer
        connection._writer = connection._reader = None
        if writer is not None:
            abort(writer.transport)

    async def _exchange(self, data: bytes, count: int, timeout_s: float | None = None) -> list[Any]:
        """Send encoded commands and read `count` replies."""
        connection, replies = self._redis_connection, list[Any]()
        try:
            connection._writer.write(data)
            async with asyncio.timeout(PART_S) as timer:
                await connection._writer.drain()
                for _ in range(count):
                    replies.append(await connection._parser.read_response())
        except READ_ERRORS as exc:
            if not timer.expired():
                raise self.redis_error(exc) from exc
            await self._read_late(replies, count, (timer.when() or 0.0) - PART_S, timeout_s)
        return replies

    async def _read_late(self, replies: list[Any], count: int, sent_at: float, timeout_s: float | None) -> None:
        """Continue to read replies that did not all arrive within the first part of the timeout."""
        connection, limit_s, part_s = self._redis_connection, self._limit_s(timeout_s), PART_S
        stream, spent_s = connection._reader, 0.0
        try:
            while True:
                if not (stream._buffer or stream.at_eof() or has_arrived(connection._writer.transport)):
                    waited_s = time.monotonic() - sent_at
                    self.report_late(waited_s)
                    spend(waited_s - spent_s)
                    spent_s = waited_s
                    if waited_s >= limit_s:
                        raise TimeoutError
                    part_s = min(PART_S, limit_s - waited_s)
                with contextlib.suppress(builtins.TimeoutError):
                    async with asyncio.timeout(part_s):
                        await connection._writer.drain()
                        while len(replies) < count:
                            replies.append(await connection._parser.read_response())
                        return
        except READ_ERRORS as exc:
            raise self.redis_error(exc) from exc


def close_in_child() -> None:
    """Close the connections of the parent process in a forked child. Those of the parent stay open.

    redis-py shuts a socket down only in the process that opened it, and closes TLS without a message.
    """
    for connection in list(_sync_connections):
        connection.disconnect()
    _sync_connections.clear()

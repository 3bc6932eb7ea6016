"""Connections to one node: commands to bytes, bytes to replies, socket errors to redis-py's errors.

redis-py opens the socket (login, TLS, database) and parses the replies. Its own `Connection` spends 10 µs and more on
checks per request, so this module writes to the socket and reads with the parser directly.

This is the only part of the client that is written twice: sockets differ between threads and event loops. The pools
and the clients exist once, in `_async`; `tools/generate_sync.py` makes `_sync` from them.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import select
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from hiredis import pack_command
from redis.exceptions import ConnectionError, DataError, RedisError, ResponseError, TimeoutError

from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.protocol import CommandArgs

#: What `read_within` returns when no reply has arrived in time.
NO_REPLY = object()

#: Seconds until a task that has not ended is cancelled again.
CANCEL_AGAIN_S = 0.05
#: Parts from which it pays to look first whether all are text: half a microsecond of eight, 1.2 of 33.
LONG = 8
#: Types that hiredis encodes without converting them.
_TEXT_TYPES = frozenset((str, bytes))
#: redis-py's connections of the threads of this process: free, in use, or about to be opened.
_sync_connections: weakref.WeakSet[Any] = weakref.WeakSet()


class _BaseConnection:
    """What both connections share.

    Attributes:
        released_at: when the connection was last put back into its pool, by the monotonic clock.
    """

    __slots__ = ("_redis_connection", "released_at")

    def __init__(self, redis_connection: Any) -> None:
        self._redis_connection = redis_connection
        self.released_at = 0.0

    def connect_error(self, error: RedisError) -> RedisError:
        """Return `NotConnected` for an error while connecting, unless the error says more."""
        if type(error) not in (ConnectionError, TimeoutError):
            return error
        address, text = self._redis_connection._host_error(), str(error)
        return NotConnected(text if address in text else f"{address}: {text}")

    def _redis_error(self, error: Exception) -> RedisError:
        """Return redis-py's error for one of the socket, with the address in it."""
        if isinstance(error, RedisError) and type(error) not in (ConnectionError, TimeoutError):
            return error  # such as BusyLoadingError, which is a reply
        address = self._redis_connection._host_error()
        if isinstance(error, TimeoutError | builtins.TimeoutError):
            return TimeoutError(f"{address} did not answer within {self._redis_connection.socket_timeout:g} s.")
        return ConnectionError(f"{address}: {str(error) or type(error).__name__}")


class SyncConnection(_BaseConnection):
    """A connection for one request at a time, used by one thread at a time."""

    __slots__ = ("_parser", "_socket")

    def connect(self) -> None:
        """Open the connection."""
        _sync_connections.add(self._redis_connection)
        self._redis_connection.connect()
        self._socket = self._redis_connection._sock
        self._parser = self._redis_connection._parser

    def request(self, args: CommandArgs) -> Any:
        """Send one command and return its reply; an error reply is raised."""
        try:
            self._socket.sendall(pack(args))
            reply = self._parser.read_response()
        except (OSError, ConnectionError, TimeoutError) as exc:
            raise self._redis_error(exc) from exc
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    def request_many(self, commands: Sequence[CommandArgs]) -> list[Any]:
        """Send several commands at once and return their replies, error replies among them."""
        try:
            self._socket.sendall(pack_many(commands))
            return [self._parser.read_response() for _ in commands]
        except (OSError, ConnectionError, TimeoutError) as exc:
            raise self._redis_error(exc) from exc

    def send(self, *args: Any) -> None:
        """Send one command. Its reply must be read before the next request."""
        try:
            self._socket.sendall(pack(args))
        except OSError as exc:
            raise self._redis_error(exc) from exc

    def read(self) -> Any:
        """Return the next reply; an error reply is raised."""
        try:
            reply = self._parser.read_response()
        except (OSError, ConnectionError, TimeoutError) as exc:
            raise self._redis_error(exc) from exc
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    def read_within(self, seconds: float) -> Any:
        """Return the next reply, or NO_REPLY if none arrives in time: it can be read later. Raises error replies."""
        return self.read() if self.is_readable(max(0.0, seconds)) else NO_REPLY

    def is_readable(self, timeout_s: float = 0.0) -> bool:
        """Return whether a reply can be read, or the end of the connection.

        Raises:
            redis.exceptions.ConnectionError: the server has closed the connection.
        """
        return bool(self._redis_connection.can_read(timeout_s))

    def is_stale(self) -> bool:
        """Return whether the server has closed the free connection, or sent a reply that belongs to no request."""
        try:
            return self.is_readable()
        except RedisError:
            return True

    def fileno(self) -> int:
        """Return the socket's file descriptor, for `poll`."""
        number: int = self._socket.fileno()
        return number

    def close(self) -> None:
        """Close the connection."""
        self._redis_connection.disconnect()


class AsyncConnection(_BaseConnection):
    """A connection for one request at a time, used by one task at a time."""

    __slots__ = ()

    async def connect(self) -> None:
        """Open the connection.

        It is opened in a task of its own: redis-py writes within `asyncio.wait_for`, which loses a cancellation now and
        then before Python 3.12, and would wait for a server that hangs.
        """
        opening = asyncio.ensure_future(self._redis_connection.connect())
        try:
            await asyncio.wait([opening])
        except asyncio.CancelledError:
            await _cancel(opening)
            raise
        opening.result()

    async def request(self, args: CommandArgs) -> Any:
        """Send one command and return its reply; an error reply is raised."""
        reply = (await self._exchange(pack(args), 1))[0]
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    async def request_many(self, commands: Sequence[CommandArgs]) -> list[Any]:
        """Send several commands at once and return their replies, error replies among them."""
        return await self._exchange(pack_many(commands), len(commands))

    async def send(self, *args: Any) -> None:
        """Send one command. Its reply must be read before the next request."""
        await self._exchange(pack(args), 0)

    async def read_within(self, seconds: float) -> Any:
        """Return the next reply, or NO_REPLY if none arrives in time: it can be read later. Raises error replies."""
        try:
            async with asyncio.timeout(max(0.0, seconds)) as timer:
                reply = await self._redis_connection._parser.read_response()
        except (OSError, ConnectionError, TimeoutError) as exc:
            if timer.expired():
                return NO_REPLY
            raise self._redis_error(exc) from exc
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    async def is_stale(self) -> bool:
        """Return whether the server has closed the free connection, or sent a reply that belongs to no request."""
        connection = self._redis_connection
        if not connection.is_connected or await connection.can_read():
            return True
        # A busy event loop may not have read yet what has arrived: ask the socket itself.
        poller = select.poll()
        poller.register(connection._writer.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poller.poll(0))

    def close(self) -> None:
        """Close the connection without waiting for the server; this also works after the event loop has ended."""
        connection = self._redis_connection
        writer = connection._writer
        connection._writer = connection._reader = None
        if writer is not None:
            _abort(writer.transport)

    async def _exchange(self, data: bytes, count: int) -> list[Any]:
        """Send encoded commands and read `count` replies."""
        connection = self._redis_connection
        try:
            async with asyncio.timeout(connection.socket_timeout):
                connection._writer.write(data)
                await connection._writer.drain()
                return [await connection._parser.read_response() for _ in range(count)]
        except (OSError, ConnectionError, TimeoutError) as exc:
            raise self._redis_error(exc) from exc


def sync_request_limit(_: int | None) -> contextlib.AbstractContextManager[Any]:
    """Return no limit: each thread has one request at a time, and threads are few."""
    return contextlib.nullcontext()


def async_request_limit(limit: int | None) -> contextlib.AbstractAsyncContextManager[Any]:
    """Return a limit of concurrent requests; None: unlimited."""
    return contextlib.nullcontext() if limit is None else asyncio.Semaphore(limit)


def close_in_child() -> None:
    """Close the connections of the parent process in a forked child. Those of the parent stay open.

    redis-py shuts a socket down only in the process that opened it, and closes TLS without a message.
    """
    for connection in list(_sync_connections):
        connection.disconnect()
    _sync_connections.clear()


def pack(args: CommandArgs) -> bytes:
    """Encode one command in the Redis protocol.

    hiredis gets text only. It converts numbers without checking for errors, and a signal at that moment, such as
    Ctrl-C, would end the process with a segmentation fault (seen with hiredis 3.5).

    Raises:
        DataError: a part is not a str, bytes, int or float; nothing was sent.
    """
    texts: Any = args
    if len(args) < LONG or not _TEXT_TYPES.issuperset(map(type, args)):
        texts = tuple([
            part if (kind := part.__class__) is str or kind is bytes else str(part) if kind is int else _text(args, at)
            for at, part in enumerate(args)
        ])  # fmt: skip
    data: bytes = pack_command(texts)
    return data


def pack_many(commands: Iterable[CommandArgs]) -> bytes:
    """Encode several commands, one after the other."""
    return b"".join(map(pack, commands))


def _text(args: CommandArgs, at: int) -> str | bytes:
    """Encode a part of a less common type."""
    part = args[at]
    if isinstance(part, str | bytes):
        return part
    if isinstance(part, float):
        return float.__repr__(part)
    if isinstance(part, int) and not isinstance(part, bool):
        return int.__repr__(part)  # an IntEnum
    if isinstance(part, bytearray | memoryview):
        return bytes(part)
    raise DataError(f"Part {at} of {args[0]} is {part!r}: expected str, bytes, int or float.")


async def _cancel(task: asyncio.Future[Any]) -> None:
    """Cancel a task until it has ended: it may lose a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=CANCEL_AGAIN_S)
    if not task.cancelled():
        task.exception()  # retrieved, or asyncio logs it


def _abort(transport: Any) -> None:
    """Close a transport at once. One whose loop has ended cannot do so itself: call the last step it would take."""
    try:
        transport.abort()
    except RuntimeError:  # the loop is closed
        plain = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None) or transport
        with contextlib.suppress(RuntimeError, AttributeError):  # TLS would have the loop notify the stream
            plain._call_connection_lost(None)

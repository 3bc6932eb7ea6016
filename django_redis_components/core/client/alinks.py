"""Held connections for one event loop: the asyncio twin of `links`."""

from __future__ import annotations

import asyncio
import contextlib
import select
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import ConnectionError, DataError, RedisError, ResponseError, TimeoutError

from django_redis_components.core.client.commands import lost, not_connected, pack, pack_many
from django_redis_components.core.client.links import MAX_FREE, STALE_AFTER_S
from django_redis_components.core.protocol import CommandArgs

#: Links to one node that a loop uses at once; further requests wait in line. Threads are few, tasks may be
#: thousands, and the server's `maxclients` is 10,000 for all.
MAX_IN_USE = 64
#: What `AsyncConnection.read_within` returns when its time has passed.
NO_REPLY = object()


class AsyncConnection:
    """One open connection."""

    __slots__ = ("_connection", "freed_at")

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.freed_at = 0.0

    async def open(self) -> None:
        """Connect."""
        before = _cancellations()
        await self._connection.connect()
        # redis-py writes within asyncio.wait_for, which loses a cancellation now and then before Python 3.12.
        if _cancellations() > before:
            raise asyncio.CancelledError

    async def request(self, wire: CommandArgs) -> Any:
        """Send one command and return its reply."""
        reply = (await self._exchange(pack(wire), 1))[0]
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    async def request_many(self, wires: Sequence[CommandArgs]) -> list[Any]:
        """Send several commands at once and return their replies; error replies stand in the list."""
        return await self._exchange(pack_many(wires), len(wires))

    async def send(self, *wire: Any) -> None:
        """Send one command."""
        connection = self._connection
        try:
            async with asyncio.timeout(connection.socket_timeout):
                connection._writer.write(pack(wire))
                await connection._writer.drain()
        except (OSError, ConnectionError, TimeoutError) as exc:
            raise lost(exc, connection) from exc

    async def read_within(self, seconds: float) -> Any:
        """The next reply, or NO_REPLY if there is none within this time: it can be read later. Raises error replies."""
        try:
            async with asyncio.timeout(max(0.0, seconds)) as timer:
                reply = await self._connection._parser.read_response()
        except (OSError, ConnectionError, TimeoutError) as exc:
            if timer.expired():
                return NO_REPLY
            raise lost(exc, self._connection) from exc
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    async def is_stale(self) -> bool:
        """Whether the server has closed the connection, or sent what nobody asked for."""
        connection = self._connection
        if not connection.is_connected or await connection.can_read():
            return True
        # A busy loop may not have read yet what has arrived: ask the socket itself.
        poller = select.poll()
        poller.register(connection._writer.transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poller.poll(0))

    async def _exchange(self, data: bytes, count: int) -> list[Any]:
        connection = self._connection
        try:
            async with asyncio.timeout(connection.socket_timeout):
                connection._writer.write(data)
                await connection._writer.drain()
                return [await connection._parser.read_response() for _ in range(count)]
        except (OSError, ConnectionError, TimeoutError) as exc:
            raise lost(exc, connection) from exc

    def close(self) -> None:
        """Close the connection without waiting for the other side; also after its loop has ended."""
        connection = self._connection
        writer = connection._writer
        connection._writer = connection._reader = None
        if writer is not None:
            _close(writer.transport)


class AsyncConnectionPool:
    """The free links of one loop to one node, and how to make another."""

    def __init__(
        self,
        make: Callable[[], Any],
        on_open: Callable[[AsyncConnection], Awaitable[None]],
        *,
        limit: int | None = MAX_IN_USE,
    ) -> None:
        self._make = make
        self._on_open = on_open
        self._free: deque[AsyncConnection] = deque()
        self._closed = False
        self._turn = contextlib.nullcontext() if limit is None else asyncio.Semaphore(limit)

    async def acquire(self) -> AsyncConnection:
        """A link that is open as far as can be seen without a round trip."""
        while self._free:
            link = self._free.pop()
            if time.monotonic() - link.freed_at < STALE_AFTER_S or not await link.is_stale():
                return link
            link.close()
        return await self.open()

    async def open(self) -> AsyncConnection:
        """A new link, which belongs to the caller.

        Raises:
            NotConnected: the node does not answer.
        """
        connection = self._make()
        link = AsyncConnection(connection)
        try:
            await link.open()
            await self._on_open(link)
        except RedisError as exc:
            link.close()
            raise not_connected(exc, connection) from exc
        except BaseException:
            link.close()
            raise
        return link

    def release(self, link: AsyncConnection) -> None:
        """Put a link back whose replies are all read."""
        if self._closed or len(self._free) >= MAX_FREE:
            link.close()
            return
        link.freed_at = time.monotonic()
        self._free.append(link)

    async def request(self, wire: CommandArgs) -> Any:
        """One command and its reply over a held link; an error reply leaves the link in place."""
        async with self._turn:
            link = await self.acquire()
            try:
                reply = await link.request(wire)
            except (ResponseError, DataError):  # an answer, or nothing was sent
                self.release(link)
                raise
            except BaseException:
                link.close()
                raise
            self.release(link)
            return reply

    async def request_many(self, wires: Sequence[CommandArgs]) -> list[Any]:
        """Several commands in one round trip over a held link."""
        async with self._turn:
            link = await self.acquire()
            try:
                replies = await link.request_many(wires)
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


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def _close(transport: Any) -> None:
    """Close at once. The transport of a loop that has ended cannot do it by itself: do its last step for it."""
    try:
        transport.abort()
    except RuntimeError:  # the loop is closed
        plain = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None) or transport
        with contextlib.suppress(RuntimeError, AttributeError):  # TLS would have the loop tell the stream
            plain._call_connection_lost(None)

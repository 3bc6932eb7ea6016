"""The free connections to one node.

A free connection waits in a deque, whose `pop` and `append` are atomic in CPython, so a request takes no lock. The last
one released is the first one acquired, so there are about as many connections as requests at the same time.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.exceptions import DataError, RedisError, ResponseError

from django_redis_components.core.client.budget import budget_left_s, spend
from django_redis_components.core.client.event_loops import async_request_limit
from django_redis_components.core.client.exceptions import MALFORMED, NotConnected
from django_redis_components.core.client.transport import AsyncConnection
from django_redis_components.core.protocol import CommandArgs

#: Free connections kept for each node; further ones are closed when they are released.
MAX_FREE = 64
#: Seconds after which a free connection is checked before use: the server may have closed it.
STALE_AFTER_S = 0.05


class AsyncConnectionPool:
    """The free connections to one node."""

    def __init__(
        self,
        make_connection: Callable[[], Any],
        on_open: Callable[[AsyncConnection], Awaitable[None]],
        *,
        max_requests: int | None,
        max_wait_s: float | None = None,
        on_late: Callable[[float], None] | None = None,
    ) -> None:
        """
        Args:
            make_connection: makes a connection of redis-py.
            on_open: called with each new connection before its first use.
            max_requests: how many requests a pool of an event loop sends at the same time; None: any number.
            max_wait_s: seconds that a further request waits for one of them; None: any time.
            on_late: see the connection.
        """
        self._make_connection = make_connection
        self._on_open = on_open
        self._on_late = on_late
        self._free: deque[AsyncConnection] = deque()
        self._is_closed = False
        self._request_limit = async_request_limit(max_requests, max_wait_s)

    async def acquire(self, timeout_s: float | None = None) -> AsyncConnection:
        """Return a free connection, or a new one. It is open as far as can be known without a round trip."""
        while True:
            try:
                connection = self._free.pop()
            except IndexError:
                return await self.open(timeout_s)
            if time.monotonic() - connection.released_at < STALE_AFTER_S or not await connection.is_stale():
                return connection
            connection.close()

    async def open(self, timeout_s: float | None = None) -> AsyncConnection:
        """Return a new connection, which belongs to the caller.

        Args:
            timeout_s: seconds for each step, if the settings allow more.

        Raises:
            NotConnected: the node does not answer.
        """
        if (left_s := budget_left_s()) <= 0:
            raise NotConnected("The page has waited for Redis for as long as its budget allows.")
        if left_s < math.inf:
            timeout_s = left_s if timeout_s is None else min(left_s, timeout_s)
        started_at = time.monotonic()
        connection = AsyncConnection(self._make_connection(), self._on_late)
        try:
            try:
                await connection.connect(timeout_s)
            finally:
                spend(time.monotonic() - started_at)
            await self._on_open(connection)
        except (RedisError, *MALFORMED) as exc:
            connection.close()
            raise connection.connect_error(exc, time.monotonic() - started_at) from exc
        except BaseException:
            connection.close()
            raise
        return connection

    def release(self, connection: AsyncConnection) -> None:
        """Put a connection back. All its replies must have been read."""
        if len(self._free) >= MAX_FREE:
            connection.close()
            return
        connection.released_at = time.monotonic()
        self._free.append(connection)
        if self._is_closed:  # checked last, because another thread may close the pool at any moment
            self.close()

    async def request(self, args: CommandArgs, timeout_s: float | None = None) -> Any:
        """Send one command and return its reply. An error reply is raised and keeps the connection.

        Args:
            timeout_s: seconds to wait, if the settings allow more.
        """
        limit = self._request_limit
        if limit is not None:
            await limit.acquire()
        try:
            connection = await self.acquire(timeout_s)
            try:
                reply = await connection.request(args, timeout_s)
            except (ResponseError, DataError):  # a reply, or nothing was sent
                self.release(connection)
                raise
            except BaseException:
                self._drop(connection)
                raise
            self.release(connection)
            return reply
        finally:
            if limit is not None:
                limit.release()

    async def request_many(self, commands: Sequence[CommandArgs], timeout_s: float | None = None) -> list[Any]:
        """Send several commands in one round trip and return their replies, error replies among them."""
        limit = self._request_limit
        if limit is not None:
            await limit.acquire()
        try:
            connection = await self.acquire(timeout_s)
            try:
                replies = await connection.request_many(commands, timeout_s)
            except DataError:
                self.release(connection)
                raise
            except BaseException:
                self._drop(connection)
                raise
            self.release(connection)
            return replies
        finally:
            if limit is not None:
                limit.release()

    def _drop(self, connection: AsyncConnection) -> None:
        """Close a connection that has failed. Free ones may be closed, too: each is checked before its use."""
        connection.close()
        for free in list(self._free):
            free.released_at = -math.inf

    def close(self) -> None:
        """Close the free connections, and those in use when they are released."""
        self._is_closed = True
        with contextlib.suppress(IndexError):  # of several threads that close it, each closes some
            while True:
                self._free.pop().close()

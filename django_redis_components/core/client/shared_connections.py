"""The pool of requests of an event loop: few connections to one node, shared by all coroutines.

Further connections are for times when the first one would hold up others: a large reply is on its way, a reply is late,
or the server does not read. Requests that would do so have a separate connection, from the pool: large requests,
commands that wait or that change the connection, and commands whose replies were large lately.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import operator
import time
from collections.abc import Sequence
from typing import Any

from redis._parsers.socket import SERVER_CLOSED_CONNECTION_ERROR
from redis.exceptions import ConnectionError, RedisError, TimeoutError

from django_redis_components.core.client._async.pool import AsyncConnectionPool
from django_redis_components.core.client._sync.pool import SyncConnectionPool
from django_redis_components.core.client.budget import budget_left_s, spend
from django_redis_components.core.client.encoding import pack, pack_many
from django_redis_components.core.client.event_loops import wait_at_most
from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.client.multiplexed_connection import LARGE, MultiplexedConnection
from django_redis_components.core.client.transport import AsyncConnection
from django_redis_components.core.protocol import CommandArgs

#: Shared connections to one node.
MAX_SHARED = 3
#: Seconds for which a command, or a script, whose reply was large is expected to have large ones.
LARGE_FOR_S = 60.0
#: Commands that wait in the server, and those that change the connection.
_ALONE = """
    BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH BZMPOP BZPOPMAX BZPOPMIN WAIT WAITAOF XREAD XREADGROUP
    ASKING AUTH CLIENT DISCARD EXEC HELLO MONITOR MULTI PSUBSCRIBE PSYNC PUNSUBSCRIBE QUIT READONLY READWRITE RESET
    SELECT SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE SYNC UNSUBSCRIBE UNWATCH WATCH
"""
ALONE = frozenset((*_ALONE.split(), *_ALONE.lower().split()))
_SCRIPT_COMMANDS = frozenset(("EVALSHA", "EVALSHA_RO"))


class SharedConnections(AsyncConnectionPool):
    """The connections of an event loop to one node: shared ones, and those of requests that would hold up others."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._shared: list[MultiplexedConnection] = []
        self._current: MultiplexedConnection | None = None
        self._opening: asyncio.Future[None] | None = None
        self._waiting = 0
        #: Script or command -> until when its replies are expected to be large, by the monotonic clock.
        self._large_until: dict[Any, float] = {}

    async def request(self, args: CommandArgs, timeout_s: float | None = None) -> Any:
        """See the base class."""
        data = pack(args)
        if len(data) > LARGE or (args[0] in ALONE and _is_alone(args)) or (self._large_until and self._is_large(args)):
            return await super().request(args, timeout_s)
        shared = self._current
        if shared is None or not shared.is_usable or shared.is_stale():
            shared, timeout_s = await self._acquire_shared(timeout_s)
        reply = await shared.send(data, args, 0, timeout_s)
        if self._is_closed:
            self.close()
        if isinstance(reply, RedisError):
            raise reply
        if reply.__class__ is list and reply and isinstance(reply[0], ConnectionError):
            raise reply[0]
        return reply

    async def request_many(self, commands: Sequence[CommandArgs], timeout_s: float | None = None) -> list[Any]:
        """See the base class."""
        data = pack_many(commands)
        if len(data) > LARGE or any(map(_is_alone, commands)) or (self._large_until and self._is_large(commands[0])):
            return await super().request_many(commands, timeout_s)
        shared = self._current
        if shared is None or not shared.is_usable or shared.is_stale():
            shared, timeout_s = await self._acquire_shared(timeout_s)
        replies: Any = await shared.send(data, commands[0], len(commands), timeout_s)
        if self._is_closed:
            self.close()
        if isinstance(replies, RedisError):
            raise replies
        for reply in replies:
            if isinstance(reply, ConnectionError):
                raise reply
        answered: list[Any] = replies
        return answered

    def _forget(self, connection: MultiplexedConnection) -> None:
        """Use a connection for no further request."""
        if connection in self._shared:
            self._shared.remove(connection)
        if connection is self._current:
            self._current = None

    def _record_large(self, args: CommandArgs) -> None:
        """Send such commands over separate connections for a while: their replies are large."""
        self._large_until[_kind(args)] = time.monotonic() + LARGE_FOR_S

    def close(self) -> None:
        """See the base class."""
        super().close()
        for connection in list(self._shared):
            connection.retire()

    def _is_large(self, args: CommandArgs) -> bool:
        until = self._large_until.get(_kind(args), 0.0)
        return until > 0.0 and time.monotonic() < until

    async def _acquire_shared(self, timeout_s: float | None) -> tuple[MultiplexedConnection, float | None]:
        """Return the connection that answers soonest, and the timeout without the time that opening it took."""
        for connection in [each for each in self._shared if each.is_usable and each.is_stale()]:
            connection.retire()
        started_at = time.monotonic()
        if is_opened := len(self._shared) < MAX_SHARED and not any(each.is_usable for each in self._shared):
            await self._wait_for_another(timeout_s)
        if not self._shared:
            raise self._not_connected(ConnectionError(SERVER_CLOSED_CONNECTION_ERROR), started_at)
        connection = min(self._shared, key=_EXPECTED_WAIT)
        if connection.is_usable:
            self._current = connection
        if is_opened:
            limit_s = math.inf if timeout_s is None else timeout_s
            timeout_s = min(connection.socket_timeout_s, limit_s) - (time.monotonic() - started_at)
        return connection, timeout_s

    async def _wait_for_another(self, timeout_s: float | None) -> None:
        """Wait until a further connection is open. One opening serves all that wait; the last one to leave ends it."""
        if (limit_s := budget_left_s()) <= 0:
            raise NotConnected("The page has waited for Redis for as long as its budget allows.")
        limit_s = min(limit_s, math.inf if timeout_s is None else timeout_s)
        if self._opening is None:  # in an empty context, without the budget of a page
            self._opening = contextvars.Context().run(asyncio.ensure_future, self._open_shared())
            self._opening.add_done_callback(self._opened)
        opening, started_at = self._opening, time.monotonic()
        self._waiting += 1
        try:
            await wait_at_most(opening, limit_s)
        finally:
            spend(time.monotonic() - started_at)
            self._waiting -= 1
            if not self._waiting and not opening.done():
                self._opening = None
                opening.cancel()
        if not opening.done():
            raise self._not_connected(TimeoutError("Timeout connecting to server"), started_at)
        opening.result()

    def _not_connected(self, error: RedisError, started_at: float) -> RedisError:
        return AsyncConnection(self._make_connection()).connect_error(error, time.monotonic() - started_at)

    async def _open_shared(self) -> None:
        connection = MultiplexedConnection(await self.open(), self._forget, self._record_large)
        if connection.is_usable:
            self._shared.append(connection)

    def _opened(self, opening: asyncio.Future[None]) -> None:
        if self._opening is opening:
            self._opening = None
        if not opening.cancelled():
            opening.exception()  # retrieved, or asyncio logs it after all callers have left


#: What makes the pool of requests: threads have few requests, each on a separate connection.
async_request_pool = SharedConnections
sync_request_pool = SyncConnectionPool

_EXPECTED_WAIT = operator.attrgetter("is_held_up", "outstanding")


def _is_alone(args: CommandArgs) -> bool:
    return args[0] in ALONE and args[:2] != ("CLIENT", "ID")


def _kind(args: CommandArgs) -> Any:
    """Return what tells whether replies are large: the digest of a script, or the name of a command."""
    return args[1] if args[0] in _SCRIPT_COMMANDS else args[0]

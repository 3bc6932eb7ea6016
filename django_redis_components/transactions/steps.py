"""The steps of a transaction's flow: requests on its own connection, and the call of the user's function.

The connection is reserved from WATCH to EXEC and never reconnected: the watch is lost with it.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from redis.exceptions import AskError, RedisError

from django_redis_components.core.client.connections import AsyncClient, SyncClient
from django_redis_components.core.client.server import explain_error
from django_redis_components.core.decorators import refuse_awaitable
from django_redis_components.core.protocol import CommandArgs
from django_redis_components.transactions.options import UpdateOptions
from django_redis_components.transactions.pipes import AsyncPipe, Pipe


@dataclasses.dataclass(slots=True)
class WatchedConnection:
    """A connection from WATCH to EXEC.

    Attributes:
        key: one that its node serves.
    """

    client: Any
    key: str
    pool: Any
    link: Any
    pipe: Any

    def release(self) -> None:
        """Return it to the pool: nothing is watched, and all replies are read."""
        self.pool.release(self.link)

    def close(self, *, distrust: bool = False) -> None:
        """Close it: its state is unknown."""
        self.link.close()
        if distrust:
            self.client.reset_topology(self.key)


@dataclasses.dataclass(frozen=True, slots=True)
class OpenWatch:
    """Reserve a connection and watch the keys on it. The reply is a `WatchedConnection`."""

    options: UpdateOptions
    marker: str

    def perform(self, client: SyncClient) -> WatchedConnection:
        """Run the step synchronously."""
        slot = _slot(client, self.options)
        pool = client.pool_for(self.marker)
        link = None
        try:
            link = pool.acquire()
            link.request(self._command_args())
        except RedisError as exc:
            self._close(link, client)
            raise explained(exc, client) from exc.__cause__
        except BaseException:
            self._close(link, client)
            raise
        return WatchedConnection(client, self.marker, pool, link, Pipe(link, slot))

    async def aperform(self, client: AsyncClient) -> WatchedConnection:
        """Run the step on the event loop."""
        slot = _slot(client, self.options)
        pool = await client.pool_for(self.marker)
        link = None
        try:
            link = await pool.acquire()
            await link.request(self._command_args())
        except RedisError as exc:
            self._close(link, client)
            raise explained(exc, client) from exc.__cause__
        except BaseException:
            self._close(link, client)
            raise
        return WatchedConnection(client, self.marker, pool, link, AsyncPipe(link, slot))

    def _close(self, link: Any, client: SyncClient | AsyncClient) -> None:
        if link is not None:
            link.close()
        client.reset_topology(self.marker)

    def _command_args(self) -> CommandArgs:
        return ("WATCH", *self.options.keys, self.marker)


@dataclasses.dataclass(frozen=True, slots=True)
class CallFunction:
    """Call the user's function with the pipe. The reply is its return value."""

    func: Callable[..., Any]
    connection: WatchedConnection

    def perform(self, _: SyncClient) -> Any:
        """Run the step synchronously."""
        pipe: Pipe = self.connection.pipe
        try:
            value = self.func(pipe)
            refuse_awaitable(value, self.func, "use aatomic_update()")
            if pipe.scripts:
                pipe.load_scripts()  # type: ignore[no-untyped-call]
        finally:
            pipe.end()
        return value

    async def aperform(self, _: AsyncClient) -> Any:
        """Run the step on the event loop."""
        pipe: AsyncPipe = self.connection.pipe
        try:
            value = self.func(pipe)
            if inspect.isawaitable(value):
                value = await value
            if pipe.scripts:
                await pipe.load_scripts()  # type: ignore[no-untyped-call]
        finally:
            await pipe.end()
        return value


@dataclasses.dataclass(frozen=True, slots=True)
class SendOnConnection:
    """Send commands in one round trip on the watched connection. The reply is the list of replies, errors included."""

    connection: WatchedConnection
    commands: list[CommandArgs]

    def perform(self, client: SyncClient) -> list[Any]:
        """Run the step synchronously."""
        replies: list[Any] = self.connection.link.request_many(self.commands)
        return [explained(reply, client) for reply in replies]

    async def aperform(self, client: AsyncClient) -> list[Any]:
        """Run the step on the event loop."""
        replies: list[Any] = await self.connection.link.request_many(self.commands)
        return [explained(reply, client) for reply in replies]


def explained(reply: Any, client: SyncClient | AsyncClient) -> Any:
    """Return a reply; an error with the setting that causes it, or the server that is in this state.

    A redirection of a Cluster's node is for the caller, who follows it.
    """
    is_redirection = isinstance(reply, AskError) and client.is_cluster
    return explain_error(reply, client.endpoint) if isinstance(reply, RedisError) and not is_redirection else reply


def _slot(client: SyncClient | AsyncClient, options: UpdateOptions) -> int:
    return options.slot() if client.endpoint.kind == "cluster" else 0

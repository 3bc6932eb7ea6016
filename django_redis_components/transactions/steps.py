"""The steps of a transaction's flow: requests on its own connection, and the call of the user's function.

The connection is reserved from WATCH to EXEC and never reconnected: the watch is lost with it.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from django_redis_components.core.client.connections import AsyncClient, SyncClient
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
        link = pool.acquire()
        try:
            link.request(self._command_args())
        except BaseException:
            link.close()
            client.reset_topology(self.marker)
            raise
        return WatchedConnection(client, self.marker, pool, link, Pipe(link, slot))

    async def aperform(self, client: AsyncClient) -> WatchedConnection:
        """Run the step on the event loop."""
        slot = _slot(client, self.options)
        pool = await client.pool_for(self.marker)
        link = await pool.acquire()
        try:
            await link.request(self._command_args())
        except BaseException:
            link.close()
            client.reset_topology(self.marker)
            raise
        return WatchedConnection(client, self.marker, pool, link, AsyncPipe(link, slot))

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

    def perform(self, _: SyncClient) -> list[Any]:
        """Run the step synchronously."""
        replies: list[Any] = self.connection.link.request_many(self.commands)
        return replies

    async def aperform(self, _: AsyncClient) -> list[Any]:
        """Run the step on the event loop."""
        replies: list[Any] = await self.connection.link.request_many(self.commands)
        return replies


def _slot(client: SyncClient | AsyncClient, options: UpdateOptions) -> int:
    return options.slot() if client.endpoint.kind == "cluster" else 0

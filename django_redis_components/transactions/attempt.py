"""What the flow of a transaction yields beside commands: the requests on its own connection, and the site's code.

The connection is held from WATCH to EXEC and never repaired: a watch dies with it.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from django_redis_components.core.client.connections import AsyncClient, SyncClient
from django_redis_components.core.decorators import refuse_awaitable
from django_redis_components.core.protocol import CommandArgs
from django_redis_components.transactions.pipes import AsyncPipe, Pipe
from django_redis_components.transactions.settings import Plan


@dataclasses.dataclass(slots=True)
class Held:
    """A connection from WATCH to EXEC."""

    client: Any
    pool: Any
    link: Any
    pipe: Any

    def give_back(self) -> None:
        """Nothing is watched on it any more, and all replies are read."""
        self.pool.release(self.link)

    def close(self, *, distrust: bool = False) -> None:
        """Its state is not known."""
        self.link.close()
        if distrust:
            self.client.reset_topology()


@dataclasses.dataclass(frozen=True, slots=True)
class Watch:
    """Take a connection and watch the keys on it. The reply is a `Held`."""

    plan: Plan
    marker: str

    def perform(self, client: SyncClient) -> Held:
        """Do it, synchronously."""
        slot = _slot(client, self.plan)
        pool = client.pool_for(self.marker)
        link = pool.acquire()
        try:
            link.request(self._wire())
        except BaseException:
            link.close()
            client.reset_topology()
            raise
        return Held(client, pool, link, Pipe(link, slot))

    async def aperform(self, client: AsyncClient) -> Held:
        """Do it, on the event loop."""
        slot = _slot(client, self.plan)
        pool = await client.pool_for(self.marker)
        link = await pool.acquire()
        try:
            await link.request(self._wire())
        except BaseException:
            link.close()
            client.reset_topology()
            raise
        return Held(client, pool, link, AsyncPipe(link, slot))

    def _wire(self) -> CommandArgs:
        return ("WATCH", *self.plan.keys, self.marker)


@dataclasses.dataclass(frozen=True, slots=True)
class Body:
    """Call the site's function with the pipe. The reply is what it returned."""

    func: Callable[..., Any]
    held: Held

    def perform(self, _: SyncClient) -> Any:
        """Do it, synchronously."""
        pipe: Pipe = self.held.pipe
        try:
            value = self.func(pipe)
            refuse_awaitable(value, self.func, "use aatomic_update()")
            if pipe.scripts:
                pipe.load_scripts()  # type: ignore[no-untyped-call]
        finally:
            pipe.end()
        return value

    async def aperform(self, _: AsyncClient) -> Any:
        """Do it, on the event loop."""
        pipe: AsyncPipe = self.held.pipe
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
class Send:
    """Send commands in one go on the held connection. The reply is the list of replies, errors among them."""

    held: Held
    wires: list[CommandArgs]

    def perform(self, _: SyncClient) -> list[Any]:
        """Do it, synchronously."""
        replies: list[Any] = self.held.link.request_many(self.wires)
        return replies

    async def aperform(self, _: AsyncClient) -> list[Any]:
        """Do it, on the event loop."""
        replies: list[Any] = await self.held.link.request_many(self.wires)
        return replies


def _slot(client: SyncClient | AsyncClient, plan: Plan) -> int:
    return plan.slot() if client.endpoint.kind == "cluster" else 0

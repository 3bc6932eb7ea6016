"""The asyncio twin of `clients`: one client for each event loop."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from redis.exceptions import ClusterDownError, NoPermissionError, RedisError, TimeoutError

from django_redis_components.core.client import retry as recovery
from django_redis_components.core.client.alinks import MAX_IN_USE, NO_REPLY, AsyncConnection, AsyncConnectionPool
from django_redis_components.core.client.endpoint import Endpoint, Node
from django_redis_components.core.client.server import ServerInfo, block_slice, explained, parse_info, require_supported
from django_redis_components.core.client.topology import Ask, topology_of
from django_redis_components.core.protocol import BlockingPop, Call, Command


class AsyncClient:
    """The door to one endpoint for the tasks of one event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._topology = topology_of(endpoint)
        self._pools: dict[tuple[Node, str], AsyncConnectionPool] = {}
        self._server: ServerInfo | None = None

    async def execute(self, request: Call | Command) -> Any:
        """See `clients.SyncClient.execute`."""
        node = self._topology.locate(request.key)
        if node is None:
            return await self._first([request])
        try:
            return await self._pool(node).request(request.command_args(self._topology.redirects))
        except RedisError as exc:
            error = explained(exc, self.endpoint)
        return await self._drive(recovery.recover(request, error, self._topology, self.endpoint.settings))

    async def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]:
        """See `clients.SyncClient.execute_many`."""
        replies = await self._drive(recovery.send(requests, self._topology, self.endpoint.settings))
        return [explained(reply, self.endpoint) if isinstance(reply, RedisError) else reply for reply in replies]

    async def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """See `clients.SyncClient.wait`."""
        pop = BlockingPop((wakeup,)) if isinstance(wakeup, str) else wakeup
        try:
            return await self._pop(pop, seconds)
        except RedisError as exc:
            pop.close()
            if not recovery.is_transient(exc, self._topology):
                raise explained(exc, self.endpoint) from None
            await asyncio.sleep(max(0.0, min(seconds, recovery.pause_after_wait(exc, self._topology))))
            return None
        finally:
            if pop is not wakeup:
                pop.close()

    async def pool_for(self, key: str) -> AsyncConnectionPool:
        """See `SyncClient.pool_for`. Without a limit: the code that holds a connection may need another one."""
        try:
            return self._pool(await self._locate(key), "blocking")
        except RedisError as exc:
            self._topology.forget()
            raise explained(exc, self.endpoint) from None

    def reset_topology(self) -> None:
        """See `clients.SyncClient.reset_topology`."""
        self._topology.forget()

    async def server(self) -> ServerInfo:
        """Product and version of the server, asked once."""
        if self._server is None:
            await self.execute(Command("PING", retry=True))
        return self._server or ServerInfo("unknown", (0, 0, 0), {})

    def close(self) -> None:
        """Close all free links, and those in use when they come back; also after the loop has ended."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.close()

    async def _pop(self, pop: BlockingPop, seconds: float) -> bytes | None:
        """See `clients.SyncClient._pop`."""
        until = time.monotonic() + seconds
        link = pop.connection
        if link is None:
            pool, settings = self._pool(await self._locate(pop.keys[0]), "blocking"), self.endpoint.settings
            link = await pool.acquire()
            pop.start(pool, link, time.monotonic() + settings.socket_timeout_s)
            await link.send("BLPOP", *pop.keys, f"{block_slice(settings, math.inf):.3f}")
        reply = await link.read_within(min(until, pop.overdue_at) - time.monotonic())
        if reply is NO_REPLY:
            if time.monotonic() >= pop.overdue_at:
                raise TimeoutError(f"{self.endpoint} did not end a blocking command in time.")
            return None
        pop.finish()
        return reply[1] if reply else None

    async def _first(self, requests: Sequence[Call | Command]) -> Any:
        reply = (await self.execute_many(requests))[0]
        if isinstance(reply, RedisError):
            raise reply
        return reply

    async def _locate(self, key: Any) -> Node:
        node = self._topology.locate(key)
        if node is None:
            await self._drive(self._topology.discover())
            node = self._topology.locate(key)
        if node is None:
            raise ClusterDownError(f"No node of the cluster serves the slot of {key!r}.")
        return node

    def _pool(self, node: Node, use: str = "ordinary") -> AsyncConnectionPool:
        pool = self._pools.get((node, use))
        if pool is None:
            make = partial(self.endpoint.aconnection, node, sentinel=use == "sentinel")
            limit = None if use == "blocking" else MAX_IN_USE
            pool = AsyncConnectionPool(make, partial(self._greet, use), limit=limit)
            self._pools[node, use] = pool
        return pool

    async def _greet(self, use: str, link: AsyncConnection) -> None:
        if self._server is not None or use == "sentinel":
            return
        try:
            info = parse_info(await link.request(("INFO", "server")))
        except NoPermissionError:
            info = ServerInfo("unknown", (0, 0, 0), {})
        require_supported(info, str(self.endpoint))
        self._server = info

    async def _drive(self, steps: Any) -> Any:
        """Drive a recovery or a discovery to its end."""
        try:
            step = next(steps)
            while True:
                try:
                    reply = await self._step(step)
                except RedisError as exc:
                    step = steps.throw(explained(exc, self.endpoint))
                else:
                    step = steps.send(reply)
        except StopIteration as stop:
            return stop.value

    async def _step(self, step: recovery.Attempt | recovery.Pause | Ask) -> Any:
        if isinstance(step, recovery.Pause):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Ask):
            return await self._pool(step.node, "sentinel" if step.sentinel else "ordinary").request(step.wire)
        return await self._pool(step.node).request_many(step.wires)

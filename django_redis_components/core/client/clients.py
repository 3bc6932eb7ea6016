"""A client: links to the nodes of a topology, and recovery after errors.

`SyncClient` serves any number of threads. It offers what `protocol.run` needs, and a link of one's own
for those who block (`waiting`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from redis.exceptions import ClusterDownError, NoPermissionError, RedisError, TimeoutError

from django_redis_components.core.client import retry as recovery
from django_redis_components.core.client.endpoint import Endpoint, Node
from django_redis_components.core.client.links import SyncConnection, SyncConnectionPool
from django_redis_components.core.client.server import ServerInfo, block_slice, explained, parse_info, require_supported
from django_redis_components.core.client.topology import Ask, topology_of
from django_redis_components.core.protocol import BlockingPop, Call, Command


class SyncClient:
    """The synchronous door to one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._topology = topology_of(endpoint)
        self._pools: dict[tuple[Node, str], SyncConnectionPool] = {}
        self._server: ServerInfo | None = None

    def execute(self, request: Call | Command) -> Any:
        """Send one request and return its reply, with recovery as `recovery` tells.

        Raises:
            redis.exceptions.RedisError: what the server or the connection said.
            UnsupportedServer: the server is too old.
        """
        node = self._topology.locate(request.key)
        if node is None:
            return self._first([request])
        try:
            return self._pool(node).request(request.command_args(self._topology.redirects))
        except RedisError as exc:
            error = explained(exc, self.endpoint)
        return self._drive(recovery.recover(request, error, self._topology, self.endpoint.settings))

    def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]:
        """Send requests in one round trip for each node; errors stand in the list of replies.

        The server runs those of one node in order, but what had to be sent again runs after the others.
        """
        replies = self._drive(recovery.send(requests, self._topology, self.endpoint.settings))
        return [explained(reply, self.endpoint) if isinstance(reply, RedisError) else reply for reply in replies]

    def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Block on a list, or on several, for at most `seconds`, and never as long as the socket timeout.

        A lost wait is None as well: the request that follows it meets the error.
        """
        pop = BlockingPop((wakeup,)) if isinstance(wakeup, str) else wakeup
        try:
            return self._pop(pop, seconds)
        except RedisError as exc:
            pop.close()
            if not recovery.is_transient(exc, self._topology):
                raise explained(exc, self.endpoint) from None
            time.sleep(max(0.0, min(seconds, recovery.pause_after_wait(exc, self._topology))))
            return None
        finally:
            if pop is not wakeup:
                pop.close()

    def open_connection(self, key: str) -> SyncConnection:
        """A new link to the node of `key`, which belongs to the caller. It knows no recovery: see `reset_topology`."""
        try:
            return self._pool(self._locate(key), "blocking").open()
        except RedisError as exc:
            self._topology.forget()
            raise explained(exc, self.endpoint) from None

    def pool_for(self, key: str) -> SyncConnectionPool:
        """Where to take a link to the node of `key`, for who needs several requests on one, and to give it back.

        The link knows no recovery: see `reset_topology`.
        """
        try:
            return self._pool(self._locate(key), "blocking")
        except RedisError as exc:
            self._topology.forget()
            raise explained(exc, self.endpoint) from None

    def key_per_primary(self) -> list[str]:
        """For each primary a key that would stand on it, so that what has no key of its own can be sent to each."""
        if self._topology.locate("0") is None:
            self._drive(self._topology.discover())
        return self._topology.key_per_primary()

    def reset_topology(self) -> None:
        """Have the nodes looked for again: a link of one's own has met an error."""
        self._topology.forget()

    def server(self) -> ServerInfo:
        """Product and version of the server, asked once."""
        if self._server is None:
            self.execute(Command("PING", retry=True))
        return self._server or ServerInfo("unknown", (0, 0, 0), {})

    def close(self) -> None:
        """Close all free links, and those in use when they come back. The next request opens new ones."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.close()

    def abandon(self) -> None:
        """Forget all links without touching what the parent process does on them: called in a fork's child."""
        self._pools = {}

    def _pop(self, pop: BlockingPop, seconds: float) -> bytes | None:
        """The element popped within this time; the command stays outstanding without one."""
        until = time.monotonic() + seconds
        link = pop.connection
        if link is None:
            pool, settings = self._pool(self._locate(pop.keys[0]), "blocking"), self.endpoint.settings
            link = pool.acquire()
            pop.start(pool, link, time.monotonic() + settings.socket_timeout_s)
            link.send("BLPOP", *pop.keys, f"{block_slice(settings, math.inf):.3f}")
        if not link.readable(max(0.0, min(until, pop.overdue_at) - time.monotonic())):
            if time.monotonic() >= pop.overdue_at:
                raise TimeoutError(f"{self.endpoint} did not end a blocking command in time.")
            return None
        reply = link.read()
        pop.finish()
        return reply[1] if reply else None

    def _first(self, requests: Sequence[Call | Command]) -> Any:
        reply = self.execute_many(requests)[0]
        if isinstance(reply, RedisError):
            raise reply
        return reply

    def _locate(self, key: Any) -> Node:
        node = self._topology.locate(key)
        if node is None:
            self._drive(self._topology.discover())
            node = self._topology.locate(key)
        if node is None:
            raise ClusterDownError(f"No node of the cluster serves the slot of {key!r}.")
        return node

    def _pool(self, node: Node, use: str = "ordinary") -> SyncConnectionPool:
        pool = self._pools.get((node, use))
        if pool is None:
            make = partial(self.endpoint.connection, node, sentinel=use == "sentinel")
            pool = self._pools.setdefault((node, use), SyncConnectionPool(make, partial(self._greet, use)))
        return pool

    def _greet(self, use: str, link: SyncConnection) -> None:
        if self._server is not None or use == "sentinel":
            return
        try:
            info = parse_info(link.request(("INFO", "server")))
        except NoPermissionError:
            info = ServerInfo("unknown", (0, 0, 0), {})
        require_supported(info, str(self.endpoint))
        self._server = info

    def _drive(self, steps: Any) -> Any:
        """Drive a recovery or a discovery to its end."""
        try:
            step = next(steps)
            while True:
                try:
                    reply = self._step(step)
                except RedisError as exc:
                    step = steps.throw(explained(exc, self.endpoint))
                else:
                    step = steps.send(reply)
        except StopIteration as stop:
            return stop.value

    def _step(self, step: recovery.Attempt | recovery.Pause | Ask) -> Any:
        if isinstance(step, recovery.Pause):
            return time.sleep(step.seconds)
        if isinstance(step, Ask):
            return self._pool(step.node, "sentinel" if step.sentinel else "ordinary").request(step.wire)
        return self._pool(step.node).request_many(step.wires)

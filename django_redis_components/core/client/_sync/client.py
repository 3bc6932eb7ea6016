# Generated from _async/client.py by tools/generate_sync.py. Do not edit: change the async module and run `make sync`.
"""A client: connection pools for the nodes of a topology, and retries after errors.

The sync client serves any number of threads, the async client the tasks of one event loop.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from redis.exceptions import ClusterDownError, RedisError, ResponseError, TimeoutError

from django_redis_components.core.client import retry
from django_redis_components.core.client._sync.pool import SyncConnectionPool
from django_redis_components.core.client.endpoint import Endpoint, Node
from django_redis_components.core.client.exceptions import OutOfTime
from django_redis_components.core.client.server import (
    ServerInfo,
    blocking_timeout_s,
    explain_error,
    is_refused,
    parse_info,
    require_supported,
)
from django_redis_components.core.client.shared_connections import sync_request_pool
from django_redis_components.core.client.topology import NodeQuery, topology_of
from django_redis_components.core.client.transport import NO_REPLY, SyncConnection
from django_redis_components.core.protocol import BlockingPop, Call, Command

#: Requests with separate connections that an event loop sends to one node at the same time; further ones wait.
#: Threads are few, tasks may be thousands, and the server's `maxclients` is 10,000 for all its clients.
MAX_REQUESTS = 64
#: How long they wait if the client has a circuit breaker, in timeouts of a reply.
MAX_WAIT_TIMEOUTS = 3


class SyncClient:
    """The client of one endpoint. It offers what `protocol` needs to drive a flow.

    Attributes:
        is_cluster: whether slots may move to other nodes.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._topology = topology_of(endpoint)
        self.is_cluster = self._topology.redirects
        self._pools: dict[tuple[Node, str], SyncConnectionPool] = {}
        self._server: ServerInfo | None = None

    def execute(self, request: Call | Command) -> Any:
        """Send one request and return its reply. See `retry` for what is sent again.

        Raises:
            redis.exceptions.RedisError: an error reply, or an error of the connection.
            UnsupportedServer: the server is too old.
        """
        started_at = time.monotonic()
        node = self._topology.only_node or self._topology.locate(request.key)
        if node is None:
            reply = (self.execute_many([request]))[0]
            if isinstance(reply, RedisError):
                raise reply
            return reply
        pool = self._pools.get((node, "requests")) or self._pool(node)
        try:
            return pool.request(request.command_args(self.is_cluster))
        except RedisError as exc:
            error = explain_error(exc, self.endpoint)
        limits = retry.RetryLimits(self.endpoint.settings, started_at)
        try:
            return self._run(retry.recover(request, error, self._topology, limits), limits)
        except RedisError as exc:  # of a later attempt
            raise explain_error(exc, self.endpoint) from exc.__cause__

    def execute_many(self, requests: Sequence[Call | Command]) -> list[Any]:
        """Send requests in one round trip per node and return their replies, errors among them.

        A node runs its requests in order, except those that are sent again: they run after the others.
        """
        topology, started_at = self._topology, time.monotonic()
        nodes = {topology.locate(request.key) for request in requests}
        node = nodes.pop() if len(nodes) == 1 else None
        if node is None:
            limits = retry.RetryLimits(self.endpoint.settings, started_at)
            steps = retry.send(requests, topology, limits)
        else:  # the common case: one node, no error
            try:
                commands = [request.command_args(topology.redirects) for request in requests]
                replies = self._pool(node).request_many(commands)
            except RedisError as exc:
                replies = [explain_error(exc, self.endpoint)] * len(requests)
            if not any(isinstance(reply, RedisError) for reply in replies):
                return replies
            limits = retry.RetryLimits(self.endpoint.settings, started_at)
            steps = retry.recover_many(requests, replies, topology, limits)
        replies = self._run(steps, limits)
        return [explain_error(reply, self.endpoint) if isinstance(reply, RedisError) else reply for reply in replies]

    def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Block on a list, or on several, for at most `seconds`, and never as long as the socket timeout.

        Returns:
            The popped element. None after a timeout, and after an error that may pass: the next request meets it.
        """
        pop = BlockingPop((wakeup,)) if isinstance(wakeup, str) else wakeup
        try:
            return self._pop(pop, seconds)
        except RedisError as exc:
            pop.close()
            if not retry.is_transient(exc, self._topology):
                raise explain_error(exc, self.endpoint) from None
            time.sleep(max(0.0, min(seconds, retry.delay_after_wait_s(exc, self._topology, pop.keys[0]))))
            return None
        finally:
            if pop is not wakeup:
                pop.close()

    def pool_for(self, key: str) -> SyncConnectionPool:
        """Return a pool of the key's node, for callers that need several requests on one connection.

        These connections retry nothing: after an error call `reset_topology`. Their number is not limited, because
        the code that holds one may need another.
        """
        try:
            return self._pool(self._locate(key), "blocking")
        except RedisError as exc:
            self._topology.forget(key)
            raise explain_error(exc, self.endpoint) from None

    def key_per_primary(self) -> list[str]:
        """Return one key of each primary, to send to each of them a command that has no key."""
        if not self._topology.is_complete():
            self._run(self._topology.discover(), retry.RetryLimits(self.endpoint.settings, time.monotonic()))
        return self._topology.key_per_primary()

    def reset_topology(self, key: str | None = None) -> None:
        """Look up the nodes again before the next request, after an error on a connection of `pool_for`.

        Args:
            key: of the connection; requests to other nodes are not delayed.
        """
        self._topology.forget(key)

    def server(self) -> ServerInfo:
        """Return product and version of the server, read once."""
        if self._server is None:
            self.execute(Command("PING", retry=True))
        return self._server or ServerInfo("unknown", (0, 0, 0), {})

    def close(self) -> None:
        """Close the free connections, and those in use when they are released. The next request opens new ones."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            pool.close()

    def _pop(self, pop: BlockingPop, seconds: float) -> bytes | None:
        """Return the element popped within this time. Without one the command stays outstanding."""
        until = time.monotonic() + seconds
        connection = pop.connection
        if connection is None:
            pool, settings = self._pool(self._locate(pop.keys[0]), "blocking"), self.endpoint.settings
            connection = pool.acquire()
            pop.start(pool, connection, time.monotonic() + settings.socket_timeout_s)
            connection.send("BLPOP", *pop.keys, f"{blocking_timeout_s(settings):.3f}")
        reply = connection.read_within(min(until, pop.overdue_at) - time.monotonic())
        if reply is NO_REPLY:
            if time.monotonic() >= pop.overdue_at:
                raise TimeoutError(f"{self.endpoint} did not reply to a blocking command in time.")
            return None
        pop.finish()
        return reply[1] if reply else None

    def _locate(self, key: Any) -> Node:
        node = self._topology.locate(key)
        if node is None:
            self._run(self._topology.discover(), retry.RetryLimits(self.endpoint.settings, time.monotonic()))
            node = self._topology.locate(key)
        if node is None:
            raise ClusterDownError(f"No node of the cluster serves the slot of {key!r}.")
        return node

    def _pool(self, node: Node, use: str = "requests") -> SyncConnectionPool:
        pool = self._pools.get((node, use))
        if pool is None:
            make = partial(self.endpoint.sync_connection, node, sentinel=use == "sentinel")
            is_blocking, breaker = use == "blocking", self.endpoint.breaker
            kind = sync_request_pool if use == "requests" else SyncConnectionPool
            pool = kind(
                make,
                partial(self._check_server, use),
                max_requests=None if is_blocking else MAX_REQUESTS,
                max_wait_s=None if breaker is None else MAX_WAIT_TIMEOUTS * self.endpoint.settings.socket_timeout_s,
                on_late=None if is_blocking or breaker is None else breaker.record_late,
            )
            pool = self._pools.setdefault((node, use), pool)  # threads share one, also when each has made one
        return pool

    def _check_server(self, use: str, connection: SyncConnection) -> None:
        """Read the server's version on the first connection of this client."""
        if self._server is not None or use == "sentinel":
            return
        try:
            info = parse_info(connection.request(("INFO", "server")))
        except ResponseError as exc:
            if not is_refused(exc):
                raise
            info = ServerInfo("unknown", (0, 0, 0), {})
        require_supported(info, str(self.endpoint))
        self._server = info

    def _run(self, steps: Any, limits: retry.RetryLimits) -> Any:
        """Drive the steps of a retry or of a discovery and return their value."""
        try:
            step = next(steps)
            while True:
                try:
                    reply = self._perform(step, limits)
                except RedisError as exc:
                    step = steps.throw(explain_error(exc, self.endpoint))
                else:
                    step = steps.send(reply)
        except StopIteration as stop:
            return stop.value

    def _perform(self, step: retry.SendCommands | retry.Backoff | NodeQuery, limits: retry.RetryLimits) -> Any:
        if isinstance(step, retry.Backoff):
            return time.sleep(step.seconds)
        left_s = limits.left_s()
        if left_s <= 0:
            raise OutOfTime(f"{self.endpoint} did not answer within {self.endpoint.settings.socket_timeout_s:g} s.")
        if isinstance(step, NodeQuery):
            pool = self._pool(step.node, "sentinel" if step.sentinel else "requests")
            return pool.request(step.args, left_s / 2)  # a node that hangs leaves time to ask the next one
        if step.reconnects:
            self.close()
        return self._pool(step.node).request_many(step.commands, left_s)

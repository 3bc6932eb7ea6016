"""Which node serves a key.

`discover` is a generator that yields a `NodeQuery` and receives its reply or error, so that the sync and the async
client share it. See the Redis Cluster specification (CLUSTER SLOTS, MOVED, ASK) and Sentinel's guidelines for clients.
"""

from __future__ import annotations

import bisect
import dataclasses
import math
import time
from collections.abc import Generator
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.client.endpoint import Endpoint, Node
from django_redis_components.core.client.exceptions import MALFORMED, NotConnected
from django_redis_components.core.client.slot_migration import SlotWaits, slot_of


@dataclasses.dataclass(frozen=True, slots=True)
class NodeQuery:
    """A command to a given node or Sentinel."""

    node: Node
    args: tuple[Any, ...]
    sentinel: bool = False


Discovery = Generator[NodeQuery, Any, None]
#: Keys tried to find one on each primary: enough to find a primary that serves a thousandth of the slots.
MAX_KEYS_TRIED = 20_000
#: Seconds between two attempts to reach a primary at the address of a replica, by connecting again. Less would open a
#: connection for nearly each write while a name leads to a replica.
RECONNECT_EVERY_S = 1.0


class Standalone:
    """One server."""

    #: Whether MOVED is followed, and ASK means that a slot is being moved.
    redirects = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._reconnected_at = -math.inf
        #: The node of all keys; None if it may change, or depends on the key.
        self.only_node: Node | None = endpoint.seeds[0]

    def locate(self, _: Any) -> Node | None:
        """Return the server."""
        return self.only_node

    def is_complete(self) -> bool:
        """Return that the node is known."""
        return True

    def key_per_primary(self) -> list[str]:
        """Return any key."""
        return ["0"]

    def forget(self, _: Any = None) -> None:
        """Do nothing: the node never changes."""

    def reconnects(self, started_at: float) -> bool | None:
        """Return how to repeat a request that the server has refused as a replica.

        Args:
            started_at: when the request began, by the monotonic clock.

        Returns:
            True: over new connections. False: over those that another request has opened since it began. None: not at
            all, because that is less than `RECONNECT_EVERY_S` ago.
        """
        now = time.monotonic()
        if self._reconnected_at > started_at:
            return False
        if now - self._reconnected_at < RECONNECT_EVERY_S:
            return None
        self._reconnected_at = now
        return True

    def discover(self) -> Discovery:
        """Ask nothing: the node is configured."""
        yield from ()


class Sentinel:
    """The primary that the Sentinels name. They are asked again after each lost connection."""

    #: Whether MOVED is followed, and ASK means that a slot is being moved.
    redirects = False
    only_node = None

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._sentinels = endpoint.seeds
        self._primary: Node | None = None

    def locate(self, _: Any) -> Node | None:
        """Return the primary; None before the Sentinels were asked."""
        return self._primary

    def is_complete(self) -> bool:
        """Return whether the primary is known."""
        return self._primary is not None

    def key_per_primary(self) -> list[str]:
        """Return any key."""
        return ["0"]

    def forget(self, _: Any = None) -> None:
        """Ask the Sentinels again before the next request."""
        self._primary = None

    def discover(self) -> Discovery:
        """Ask the Sentinels until one names the primary; the one that answered last time comes first."""
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._endpoint.service)
        problems = []
        for sentinel in self._sentinels:
            try:
                reply = yield NodeQuery(sentinel, command, sentinel=True)
            except RedisError as exc:
                problems.append(f"{sentinel}: {exc}")
                continue
            if reply:
                try:
                    self._primary = Node(_decoded(reply[0]), int(reply[1]))
                except MALFORMED:
                    problems.append(f"{sentinel} does not answer as a Sentinel")
                    continue
                self._sentinels = tuple(dict.fromkeys((sentinel, *self._endpoint.seeds)))
                return
            problems.append(f"{sentinel} knows no master {self._endpoint.service!r}")
        raise NotConnected(f"No Sentinel returned the master of {self._endpoint}: {'; '.join(problems)}")


class Cluster:
    """The primary of each slot, as reported by CLUSTER SLOTS."""

    #: Whether MOVED is followed, and ASK means that a slot is being moved.
    redirects = True
    only_node = None

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        #: Last slots of the ranges in order, and their primaries; None for one that has failed. One object, so that
        #: threads see both or neither.
        self._ranges: tuple[list[int], list[Node | None]] | None = None
        self._primaries: tuple[Node, ...] = ()
        #: Nodes that are asked for the slots after all others: they did not answer, or may serve nothing any more.
        self._failed: set[Node] = set()
        self.slot_waits = SlotWaits()

    def __str__(self) -> str:
        return str(self._endpoint)

    def locate(self, key: Any) -> Node | None:
        """Return the primary of the key's slot, or any without a key; None if it is unknown, or serves no more."""
        ranges = self._ranges
        if ranges is None:
            return None
        ends, nodes = ranges
        if key is None:
            return next(filter(None, nodes), None)
        index = bisect.bisect_left(ends, slot_of(key))
        return nodes[index] if index < len(nodes) else None

    def nodes(self) -> list[Node]:
        """Return the primaries."""
        return list(self._primaries)

    def is_complete(self) -> bool:
        """Return whether all primaries are known."""
        return self._ranges is not None and None not in self._ranges[1]

    def key_per_primary(self) -> list[str]:
        """Return one key of each primary that serves more than a few slots."""
        found: dict[Node, str] = {}
        for number in range(MAX_KEYS_TRIED):
            node = self.locate(str(number))
            if node is not None:
                found.setdefault(node, str(number))
            if len(found) >= len(self._primaries):
                break
        return list(found.values())

    def forget(self, key: Any = None) -> None:
        """Read the slots again before the next request.

        Args:
            key: only before the next request to the node of this key, which has failed: the others are not delayed, and
                they are asked first, because that node may hang or be cut off from them.
        """
        node, ranges = self.locate(key), self._ranges
        if key is None or node is None or ranges is None:
            self._ranges = None
            return
        self._failed.add(node)
        self._ranges = ranges[0], [None if each == node else each for each in ranges[1]]

    def discover(self) -> Discovery:
        """Read the slots from the primaries known so far, then from the seeds, until one answers."""
        problems = []
        nodes = dict.fromkeys((*self._primaries, *self._endpoint.seeds))
        for node in sorted(nodes, key=lambda node: node in self._failed):
            try:
                reply = yield NodeQuery(node, ("CLUSTER", "SLOTS"))
            except RedisError as exc:
                self._failed.add(node)
                problems.append(f"{node}: {exc}")
                continue
            try:
                ranges = sorted((int(row[1]), self._primary(row[2], node)) for row in reply)
            except MALFORMED:
                problems.append(f"{node} does not answer as a node of a Cluster")
                continue
            if ranges:
                self._failed &= nodes.keys() - {node}
                self._primaries = tuple(dict.fromkeys(primary for _, primary in ranges))
                self._ranges = [end for end, _ in ranges], [primary for _, primary in ranges]
                return
            problems.append(f"{node} knows no slots")
        raise NotConnected(f"No node of the cluster {self._endpoint} answered: {'; '.join(problems)}")

    @staticmethod
    def _primary(row: Any, asked: Node) -> Node:
        host = _decoded(row[0]) if row[0] else ""
        return Node(host if host and host != "?" else asked.host, int(row[1]))


Topology = Standalone | Sentinel | Cluster


def topology_of(endpoint: Endpoint) -> Topology:
    """Return the topology for an endpoint's kind."""
    kinds: dict[str, type[Topology]] = {"standalone": Standalone, "sentinel": Sentinel, "cluster": Cluster}
    return kinds[endpoint.kind](endpoint)


def _decoded(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)

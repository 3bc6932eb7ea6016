"""Which node holds a key, and how that is found out.

`discover` is a generator that yields `Ask(node, command)` and receives the reply or the error, so
that the synchronous and the asyncio client share it. Redis Cluster specification: CLUSTER SLOTS,
MOVED, ASK. Sentinel: the clients' guideline (ask the Sentinels for the master's address).
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Generator
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.client.endpoint import Endpoint, Node
from django_redis_components.core.client.slot_migration import SlotWaits, slot_of
from django_redis_components.core.exceptions import NotConnected


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """A question to one node on a connection of its own."""

    node: Node
    wire: tuple[Any, ...]
    sentinel: bool = False


Discovery = Generator[Ask, Any, None]
#: Most keys that are tried to find one on each master: enough for one that has a thousandth of the slots.
MAX_TRIES = 20_000


class Standalone:
    """One server."""

    #: Whether this is a Cluster: MOVED is followed, and ASK means that a slot is being moved.
    redirects = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._node = endpoint.seeds[0]

    def locate(self, _: Any) -> Node | None:
        """The server."""
        return self._node

    def key_per_primary(self) -> list[str]:
        """Any key."""
        return ["0"]

    def forget(self) -> None:
        """Nothing to forget."""

    def discover(self) -> Discovery:
        """Nothing to find out."""
        yield from ()


class Sentinel:
    """The master that the Sentinels name; asked again after each lost connection."""

    #: Whether this is a Cluster: MOVED is followed, and ASK means that a slot is being moved.
    redirects = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._sentinels = endpoint.seeds
        self._master: Node | None = None

    def locate(self, _: Any) -> Node | None:
        """The master, once known."""
        return self._master

    def key_per_primary(self) -> list[str]:
        """Any key."""
        return ["0"]

    def forget(self) -> None:
        """Have the Sentinels asked before the next request."""
        self._master = None

    def discover(self) -> Discovery:
        """Ask the Sentinels, the one that answered last first, until one names the master."""
        command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._endpoint.service)
        problems = []
        for sentinel in self._sentinels:
            try:
                reply = yield Ask(sentinel, command, sentinel=True)
            except RedisError as exc:
                problems.append(f"{sentinel}: {exc}")
                continue
            if reply:
                self._master = Node(_text(reply[0]), int(reply[1]))
                self._sentinels = tuple(dict.fromkeys((sentinel, *self._endpoint.seeds)))
                return
            problems.append(f"{sentinel} knows no master {self._endpoint.service!r}")
        raise NotConnected(f"No Sentinel named the master of {self._endpoint}: {'; '.join(problems)}")


class Cluster:
    """Slots to nodes, as CLUSTER SLOTS tells."""

    #: Whether this is a Cluster: MOVED is followed, and ASK means that a slot is being moved.
    redirects = True

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        #: Last slots of the ranges in order, and their masters: one object, so that threads see both or neither.
        self._ranges: tuple[list[int], list[Node]] | None = None
        self._masters: tuple[Node, ...] = ()
        self.slot_waits = SlotWaits()

    def __str__(self) -> str:
        return str(self._endpoint)

    def locate(self, key: Any) -> Node | None:
        """The master of the key's slot; any master without a key; None if the slots are not known, or not served."""
        ranges = self._ranges
        if ranges is None:
            return None
        ends, nodes = ranges
        if key is None:
            return nodes[0]
        at = bisect.bisect_left(ends, slot_of(key))
        return nodes[at] if at < len(nodes) else None

    def nodes(self) -> list[Node]:
        """The masters."""
        return list(self._masters)

    def key_per_primary(self) -> list[str]:
        """A key on each master that serves more than a few slots."""
        found: dict[Node, str] = {}
        for number in range(MAX_TRIES):
            node = self.locate(str(number))
            if node is not None:
                found.setdefault(node, str(number))
            if len(found) >= len(self._masters):
                break
        return list(found.values())

    def forget(self) -> None:
        """Have the slots asked for before the next request."""
        self._ranges = None

    def discover(self) -> Discovery:
        """Ask the masters known so far, then the seeds, for the slots."""
        problems = []
        for node in dict.fromkeys((*self._masters, *self._endpoint.seeds)):
            try:
                reply = yield Ask(node, ("CLUSTER", "SLOTS"))
            except RedisError as exc:
                problems.append(f"{node}: {exc}")
                continue
            ranges = sorted((int(row[1]), self._master(row[2], node)) for row in reply)
            if ranges:
                self._masters = tuple(dict.fromkeys(master for _, master in ranges))
                self._ranges = [end for end, _ in ranges], [master for _, master in ranges]
                return
            problems.append(f"{node} knows no slots")
        raise NotConnected(f"No node of the cluster {self._endpoint} answered: {'; '.join(problems)}")

    @staticmethod
    def _master(row: Any, asked: Node) -> Node:
        host = _text(row[0]) if row[0] else ""
        return Node(host if host and host != "?" else asked.host, int(row[1]))


Topology = Standalone | Sentinel | Cluster


def topology_of(endpoint: Endpoint) -> Topology:
    """The topology for an endpoint's kind."""
    kinds: dict[str, type[Topology]] = {"standalone": Standalone, "sentinel": Sentinel, "cluster": Cluster}
    return kinds[endpoint.kind](endpoint)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)

"""Moving a slot of the cluster from one master to another, step by step, as a resharding does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import redis
from redis.crc import key_slot

from tests.support import Store, eventually


@dataclass
class Move:
    """A slot on its way. ``begin`` makes the source answer ASK, ``finish`` makes it answer MOVED."""

    slot: int
    source: redis.Redis
    target: redis.Redis
    everyone: list[redis.Redis]

    def begin(self) -> None:
        if not self.is_at_home():  # gossip about an earlier move has taken it away again
            for node in (self.source, self.target, *self.everyone):
                node.execute_command("CLUSTER", "SETSLOT", self.slot, "NODE", node_id(self.source))
            self.source.execute_command("CLUSTER", "BUMPEPOCH")
        self.target.execute_command("CLUSTER", "SETSLOT", self.slot, "IMPORTING", node_id(self.source))
        self.source.execute_command("CLUSTER", "SETSLOT", self.slot, "MIGRATING", node_id(self.target))

    def carry(self, *keys: str) -> None:
        """Carry these keys over, or all that the source still has."""
        found = keys or self.source.execute_command("CLUSTER", "GETKEYSINSLOT", self.slot, 1000)
        address = self.target.connection_pool.connection_kwargs
        for name in found:
            self.source.execute_command("MIGRATE", address["host"], address["port"], name, 0, 5000)

    def finish(self) -> None:
        self.carry()
        for node in (self.target, self.source, *self.everyone):
            node.execute_command("CLUSTER", "SETSLOT", self.slot, "NODE", node_id(self.target))
        self.target.execute_command("CLUSTER", "BUMPEPOCH")  # or gossip of an equal epoch may take the slot back

    def has_begun(self) -> bool:
        return f"[{self.slot}->-" in str(self.source.execute_command("CLUSTER", "NODES"))

    def is_at_home(self) -> bool:
        return _says(self.source, self.slot, self.source)

    def back(self) -> Move:
        return Move(self.slot, self.target, self.source, self.everyone)


def node_id(node: redis.Redis) -> str:
    found = node.execute_command("CLUSTER", "MYID")
    return found.decode() if isinstance(found, bytes) else str(found)


def _owner(slot: int, nodes: list[redis.Redis]) -> redis.Redis | None:
    """The node that says that the slot is its own."""
    return next((node for node in nodes if _says(node, slot, node)), None)


def _settled_owner(slot: int, nodes: list[redis.Redis]) -> redis.Redis:
    """The owner, once the nodes agree after earlier moves; if they do not, the first node is made the owner."""
    try:
        return eventually(lambda: _owner(slot, nodes), 10) or nodes[0]
    except AssertionError:
        for node in nodes:
            node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", node_id(nodes[0]))
        nodes[0].execute_command("CLUSTER", "BUMPEPOCH")
        return nodes[0]


def _says(node: redis.Redis, slot: int, owner: redis.Redis) -> bool:
    """Whether the node holds the other for the slot's owner."""
    port = owner.connection_pool.connection_kwargs["port"]
    rows = node.execute_command("CLUSTER", "SLOTS")
    return any(first <= slot <= last and master[1] == port for first, last, master, *_ in rows)


@contextlib.contextmanager
def moving(store: Store, key: str) -> Iterator[Move]:
    """The move of a key's slot to another master; afterwards the slot is back, whatever happened."""
    slot = key_slot(key.encode())
    nodes = [redis.Redis(host="127.0.0.1", port=server.port) for server in store.servers]
    source = _settled_owner(slot, nodes)
    target = next(node for node in nodes if node is not source)
    move = Move(slot, source, target, [node for node in nodes if node not in (source, target)])
    try:
        yield move
    finally:
        for each in (move, move.back()):
            if each.has_begun():
                each.finish()  # a move that has begun cannot be undone half-way
        if not move.is_at_home():
            move.back().begin()
            move.back().finish()
        eventually(lambda: all(_says(node, slot, source) for node in nodes), 15)
        for node in nodes:
            node.close()

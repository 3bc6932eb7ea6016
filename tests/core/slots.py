"""Moving a slot of the cluster from one master to another in steps, as resharding does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import redis
from redis.crc import key_slot

from tests.support import Store, eventually


@dataclass
class Move:
    """A slot that is being moved. ``begin`` makes the source answer ASK, ``finish`` makes it answer MOVED.

    Only source and target get the command; the other nodes learn of the move over the cluster bus. A node that gets the
    command before the new owner's epoch would accept a late message of the old owner and pass it on: such nodes never
    agree again.
    """

    slot: int
    source: redis.Redis
    target: redis.Redis
    everyone: list[redis.Redis]

    def begin(self) -> None:
        self.target.execute_command("CLUSTER", "SETSLOT", self.slot, "IMPORTING", node_id(self.source))
        self.source.execute_command("CLUSTER", "SETSLOT", self.slot, "MIGRATING", node_id(self.target))

    def carry(self, *keys: str) -> None:
        """Carry these keys over, or all that the source still has."""
        found = keys or self.source.execute_command("CLUSTER", "GETKEYSINSLOT", self.slot, 1000)
        address = self.target.connection_pool.connection_kwargs
        for name in found:
            self.source.execute_command("MIGRATE", address["host"], address["port"], name, 0, 5000)

    def carry_in_batches(self, size: int = 10) -> None:
        """Carry all keys over, some at a time, as ``redis-cli --cluster reshard`` does."""
        address = self.target.connection_pool.connection_kwargs
        command = ("MIGRATE", address["host"], address["port"], "", 0, 5000, "KEYS")
        while found := self.source.execute_command("CLUSTER", "GETKEYSINSLOT", self.slot, size):
            self.source.execute_command(*command, *found)

    def finish(self) -> None:
        """All know the new owner when this returns."""
        self.carry()
        for node in (self.target, self.source):
            node.execute_command("CLUSTER", "SETSLOT", self.slot, "NODE", node_id(self.target))
        eventually(lambda: agree(self.everyone))

    def has_begun(self) -> bool:
        return f"[{self.slot}->-" in _nodes(self.source)

    def is_at_home(self) -> bool:
        return _serves(self.source, self.slot)

    def back(self) -> Move:
        return Move(self.slot, self.target, self.source, self.everyone)


def node_id(node: redis.Redis) -> str:
    found = node.execute_command("CLUSTER", "MYID")
    return found.decode() if isinstance(found, bytes) else str(found)


def agree(nodes: list[redis.Redis]) -> bool:
    """Return whether all nodes have the same owners of slots with the same, distinct epochs.

    A node takes the epoch after the highest that it has received. Before all agree, another node may have the same.
    """
    views = [_view(node) for node in nodes]
    epochs = [epoch for epoch, _ in views[0][1].values()]
    return all(view == views[0] for view in views) and len(set(epochs)) == len(epochs)


def _view(node: redis.Redis) -> tuple[int, dict[str, tuple[int, list[str]]]]:
    """Return the highest epoch that a node knows; of each node its epoch and its slots."""
    info = node.execute_command("CLUSTER INFO")
    rows = [line.split() for line in _nodes(node).splitlines()]
    return int(info["cluster_current_epoch"]), {row[0]: (int(row[6]), row[8:]) for row in rows}


def _nodes(node: redis.Redis) -> str:
    found = node.execute_command("CLUSTER", "NODES")
    return found.decode() if isinstance(found, bytes) else str(found)


def _serves(node: redis.Redis, slot: int) -> bool:
    """Return whether the node reports that it owns the slot."""
    port = node.connection_pool.connection_kwargs["port"]
    rows = node.execute_command("CLUSTER", "SLOTS")
    return any(first <= slot <= last and master[1] == port for first, last, master, *_ in rows)


@contextlib.contextmanager
def moving(store: Store, key: str) -> Iterator[Move]:
    """The move of a key's slot to another master; afterwards the slot is back, whatever happened."""
    slot = key_slot(key.encode())
    nodes = [redis.Redis(host="127.0.0.1", port=server.port) for server in store.servers]
    eventually(lambda: agree(nodes))
    source = next(node for node in nodes if _serves(node, slot))
    target = next(node for node in nodes if node is not source)
    move = Move(slot, source, target, nodes)
    try:
        yield move
    finally:
        for each in (move, move.back()):
            if each.has_begun():  # a move that has begun cannot be undone half-way
                each.begin()
                each.finish()
        if not move.is_at_home():
            move.back().begin()
            move.back().finish()
        for node in nodes:
            node.close()

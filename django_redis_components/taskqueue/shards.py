"""`Shard`: where data of the queue lives, as a connection and a hash tag.

Everything that is atomic (order, limits, unique keys, flows, leases, counters, pauses) is so within one shard, and no
script ever spans two. A site has one shard for each connection: its home shard, with the hash tag ``{default}``.
"""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable
from django_redis_components.taskqueue.fields import Key

T = TypeVar("T")

#: Name of the home shard.
HOME = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """A connection and a hash tag.

    Attributes:
        name: the hash tag.
        alias: of the connection.
        base: common prefix of all its keys; KEYS[1] of the queue's scripts.
    """

    name: str
    alias: str
    base: str

    def key(self, kind: str, *names: str) -> str:
        """Return the key of this kind (`Key`), of the shard as a whole or of what the names state."""
        return ":".join([self.base, kind, *map(str, names)])

    def record(self, task_id: str) -> str:
        """Return the key of a task's record. An id with lone surrogates, which no task has, is escaped."""
        return encodable(f"{self.base}:{Key.task}:{task_id}")

    def flow(self, flow_id: str) -> str:
        """Return the key of a flow; see `record`."""
        return encodable(self.key(Key.flow, flow_id))

    def queue(self, name: str, part: str) -> str:
        """Return the key of a queue's part, such as `Part.ready`."""
        return self.key(Key.queue, name, part)

    def wakeup(self, name: str) -> str:
        """Return the wakeup key of this name: "q:<queue>", "s:<supervisor>" or "poller"."""
        return self.key(Key.wakeup, name)

    def client(self) -> connections.SyncClient:
        """Return the client of its connection."""
        return connections.client(self.alias)

    def run(self, flow: Flow[T]) -> T:
        """Run a flow over its connection."""
        return run(connections.client(self.alias), flow)

    async def arun(self, flow: Flow[T]) -> T:
        """See `run`."""
        return await arun(connections.aclient(self.alias), flow)


#: The home shards by alias.
_homes: dict[str, Shard] = {}
conf.on_change(_homes.clear)


def home(using: str = "default") -> Shard:
    """Return the home shard of a connection.

    Args:
        using: alias of the connection. It is not checked before the shard is used.
    """
    shard = _homes.get(using)
    if shard is None:
        shard = _homes[using] = Shard(HOME, using, keys.key("taskqueue", HOME))
    return shard

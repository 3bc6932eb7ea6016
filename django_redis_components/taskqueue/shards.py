"""`Shard`: where data of the queue lives, as a connection and a hash tag.

Everything that is atomic (order, limits, unique keys, flows, leases, counters, pauses) is so within one shard, and no
script ever spans two. The site's queue has the shards of ``TASKQUEUE["SHARDS"]``: by default one, with the hash tag
``{default}``. Each other connection has one. New tasks go to the shard of their queue (`place`), workers serve all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TypeVar

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable
from django_redis_components.taskqueue.fields import Key

T = TypeVar("T")

#: Name of the only shard of a connection.
HOME = "default"
#: The shards of a site that sets none.
ONE = {HOME: HOME}
#: Alias that tasks of the site's queue name: that with the shards of the settings.
SITE = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """A connection and a hash tag.

    Attributes:
        name: the hash tag.
        alias: of the connection.
        base: common prefix of all its keys; KEYS[1] of the queue's scripts.
        using: alias that tasks name to be enqueued here: ``default`` for all shards of the site's queue.
    """

    name: str
    alias: str
    base: str
    using: str

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


#: The shards by alias, as tasks name it, the home shard first.
_shards: dict[str, tuple[Shard, ...]] = {}
#: The home shards, and those of connections with one shard only.
_homes: dict[str, Shard] = {}
_single: dict[str, Shard] = {}
for _each in (_shards, _homes, _single):
    conf.on_change(_each.clear)


def shards_of(using: str = "default") -> tuple[Shard, ...]:
    """Return the shards of a connection, the home shard first.

    Args:
        using: alias of the connection. It is not checked before the shard is used.

    Raises:
        ConfigurationError: the settings of the shards contradict each other.
    """
    found = _shards.get(using)
    if found is None:
        names: Mapping[str, str] = {HOME: using}
        if using == SITE:
            names = conf.settings().taskqueue.shards or ONE
            for problem in problems():
                raise ConfigurationError(problem)
        found = _shards[using] = tuple(
            Shard(name, alias, keys.key("taskqueue", name), using) for name, alias in names.items()
        )
    return found


def home(using: str = "default") -> Shard:
    """Return the home shard of a connection; see `shards_of`."""
    shard = _homes.get(using)
    if shard is None:
        shard = _homes[using] = shards_of(using)[0]
    return shard


def place(queue: str, using: str = "default") -> Shard:
    """Return the shard that new tasks of a queue go to."""
    shard = _single.get(using)
    return _route(queue, using) if shard is None else shard


def named(name: str, using: str = "default") -> Shard:
    """Return a shard by its name.

    Raises:
        ValueError: there is none with this name.
    """
    found = shards_of(using)
    for shard in found:
        if shard.name == name:
            return shard
    raise ValueError(f"Shard {name!r} does not exist. Shards: {', '.join(each.name for each in found)}.")


def slot_of(shard: Shard) -> str:
    """Return what the names of a worker's threads end with in this shard, and so the tokens of its leases."""
    return "" if shard == home(shard.using) else f"@{shard.name}"


def shard_of_token(token: str, using: str) -> Shard:
    """Return the shard of a lease by its token, "<worker>/<thread>@<shard>/<request>"."""
    found = shards_of(using)
    if len(found) == 1:
        return found[0]
    name = token.rpartition("/")[0].rpartition("/")[2].rpartition("@")[2]
    return next((shard for shard in found[1:] if shard.name == name), found[0])


def problems() -> Iterator[str]:
    """Yield what is wrong with the shards and the routes of the settings."""
    settings = conf.settings()
    names, aliases = settings.taskqueue.shards or ONE, settings.connections
    for name, alias in names.items():
        if alias not in aliases and names is not ONE:
            known = ", ".join(aliases)
            yield (
                f'REDIS_COMPONENTS["TASKQUEUE"]["SHARDS"]["{name}"] = {alias!r}: expected an alias in'
                f' REDIS_COMPONENTS["CONNECTIONS"], which has {known}.'
            )
    for queue, route in (settings.taskqueue.queues or {}).items():
        if route is not None and route not in names:
            yield (
                f'REDIS_COMPONENTS["TASKQUEUE"]["QUEUES"]["{queue}"] = {route!r}: expected None or a shard of'
                f' TASKQUEUE["SHARDS"], which has {", ".join(names)}.'
            )


def _route(queue: str, using: str) -> Shard:
    found = shards_of(using)
    if len(found) == 1:
        _single[using] = found[0]
        return found[0]
    name = (conf.settings().taskqueue.queues or {}).get(queue)
    return found[0] if name is None else named(name, using)

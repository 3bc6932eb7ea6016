"""`Shard`: where data of the queue lives, as a connection and a hash tag.

Everything that is atomic (order, limits, unique keys, flows, leases, counters, pauses) is so within one shard, and no
script ever spans two. The site's queue has the shards of ``TASKQUEUE["SHARDS"]``: by default one, with the hash tag
``{default}``. Each other connection has one. New tasks go to the shard of their queue, or, if the queue is spread over
several, to that of their placement key (`place`); workers serve all.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from django_redis_components.core import keys
from django_redis_components.core.arguments import is_text, short_repr
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.settings import conf
from django_redis_components.core.settings.sections import Route
from django_redis_components.core.text import encodable
from django_redis_components.taskqueue.fields import Key

T = TypeVar("T")

#: Name of the only shard of a connection.
HOME = "default"
#: The shards of a site that sets none.
ONE = {HOME: HOME}
#: Most routes that are kept.
MAX_ROUTES = 10_000
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
#: The home shards.
_homes: dict[str, Shard] = {}
#: The shard as the route of each queue, of connections with one only; and the routes of queues, by alias and queue.
_single: dict[str, tuple[Shard]] = {}
_routes: dict[tuple[str, str], tuple[Shard, ...]] = {}
#: Numbers of shards, for rendezvous hashing, by name.
_salts: dict[str, int] = {}
#: Which of the shards of its route the next task without a placement key goes to. Processes start at different ones.
_turns = itertools.count(random.randrange(64))
_MASK = 2**64 - 1
for _each in (_shards, _homes, _single, _routes):
    conf.on_change(_each.clear)


def shards_of(using: str = "default") -> tuple[Shard, ...]:
    """Return the shards of a connection, the home shard first.

    Args:
        using: alias of the connection. Whether there is such a connection is not checked before the shard is used.

    Raises:
        TypeError: it is not a string.
        ConfigurationError: the settings of the shards contradict each other.
    """
    try:
        found = _shards.get(using)
    except TypeError:  # it has no hash
        found = None
    if found is None:
        if not is_text(using):
            raise TypeError(f"using={short_repr(using)}: expected the name of a connection.")
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


def route_of(queue: str, using: str = "default") -> tuple[Shard, ...]:
    """Return the shards that new tasks of a queue go to: one, or several if it is spread."""
    return _single.get(using) or _routes.get((using, queue)) or _route(queue, using)


def place(route: Sequence[Shard], key: str = "") -> Shard:
    """Return the shard of a route that a task goes to.

    The shard of a key is found by rendezvous hashing: of another list of shards, it is another one only for the keys of
    a shard that was removed, and for those that a new shard gets. Each version of the package must place each key as
    the others do.

    Args:
        key: the placement key of the task; "": it has none, and goes to each in turn.
    """
    if len(route) == 1:
        return route[0]
    if not key:
        return route[next(_turns) % len(route)]
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    number = int.from_bytes(digest)
    return max(route, key=lambda shard: _weight(number, shard.name))


def _weight(number: int, name: str) -> int:
    """Return the weight of a shard for a key: as good as random, by the last steps of splitmix64."""
    salt = _salts.get(name)
    if salt is None:
        salt = _salts[name] = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
    mixed = number ^ salt
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
    return mixed ^ mixed >> 31


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


def thread_suffix(shard: Shard) -> str:
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
        for name in _names_in(route):
            if name not in names:
                yield (
                    f'REDIS_COMPONENTS["TASKQUEUE"]["QUEUES"]["{queue}"] = {name!r}: expected None or a shard of'
                    f' TASKQUEUE["SHARDS"], which has {", ".join(names)}.'
                )


def _names_in(route: Route) -> tuple[str, ...]:
    """Return the names of the shards in a route of the settings; none for the home shard."""
    return (route,) if isinstance(route, str) else route or ()


def _route(queue: str, using: str) -> tuple[Shard, ...]:
    found = shards_of(using)
    if len(found) == 1:
        _single[using] = found[:1]
        return found
    names = _names_in((conf.settings().taskqueue.queues or {}).get(queue)) if using == SITE else ()
    route = tuple(named(name, using) for name in names) or found[:1]
    if len(_routes) < MAX_ROUTES:  # names of queues may be free
        _routes[using, queue] = route
    return route

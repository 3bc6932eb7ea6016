"""Changed pools that are kept for worker processes that start later, by host and command line. Flows; may be repeated.

They are in the home shard: a worker process reads three values at its start, and nothing afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import quote, unquote

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Command, Flow, Read
from django_redis_components.core.text import encodable
from django_redis_components.core.units import moment_of_ms
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.pool import POOL_VALUES, PoolChange
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.scripts import KEEP_POOL
from django_redis_components.taskqueue.store.workers import author_text

#: In place of a host: the processes of all hosts with a command line.
ALL_HOSTS = "*"


@dataclasses.dataclass(frozen=True, slots=True)
class KeptValue:
    """A value that processes take at their start.

    Attributes:
        host: of the processes; `ALL_HOSTS` for all.
        command_line: of the processes, see `Pool.command_line`.
        name: of the value, one of `POOL_VALUES`.
    """

    host: str
    command_line: str
    name: str
    change: PoolChange


def keep_pool(shard: Shard, scopes: Iterable[tuple[str, str]], change: Mapping[str, str], author: str) -> Flow[bool]:
    """Keep a change for processes that start later; return False if too many are kept.

    Args:
        scopes: hosts, or `ALL_HOSTS`, with command lines.
        change: see `check_change`.
    """
    values = [
        part
        for host, command_line in scopes
        for name, value in change.items()
        for part in (_field(host, command_line, name), quote(value))
    ]
    return bool((yield KEEP_POOL(base=shard.base, author=author_text(author), values=values)))


def read_kept(shard: Shard, host: str, command_line: str) -> Flow[dict[str, PoolChange]]:
    """Read what a process takes at its start, by the name of the value: that of its host or of all, the newer one."""
    scopes = [(scope, name) for scope in (host, ALL_HOSTS) for name in POOL_VALUES]
    fields = [_field(scope, command_line, name) for scope, name in scopes]
    values = yield Read("HMGET", shard.key(Key.kept_pools), *fields)
    found: dict[str, PoolChange] = {}
    for (_, name), value in zip(scopes, values, strict=True):
        change = _parse(value) if value else None
        if change is not None and (name not in found or change.at > found[name].at):
            found[name] = change
    return found


def list_kept(shard: Shard) -> Flow[list[KeptValue]]:
    """Read all that is kept, by host."""
    stored = yield Read("HGETALL", shard.key(Key.kept_pools))
    pairs = stored.items() if isinstance(stored, dict) else pairs_of(stored)
    found = []
    for field, value in pairs:
        host, _, rest = field.decode(errors="replace").partition("\n")
        command_line, _, name = rest.partition("\n")
        change = _parse(value)
        if change is not None and name in POOL_VALUES:
            found.append(KeptValue(host, command_line, name, change))
    return sorted(found, key=lambda each: (each.host, each.command_line, POOL_VALUES.index(each.name)))


def forget_kept(shard: Shard, values: Collection[KeptValue]) -> Flow[int]:
    """Forget values that are kept; return how many were."""
    if not values:
        return 0
    fields = [_field(each.host, each.command_line, each.name) for each in values]
    removed: int = yield Command("HDEL", shard.key(Key.kept_pools), *fields, retry=True)
    return removed


def _field(host: str, command_line: str, name: str) -> str:
    return encodable(f"{host}\n{command_line}\n{name}")


def _parse(value: bytes) -> PoolChange | None:
    """Return a stored value; None if another client has written it."""
    try:
        at_ms, word, author = value.decode(errors="replace").split(" ", 2)
        return PoolChange(unquote(word), author, moment_of_ms(at_ms), is_kept=True)
    except (ValueError, OverflowError, OSError):
        return None

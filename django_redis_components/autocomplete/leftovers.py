"""Keys of indexes that nothing registers: of a removed index, of its scopes, or of an older version."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django_redis_components.autocomplete.index import VERSION
from django_redis_components.autocomplete.registry import registered
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Command, Flow, Read, run
from django_redis_components.core.settings import conf

#: Keys that one SCAN looks at, and that one round trip deletes.
COUNT = 1_000

#: Keys of an index, by its name: all but recent choices, which belong to users and expire.
Leftovers = dict[str, list[str]]

_VERSIONED = re.compile(r"v[0-9.]+")
_OTHERS = frozenset({"scopes", "all_scopes", "check"})


def find_leftovers(using: str = "default") -> Leftovers:
    """Return the keys that belong to no registered index, by the name of theirs.

    It looks at all keys of the server, a thousand at a time. An index that is used without being registered is among
    them: `PrefixIndex` needs no registration.
    """
    client, found = connections.client(using), Leftovers()
    for anchor in client.key_per_primary():
        run(client, _find(anchor, found))
    return found


def delete_leftovers(keys: Sequence[str], using: str = "default") -> None:
    """Delete keys."""
    client = connections.client(using)
    for start in range(0, len(keys), COUNT):
        run(client, _delete(keys[start : start + COUNT]))


def _find(anchor: str, leftovers: Leftovers) -> Flow[None]:
    start = f"{conf.settings().prefix}:autocomplete:{{"
    pattern = re.sub(r"([\\*?\[\]])", r"\\\1", start) + "*"
    cursor = 0
    while True:
        reply = yield Read("SCAN", cursor, "MATCH", pattern, "COUNT", COUNT, key=anchor)
        cursor = int(reply[0])
        for key in (key.decode(errors="replace") for key in reply[1]):
            name, _, part = key.removeprefix(start).partition("}:")
            if _is_leftover(name, part):
                leftovers.setdefault(name, []).append(key)
        if not cursor:
            return


def _is_leftover(name: str, part: str) -> bool:
    version = part.partition(":")[0]
    if version not in _OTHERS and not _VERSIONED.fullmatch(version):
        return False
    is_registered = any(
        name == one.name or (one.scoped and name.startswith(f"{one.name}:")) for one in registered()
    )  # on any connection: two may lead to one server
    return not is_registered or version not in (VERSION, *_OTHERS)


def _delete(keys: Sequence[str]) -> Flow[None]:
    yield Batch([Command("UNLINK", key, retry=True) for key in keys])

"""Keys of indexes that nothing registers: of a removed index, of its scopes, or of an older version."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from django_redis_components.autocomplete.index import VERSION
from django_redis_components.autocomplete.registry import registered
from django_redis_components.core.chunks import chunks
from django_redis_components.core.client import connections
from django_redis_components.core.key_scan import escape_glob, scan_keys
from django_redis_components.core.protocol import Batch, Command, Flow, run
from django_redis_components.core.settings import conf

#: Keys that one round trip deletes.
COUNT = 1_000

#: Keys of an index, by its name: all but recent choices, which belong to users and expire.
Leftovers = dict[str, list[bytes]]

_VERSIONED = re.compile(r"v[0-9.]+")
_OTHERS = frozenset({"scopes", "all_scopes", "check"})


def find_leftovers(using: str, progress: Callable[[int], object]) -> Leftovers:
    """Return the keys that belong to no registered index, by the name of theirs.

    It looks at all keys of the server. An index that is used without being registered is among them: `PrefixIndex`
    needs no registration.

    Args:
        progress: called with the number of keys that a step has looked at, about.
    """
    start, found = f"{conf.settings().prefix}:autocomplete:{{", Leftovers()
    for keys in scan_keys(connections.client(using), f"{escape_glob(start)}*", progress):
        for key in keys:
            name, _, part = key.decode(errors="backslashreplace").removeprefix(start).partition("}:")
            if _is_leftover(name, part):
                found.setdefault(name, []).append(key)
    return found


def delete_keys(keys: Sequence[bytes], using: str) -> None:
    """Delete keys, a thousand in one round trip."""
    client = connections.client(using)
    for some in chunks(keys, COUNT):
        run(client, _delete(some))


def _is_leftover(name: str, part: str) -> bool:
    version = part.partition(":")[0]
    if version not in _OTHERS and not _VERSIONED.fullmatch(version):
        return False
    is_registered = any(
        name == one.name or (one.scoped and name.startswith(f"{one.name}:")) for one in registered()
    )  # on any connection: two may lead to one server
    return not is_registered or version not in (VERSION, *_OTHERS)


def _delete(keys: Sequence[bytes]) -> Flow[None]:
    yield Batch([Command("UNLINK", key, retry=True) for key in keys])

"""Indexes of search and autocomplete that a former release has stored, and that this one does not read.

The keys of an index have the version of its terms. After an update that changes it, an index is empty until it is
rebuilt, and the keys of the former version stay until they are deleted.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator

from django_redis_components.autocomplete.index import VERSION as AUTOCOMPLETE_VERSION
from django_redis_components.autocomplete.leftovers import delete_keys
from django_redis_components.autocomplete.model_index import ModelIndex
from django_redis_components.autocomplete.registry import registered as registered_indexes
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.command_line import command_line
from django_redis_components.core.key_scan import escape_glob, scan_keys
from django_redis_components.core.settings import conf
from django_redis_components.search.index import VERSION as SEARCH_VERSION
from django_redis_components.search.index import version_of
from django_redis_components.search.model_search import registered as registered_searches

_KEY = re.compile(r"(autocomplete|search):\{([^}]*)\}:(v[0-9]+(?:\.[0-9]+)*)(-\w+)?:.*", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class FormerIndex:
    """An index in a version that this release does not read.

    Attributes:
        component: "autocomplete" or "search".
        name: of the index; of one with scopes, that of all its scopes.
        stored, reads: the version, and the one that this release reads.
        rebuild: the command that fills the index in this version, or the method.
    """

    component: str
    name: str
    stored: str
    reads: str
    rebuild: str


@dataclasses.dataclass(frozen=True, slots=True)
class KeyCounts:
    """How many keys an index has.

    Attributes:
        former: in the former version.
        new: in the version that this release reads; 0 if it was not rebuilt and nothing was written since.
    """

    former: int
    new: int


def count_former(client: SyncClient, progress: Callable[[int], object]) -> dict[FormerIndex, KeyCounts]:
    """Return the indexes of former versions, each with its keys. It looks at all keys of the server.

    Args:
        progress: called with the number of keys that a step has looked at, about.
    """
    former: Counter[FormerIndex] = Counter()
    new: Counter[tuple[str, str]] = Counter()
    for found in _keys_of_indexes(client, progress):
        former.update(index for index, is_former, _ in found if is_former)
        new.update((index.component, index.name) for index, _, _ in found if index.stored == index.reads)
    return {each: KeyCounts(former[each], new[each.component, each.name]) for each in sorted(former)}


def delete_former(client: SyncClient, using: str, progress: Callable[[int], object]) -> int:
    """Delete them, and return the number of keys. See `count_former`."""
    deleted = 0
    for found in _keys_of_indexes(client, progress):
        former = [key for _, is_former, key in found if is_former]
        delete_keys(former, using)
        deleted += len(former)
    return deleted


class RegisteredVersions:
    """The indexes that are registered on any connection, because two may lead to one server."""

    def __init__(self) -> None:
        self._start = f"{conf.settings().prefix}:"
        self._searches = {each.name: version_of(each.index) for each in registered_searches()}
        self._indexes = {each.name: each for each in registered_indexes()}

    def former(self, key: str) -> FormerIndex | None:
        """Return the index of a key; None if this release or a newer one reads it, or if it is no key of an index."""
        index, is_former = self.index_of(key)
        return index if is_former else None

    def index_of(self, key: str) -> tuple[FormerIndex | None, bool]:
        """Return the index of a key, if it is the key of one, and whether its version is a former one."""
        found = _KEY.fullmatch(key.removeprefix(self._start))
        return self._index(found[1], found[2], found[3], found[4] or "") if found else (None, False)

    def _index(self, component: str, name: str, version: str, stemmer: str) -> tuple[FormerIndex, bool]:
        stored = version + stemmer
        if component == "search":
            reads = self._searches.get(name)
            is_former = _number(version) < _number(SEARCH_VERSION) or (
                version == SEARCH_VERSION and reads not in (None, stored)
            )
            rebuild = command_line("rebuild_search", arguments=[name]) if reads else f"SearchIndex({name!r}).rebuild(…)"
            reads = reads or SEARCH_VERSION + stemmer
        else:
            reads, is_former = AUTOCOMPLETE_VERSION, _number(version) < _number(AUTOCOMPLETE_VERSION)
            indexes = self._indexes.items()
            name = next((one for one, index in indexes if index.scoped and name.startswith(f"{one}:")), name)
            is_of_model = isinstance(self._indexes.get(name), ModelIndex)
            command = command_line("rebuild_autocomplete", arguments=[name])
            rebuild = command if is_of_model else f"PrefixIndex({name!r}).rebuild(…)"
        return FormerIndex(component, name, stored, reads, rebuild), is_former


def _keys_of_indexes(
    client: SyncClient, progress: Callable[[int], object]
) -> Iterator[list[tuple[FormerIndex, bool, bytes]]]:
    """Yield the keys of indexes after each step of a scan: the index, whether its version is a former one, the key."""
    names, pattern = RegisteredVersions(), f"{escape_glob(conf.settings().prefix)}:[as]*:{{*}}:v*"
    for keys in scan_keys(client, pattern, progress):
        found = ((*names.index_of(key.decode(errors="backslashreplace")), key) for key in keys)
        yield [(index, is_former, key) for index, is_former, key in found if index]


def _number(version: str) -> tuple[int, ...]:
    """Return a version as numbers, which can be compared."""
    return tuple(map(int, version[1:].split(".")))

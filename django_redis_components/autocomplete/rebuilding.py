"""The steps of the rebuild of an index: see `core.rebuild`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django_redis_components.autocomplete.entries import Entry, Id, check_id, record_of
from django_redis_components.autocomplete.scripts import (
    BUILD,
    REBUILD_ABANDON,
    REBUILD_BEGIN,
    REBUILD_LOAD,
    REBUILD_SWAP,
)
from django_redis_components.core.arguments import short_repr
from django_redis_components.core.protocol import Flow
from django_redis_components.core.rebuild import TTL_MS, Rebuild

#: What a rebuild loads.
EntryLike = Entry | tuple[Id, str]


class IndexRebuild(Rebuild[EntryLike]):
    """The rebuild of an index.

    Args:
        name: name of the index, for errors.
        keys: the keys of the index and of a rebuild, by their names in the scripts.
        built: key with the token of the last rebuild that was finished.
    """

    chunk_size = 200

    def __init__(self, name: str, keys: Mapping[str, str], built: str) -> None:
        super().__init__("index", name)
        self._keys = keys
        self._built = built

    def begin(self) -> Flow[Any]:
        """See the base class."""
        return (yield REBUILD_BEGIN(**self._all(), token=self.token, ttl_ms=TTL_MS))

    def load(self, chunk: list[EntryLike]) -> Flow[Any]:
        """See the base class."""
        pairs = [part for given in chunk for part in _pair(given)]
        keys = {name: self._keys[name] for name in BUILD}
        return (yield REBUILD_LOAD(**keys, token=self.token, ttl_ms=TTL_MS, pairs=pairs))

    def swap(self) -> Flow[int]:
        """See the base class."""
        reply: int = yield REBUILD_SWAP(**self._keys, built=self._built, token=self.token)
        return reply

    def abandon(self) -> Flow[Any]:
        """See the base class."""
        return (yield REBUILD_ABANDON(**self._all(), token=self.token))

    def _all(self) -> dict[str, object]:
        return {"build": self._keys["build"], "rest": [self._keys[name] for name in BUILD[1:]]}


def _pair(entry: EntryLike) -> tuple[str, str]:
    if isinstance(entry, tuple) and len(entry) == 2:
        entry = Entry(*entry)
    if not isinstance(entry, Entry):
        raise TypeError(f"{short_repr(entry)}: expected an Entry or a tuple of id and text.")
    return check_id(entry.id), record_of(entry)

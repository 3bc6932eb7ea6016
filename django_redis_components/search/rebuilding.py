"""The steps of the rebuild of an index: see `core.rebuild`, and for its data `lua/shared/generations.lua`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.protocol import Batch, Flow
from django_redis_components.core.rebuild import TTL_MS, Rebuild
from django_redis_components.search.documents import Document, EncodedDocument
from django_redis_components.search.scripts import (
    DROP_GENERATION,
    REBUILD_ABANDON,
    REBUILD_BEGIN,
    REBUILD_KEEP,
    REBUILD_LOAD,
    REBUILD_SWAP,
)

#: Keys that one call deletes.
DROP_LIMIT = 500
#: Keys that one call makes permanent.
KEEP_LIMIT = 500
#: Milliseconds after its start at which the data of a rebuild expire: one day. They have a key for each term, which
#: are too many to renew with each chunk; so a rebuild that takes longer is refused.
DATA_TTL_MS = 24 * 60 * 60 * 1_000


class SearchRebuild(Rebuild[tuple[Any, Document]]):
    """The rebuild of an index from ids and documents.

    Args:
        name: name of the index, for errors.
        root: prefix of its keys.
        encode: encodes an id and a document.
    """

    chunk_size = 100

    def __init__(self, name: str, root: str, encode: Callable[[Any, Document], EncodedDocument]) -> None:
        super().__init__("search index", name)
        self._root = root
        self._encode = encode

    def begin(self) -> Flow[Any]:
        """See the base class."""
        return (yield REBUILD_BEGIN(root=self._root, token=self.token, ttl_ms=TTL_MS, data_ttl_ms=DATA_TTL_MS))

    def load(self, chunk: list[tuple[Any, Document]]) -> Flow[Any]:
        """See the base class."""
        arguments = [self._encode(*_pair(item)).arguments() for item in chunk]
        calls = [REBUILD_LOAD(root=self._root, token=self.token, ttl_ms=TTL_MS, **each) for each in arguments]
        return min((yield Batch(calls)))

    def swap(self) -> Flow[int]:
        """See the base class."""
        kept = yield from self._keep()
        count: int = kept if kept < 0 else (yield REBUILD_SWAP(root=self._root, token=self.token))
        if count >= 0:
            yield from drop_generations(self._root)
        return count

    def _keep(self) -> Flow[int]:
        """Make the data permanent, in bounded steps. Return a negative reply if the rebuild is not the active one."""
        for part in ("names", "vocabulary"):
            cursor: int = 0
            while True:
                cursor = yield REBUILD_KEEP(
                    root=self._root, token=self.token, ttl_ms=TTL_MS, part=part, cursor=cursor, limit=KEEP_LIMIT
                )
                if cursor < 0:
                    return cursor
                if cursor == 0:
                    break
        return 0

    def abandon(self) -> Flow[Any]:
        """See the base class."""
        ended: int = yield REBUILD_ABANDON(root=self._root, token=self.token)
        yield from drop_generations(self._root)
        return ended


def drop_generations(root: str) -> Flow[None]:
    """Delete the data of generations that are not read any more, in bounded steps."""
    while (yield DROP_GENERATION(root=root, limit=DROP_LIMIT)):
        pass


def _pair(item: object) -> tuple[Any, Document]:
    if isinstance(item, tuple | list) and len(item) == 2:
        return item[0], item[1]
    raise TypeError(f"items has {short_repr(item)}: expected pairs of id and Document.")

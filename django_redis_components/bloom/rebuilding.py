"""The steps of the rebuild of a filter: see `core.rebuild`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django_redis_components.bloom.hashing import Item, digests
from django_redis_components.bloom.scripts import REBUILD_ABANDON, REBUILD_BEGIN, REBUILD_LOAD, REBUILD_SWAP
from django_redis_components.core.protocol import Flow
from django_redis_components.core.rebuild import TTL_MS, Rebuild


class FilterRebuild(Rebuild[Item]):
    """The rebuild of a filter; its token is the generation of the layers.

    Args:
        name: name of the filter, for errors.
        base: prefix of its keys.
        parameters, layout: as they are stored.
        first_look: returns after how many items of a chunk it is looked at whether the filter is full.
    """

    chunk_size = 1_000

    def __init__(self, name: str, base: str, parameters: str, layout: str, first_look: Callable[[], int]) -> None:
        super().__init__("Bloom filter", name)
        self._base = base
        self._parameters = parameters
        self._layout = layout
        self._first_look = first_look
        self._count = 0

    def begin(self) -> Flow[Any]:
        """See the base class."""
        return (
            yield REBUILD_BEGIN(
                base=self._base, token=self.token, ttl_ms=TTL_MS, parameters=self._parameters, layout=self._layout
            )
        )

    def load(self, chunk: list[Item]) -> Flow[Any]:
        """See the base class."""
        self._count += len(chunk)
        look, items = self._first_look(), digests(chunk)
        return (yield REBUILD_LOAD(base=self._base, token=self.token, ttl_ms=TTL_MS, look=look, items=items))

    def swap(self) -> Flow[int]:
        """See the base class."""
        reply: int = yield REBUILD_SWAP(base=self._base, token=self.token)
        return self._count if reply > 0 else reply

    def abandon(self) -> Flow[Any]:
        """See the base class."""
        return (yield REBUILD_ABANDON(base=self._base, token=self.token))

"""The steps of the rebuild of a filter: see `core.rebuild`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django_redis_components.bloom.hashing import Item, digests, split_digests
from django_redis_components.bloom.part import base_of
from django_redis_components.bloom.scripts import DELETE, REBUILD_ABANDON, REBUILD_BEGIN, REBUILD_LOAD, REBUILD_SWAP
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.rebuild import TTL_MS, Rebuild

#: The reply of a step of a rebuild that is not the active one; the same as in core/lua/shared/rebuild.lua.
SUPERSEDED = -1


def count_parts(name: str) -> Flow[tuple[int, int]]:
    """Return how many parts a filter has, and how many may exist after a killed rebuild with another number."""
    base = base_of(name)
    stored, most = yield Batch([Read("HGET", f"{base}:meta", "parameters"), Read("GET", f"{base}:parts")])
    found = re.search(rb"parts=(\d+)", stored or b"")
    count = int(found[1]) if found else 1
    return count, max(count, int(most or 1))


class FilterRebuild(Rebuild[Item]):
    """The rebuild of a filter; its token is the generation of the layers.

    All parts are loaded before the first is replaced. The first part is that which a later rebuild supersedes first,
    and is replaced last; then the parts that the filter has no more are deleted. A part of which the server has evicted
    a layer is not replaced, and ends the rebuild: parts before it are new then, and those after it as they were.

    Args:
        name: name of the filter.
        parts: number of its parts.
        parameters, layout: as they are stored.
        first_look: returns after how many items of a chunk it is looked at whether the part is full.
    """

    chunk_size = 1_000

    def __init__(self, name: str, parts: int, parameters: str, layout: str, first_look: Callable[[], int]) -> None:
        super().__init__("Bloom filter", name)
        self._bases = [base_of(name, number) for number in range(parts)]
        self._parameters = parameters
        self._layout = layout
        self._first_look = first_look
        self._count = 0

    def begin(self) -> Flow[Any]:
        """See the base class."""
        first, *others = [
            REBUILD_BEGIN(base=base, token=self.token, ttl_ms=TTL_MS, parameters=self._parameters, layout=self._layout)
            for base in self._bases
        ]
        reply = yield first
        if others:
            yield Batch(others)
        return reply

    def load(self, chunk: list[Item]) -> Flow[Any]:
        """See the base class. Parts without an item of the chunk get none, so that none expires."""
        self._count += len(chunk)
        hashes = digests(chunk)
        if len(self._bases) == 1:
            return (yield self._load(self._bases[0], hashes))
        split = split_digests(hashes, len(self._bases))
        loads = [self._load(base, split.get(number, ((), b""))[1]) for number, base in enumerate(self._bases)]
        return min((yield Batch(loads)))

    def swap(self) -> Flow[int]:
        """See the base class. How many parts there may be is stored until all others are gone: it may be killed."""
        base, count = self._bases[0], len(self._bases)
        first, *others = [REBUILD_SWAP(base=base, token=self.token) for base in self._bases]
        if others and (yield Read("GET", f"{base}:build")) != self.token.encode():
            return SUPERSEDED  # a later rebuild may have finished before this one began with the other parts
        former, most = yield from count_parts(self._name)
        most = max(most, count)
        if (former, most) != (count, count):
            yield Command("SET", f"{base}:parts", most, retry=True)
        reply: int = min((yield Batch(others)) if others else [1])
        if reply > 0:
            reply = yield first
        if reply > 0 and (former, most) != (count, count):
            if most > count:
                yield Batch([DELETE(base=base_of(self._name, number)) for number in range(count, most)])
            yield Command("UNLINK", f"{base}:parts", retry=True)
        return self._count if reply > 0 else reply

    def abandon(self) -> Flow[Any]:
        """See the base class."""
        return (yield Batch([REBUILD_ABANDON(base=base, token=self.token) for base in self._bases]))

    def _load(self, base: str, hashes: bytes) -> Any:
        return REBUILD_LOAD(base=base, token=self.token, ttl_ms=TTL_MS, look=self._first_look(), items=hashes)

"""The steps of loading ranges: see `core.rebuild`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

from django_redis_components.core.protocol import AsyncClientProtocol, Flow, LocalIO
from django_redis_components.core.rebuild import TTL_MS, Rebuild
from django_redis_components.geoip.exceptions import InvalidRange
from django_redis_components.geoip.scripts import REBUILD_ABANDON, REBUILD_BEGIN, REBUILD_LOAD, REBUILD_SWAP

#: A block, and its number of ranges.
CountedBlock = tuple[bytes, int]


class RangesRebuild(Rebuild[CountedBlock]):
    """The replacement of the ranges of a name; the token is the generation of the blocks.

    Args:
        name: name of the ranges, for errors.
        base: prefix of their keys.
        source: where they are from.
    """

    #: About 150 KiB of countries and 500 KiB of cities.
    chunk_size = 100

    def __init__(self, name: str, base: str, source: str) -> None:
        super().__init__("ranges", name)
        self._base = base
        self._source = source
        self._blocks = self._ranges = 0

    def begin(self) -> Flow[Any]:
        """See the base class."""
        return (yield REBUILD_BEGIN(base=self._base, token=self.token, ttl_ms=TTL_MS))

    def load(self, chunk: list[CountedBlock]) -> Flow[Any]:
        """See the base class."""
        self._blocks += len(chunk)
        self._ranges += sum(ranges for _, ranges in chunk)
        blocks = [block for block, _ in chunk]
        return (yield REBUILD_LOAD(base=self._base, token=self.token, ttl_ms=TTL_MS, blocks=blocks))

    def swap(self) -> Flow[int]:
        """See the base class.

        Raises:
            InvalidRange: there are no ranges.
        """
        if not self._ranges:
            raise InvalidRange(
                "There are no ranges with a country. The former ranges stay in use; `delete` removes them."
            )
        blocks, ranges = self._blocks, self._ranges
        swap = REBUILD_SWAP(base=self._base, token=self.token, blocks=blocks, ranges=ranges, source=self._source)
        reply: int = yield swap
        return ranges if reply > 0 else reply

    def abandon(self) -> Flow[Any]:
        """See the base class."""
        return (yield REBUILD_ABANDON(base=self._base, token=self.token))


async def read_blocks(client: AsyncClientProtocol, blocks: Iterator[CountedBlock]) -> AsyncIterator[CountedBlock]:
    """Yield blocks that are read and encoded as local files are: most come from files."""
    read = LocalIO(lambda: list(islice(blocks, RangesRebuild.chunk_size)))
    while chunk := await read.aperform(client):
        for each in chunk:
            yield each

"""Components that are rebuilt: what each loads, writes and finds."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator
from typing import Any

from django_redis_components.autocomplete import PrefixIndex
from django_redis_components.autocomplete.rebuilding import IndexRebuild
from django_redis_components.bloom import BloomFilter
from django_redis_components.bloom.rebuilding import FilterRebuild
from django_redis_components.geoip import IpLookup, IpRange, Place
from django_redis_components.geoip.blocks import BLOCK_RANGES
from django_redis_components.geoip.rebuilding import RangesRebuild
from django_redis_components.search import Document, SearchIndex
from django_redis_components.search.rebuilding import SearchRebuild
from tests.support.child import print_line


@dataclasses.dataclass(frozen=True)
class Rebuilt:
    """A component that is rebuilt.

    Attributes:
        rebuild, arebuild: rebuild it from items.
        item: returns the item of a number; items are in the order of their numbers.
        finds: returns whether the item of a number is found.
        write: writes the item of a number; None if only a rebuild does.
        chunk: number of items that fill a chunk.
    """

    rebuild: Callable[[Iterable[Any]], int]
    arebuild: Callable[[AsyncIterable[Any]], Awaitable[int]]
    item: Callable[[int], Any]
    finds: Callable[[int], bool]
    write: Callable[[int], object] | None
    chunk: int


def autocomplete() -> Rebuilt:
    index = PrefixIndex("rebuilt")
    return Rebuilt(
        index.rebuild,
        index.arebuild,
        lambda number: (number, f"Name {number}"),
        lambda number: bool(index.get_many([number])),
        lambda number: index.add(number, f"Name {number}"),
        IndexRebuild.chunk_size,
    )


def search() -> Rebuilt:
    index = SearchIndex("rebuilt", language=None)
    return Rebuilt(
        index.rebuild,
        index.arebuild,
        lambda number: (number, Document(f"word{number}")),
        lambda number: index.search(f"word{number}").ids == [str(number)],
        lambda number: index.add(number, f"word{number}"),
        SearchRebuild.chunk_size,
    )


def bloom() -> Rebuilt:
    seen = BloomFilter("rebuilt", 10_000, error_rate=1e-6)
    return Rebuilt(
        seen.rebuild, seen.arebuild, lambda number: number, seen.contains, seen.add, FilterRebuild.chunk_size
    )


def geoip() -> Rebuilt:
    places = IpLookup("rebuilt", source="ranges")

    def item(number: int) -> IpRange:
        network = f"20.{number // 256}.{number % 256}"
        return IpRange(f"{network}.0", f"{network}.9", Place("FR", city=str(number)))

    return Rebuilt(
        places.rebuild,
        places.arebuild,
        item,
        lambda number: places.lookup(item(number).start) == item(number).place,
        None,
        RangesRebuild.chunk_size * BLOCK_RANGES,
    )


KINDS: dict[str, Callable[[], Rebuilt]] = {
    "autocomplete": autocomplete,
    "search": search,
    "bloom": bloom,
    "geoip": geoip,
}


def load_and_stop(kind: str) -> None:
    """Rebuild in a child process: print "loaded" after a chunk, and then load nothing more."""
    rebuilt = KINDS[kind]()

    def items() -> Iterator[Any]:
        yield from map(rebuilt.item, range(100, 101 + rebuilt.chunk))
        print_line("loaded")
        threading.Event().wait()

    rebuilt.rebuild(items())

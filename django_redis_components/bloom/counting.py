"""What count-min sketches and top lists share: items with numbers, in chunks. Without Redis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from django_redis_components.core.arguments import check_iterable
from django_redis_components.core.chunks import chunks

#: Items of one call. Longer calls delay other clients of the server.
CHUNK = 1_000
#: Largest number that is added at once: that of a 32-bit counter.
MAX_COUNT = 2**32 - 1

K = TypeVar("K")


def counted_chunks(items: Mapping[K, int] | Iterable[K]) -> Iterator[list[tuple[K, int]]]:
    """Yield items with what is added, up to 1,000 together: a mapping has the numbers, another iterable means 1 each.

    Raises:
        TypeError: one string instead of several items.
    """
    pairs = (
        iter(items.items()) if isinstance(items, Mapping) else ((item, 1) for item in check_iterable(items, "items"))
    )
    yield from chunks(pairs, CHUNK)

"""What count-min sketches and top lists share: items with numbers, in chunks. Without Redis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

#: Items of one call. Longer calls delay other clients of the server.
CHUNK = 1_000
#: Largest number that is added at once: that of a 32-bit counter.
MAX_COUNT = 2**32 - 1

K = TypeVar("K")


def check_count(count: object) -> int:
    """Return a number that is added.

    Raises:
        TypeError, ValueError: it is not accepted.
    """
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"count={count!r}: expected an integer.")
    if not 1 <= count <= MAX_COUNT:
        raise ValueError(f"count={count}: expected 1 to {MAX_COUNT:,}.")
    return count


def counted_chunks(items: Mapping[K, int] | Iterable[K]) -> Iterator[list[tuple[K, int]]]:
    """Yield items with what is added, up to 1,000 together: a mapping has the numbers, another iterable means 1 each.

    Raises:
        TypeError: one string instead of several items.
    """
    if isinstance(items, str | bytes):
        raise TypeError(f"items={items!r}: expected an iterable of items.")
    pairs = iter(items.items()) if isinstance(items, Mapping) else ((item, 1) for item in items)
    while chunk := list(islice(pairs, CHUNK)):
        yield chunk

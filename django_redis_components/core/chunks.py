"""Splitting items into chunks: one call of a script, or one round trip, may not delay the server's other clients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of up to `size` items."""
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk

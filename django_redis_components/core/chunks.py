"""Splitting items into chunks: one call of a script, or one round trip, may not delay the server's other clients.

And into pairs, as Redis returns names and values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of up to `size` items."""
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk


def pairs_of(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Return the pairs of a list of names and values in turn, as HGETALL and WITHSCORES reply.

    Raises:
        ValueError: while iterating, if the last name has no value.
    """
    return zip(flat[::2], flat[1::2], strict=True)

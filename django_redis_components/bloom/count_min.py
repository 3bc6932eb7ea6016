"""The count-min sketch: how often each of many items occurred, in a fixed size, with a known error."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django_redis_components.bloom.counting import MAX_COUNT, counted_chunks
from django_redis_components.bloom.exceptions import SketchMismatch
from django_redis_components.bloom.hashing import Item, digest
from django_redis_components.bloom.scripts import INCREMENT
from django_redis_components.core.arguments import check_int, check_number
from django_redis_components.core.chunks import chunks
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.protocol import Command, Flow, Read
from django_redis_components.core.units import Seconds, to_ms

#: Version of the hashes and of the layout: part of the key.
VERSION = "cm1"
#: Bits before the counters, and of a counter; see lua/increment.lua.
HEADER_BITS, COUNTER_BITS = 128, 32
#: Largest size: 64 MiB. Allocating it blocks the server for some 50 ms.
MAX_BYTES = 2**26
#: Bounds of the error and of its probability.
MIN_ERROR, MIN_PROBABILITY, MAX_SHARE = 1e-7, 1e-9, 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class CountMinPlan:
    """The size of a sketch: `depth` rows of `width` counters."""

    width: int
    depth: int

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return (HEADER_BITS + self.width * self.depth * COUNTER_BITS) // 8


@dataclasses.dataclass(frozen=True, slots=True)
class CountMinInfo:
    """The state of a sketch.

    Attributes:
        name: of the sketch.
        width, depth, bytes: its size.
        total: sum of all that was added.
        max_error: no estimate is too large by more, with the probability that was declared.
    """

    name: str
    width: int
    depth: int
    bytes: int
    total: int
    max_error: int


class CountMinSketch(DeletableComponent):
    """How often each of many items occurred. The items are not stored.

    An estimate is never too small. It is too large by more than `error` times the sum of all counts with a probability
    of at most `probability`: width e / error, depth ln(1 / probability) (Cormode and Muthukrishnan, "An Improved Data
    Stream Summary: The Count-Min Sketch and its Applications", 2005). The error is one of the sum, so estimates of rare
    items say little. A counter stays at 4,294,967,295.

    Args:
        name: name of the sketch.
        error: part of the sum of all counts, 1e-7 to 0.5.
        probability: of an estimate that is too large by more, 1e-9 to 0.5.
        ttl: seconds, or a timedelta, for which the sketch is kept after each addition; None: until `delete`.
        using: connection alias.

    The size is stored with the sketch. A sketch of the same name with another one raises `SketchMismatch`.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "bloom"
    name_label = "sketch name"
    catalog_kind = "CountMinSketch"

    def __init__(
        self,
        name: str,
        *,
        error: float = 0.001,
        probability: float = 0.01,
        ttl: Seconds | None = None,
        using: str = "default",
    ) -> None:
        super().__init__(name, using=using)
        self._plan = self.plan(error, probability)
        self.error = float(error)
        self.probability = float(probability)
        self._ttl_ms = 0 if ttl is None else to_ms(ttl, "ttl")

    @staticmethod
    def plan(error: float = 0.001, probability: float = 0.01) -> CountMinPlan:
        """Return the size of a sketch.

        Raises:
            TypeError, ValueError: an argument is not accepted, or the sketch would be too large.
        """
        check_number(error, "error", MIN_ERROR, MAX_SHARE)
        check_number(probability, "probability", MIN_PROBABILITY, MAX_SHARE)
        found = CountMinPlan(math.ceil(math.e / error), math.ceil(math.log(1 / probability)))
        if found.bytes > MAX_BYTES:
            raise ValueError(
                f"error={error}, probability={probability}: {found.bytes:,} bytes, expected at most {MAX_BYTES:,}."
            )
        return found

    def add(self, item: Item, count: int = 1) -> int:
        """Add to the count of an item and return its new estimate.

        It is sent once: after a lost reply it raises ConnectionError, and may have been added.

        Args:
            count: 1 to 4,294,967,295.

        Raises:
            TypeError, ValueError: an argument is not accepted.
            SketchMismatch: the sketch was created with another size.
        """
        return self._run(self._add([(item, count)]))[0]

    async def aadd(self, item: Item, count: int = 1) -> int:
        """See `add`."""
        return (await self._arun(self._add([(item, count)])))[0]

    def add_many(self, items: Mapping[Item, int] | Iterable[Item]) -> list[int]:
        """Add to the counts of items and return their new estimates, 1,000 in each round trip; see `add`.

        Args:
            items: a mapping of items to what is added, or items of which one each is added.
        """
        return [count for chunk in counted_chunks(items) for count in self._run(self._add(chunk))]

    async def aadd_many(self, items: Mapping[Item, int] | Iterable[Item]) -> list[int]:
        """See `add_many`."""
        return [count for chunk in counted_chunks(items) for count in await self._arun(self._add(chunk))]

    def count(self, item: Item) -> int:
        """Return the estimate of an item: at least its count; 0 if there is no sketch.

        Raises:
            SketchMismatch: the sketch was created with another size.
        """
        return self._run(self._count([item]))[0]

    async def acount(self, item: Item) -> int:
        """See `count`."""
        return (await self._arun(self._count([item])))[0]

    def count_many(self, items: Iterable[Item]) -> list[int]:
        """Return the estimates of items, 1,000 in each round trip; see `count`."""
        return [count for chunk in _item_chunks(items) for count in self._run(self._count(chunk))]

    async def acount_many(self, items: Iterable[Item]) -> list[int]:
        """See `count_many`."""
        return [count for chunk in _item_chunks(items) for count in await self._arun(self._count(chunk))]

    def info(self) -> CountMinInfo:
        """Return the size, the sum of all counts and the error that follows from it."""
        return self._run(self._info())

    async def ainfo(self) -> CountMinInfo:
        """See `info`."""
        return await self._arun(self._info())

    def _catalog_options(self) -> dict[str, Any]:
        return {"error": self.error, "probability": self.probability}

    def _sketch(self) -> str:
        return self._key(VERSION)

    def _add(self, pairs: Sequence[tuple[Item, int]]) -> Flow[list[int]]:
        packed = b"".join(
            digest(item) + check_int(count, "count", 1, MAX_COUNT).to_bytes(4, "big") for item, count in pairs
        )
        plan = self._plan
        reply: list[int] = yield INCREMENT(
            sketch=self._sketch(), width=plan.width, depth=plan.depth, ttl_ms=self._ttl_ms, items=packed
        )
        if reply[0] == -1:
            self._check(*reply[1:])
        return reply

    def _count(self, items: Sequence[Item]) -> Flow[list[int]]:
        parts = [part for item in items for place in self._places(item) for part in ("GET", "u32", place)]
        reply: list[int] = yield Read("BITFIELD_RO", self._sketch(), "GET", "u32", 0, "GET", "u32", 32, *parts)
        self._check(*reply[:2])
        return [min(counts) for counts in chunks(reply[2:], self._plan.depth)]

    def _info(self) -> Flow[CountMinInfo]:
        reply = yield Read("BITFIELD_RO", self._sketch(), "GET", "u32", 0, "GET", "u32", 32, "GET", "i64", 64)
        width, depth, total = reply
        self._check(width, depth)
        plan = self._plan
        size = plan.bytes if width else 0
        return CountMinInfo(self.name, plan.width, plan.depth, size, total, math.floor(self.error * total))

    def _delete(self) -> Flow[bool]:
        return bool((yield Command("UNLINK", self._sketch(), retry=True)))

    def _check(self, width: int, depth: int) -> None:
        plan = self._plan
        if width and (width, depth) != (plan.width, plan.depth):
            stored, given = f"width={width}, depth={depth}", f"width={plan.width}, depth={plan.depth}"
            raise SketchMismatch("Count-min sketch", self.name, stored, given)

    def _places(self, item: Item) -> list[int]:
        """Return the bits at which the counters of an item start: enhanced double hashing, as in lua/increment.lua."""
        width, both = self._plan.width, int.from_bytes(digest(item), "big")
        x, y = (both >> 48) % width, (both & 0xFFFF_FFFF_FFFF) % width
        found = []
        for row in range(self._plan.depth):
            found.append(HEADER_BITS + (row * width + x) * COUNTER_BITS)
            x, y = (x + y) % width, (y + row + 1) % width
        return found


def _item_chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield items, up to 1,000 together."""
    for chunk in counted_chunks(list(items) if isinstance(items, Mapping) else items):
        yield [item for item, _ in chunk]

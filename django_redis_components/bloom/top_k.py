"""The top list: the most frequent of any number of items, with a fixed number of counters and a known error."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django_redis_components.bloom.counting import MAX_COUNT, counted_chunks
from django_redis_components.bloom.exceptions import SketchMismatch
from django_redis_components.bloom.scripts import INCREMENT_TOP, READ_TOP
from django_redis_components.core.arguments import check_int, check_text, id_text
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.units import Seconds, to_ms

#: Version of the layout: part of the keys.
VERSION = "tk1"
#: Most counters of a list, and most items of an answer.
MAX_COUNTERS = 100_000
#: Counters for each item of the answer, by default.
COUNTERS_PER_ITEM = 10
#: Bytes of an item.
MAX_ITEM_BYTES = 500


@dataclasses.dataclass(frozen=True, slots=True)
class TopItem:
    """An item of a top list: it occurred `count - error` to `count` times."""

    item: str
    count: int
    error: int


@dataclasses.dataclass(frozen=True, slots=True)
class TopKInfo:
    """The state of a top list.

    Attributes:
        name: of the list.
        counters, used: items that may have a counter, and those that have one.
        total: sum of all that was added.
        max_error: largest possible count of an item that is not in the list, and largest error of a count.
    """

    name: str
    counters: int
    used: int
    total: int
    max_error: int


class TopK(DeletableComponent):
    """The `k` most frequent items.

    With m counters each item that occurred more often than 1/m of all is in the list, and no count is too large by more
    than that; a count is never too small (Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k
    Elements in Data Streams", 2005: Space-Saving). Each count comes with its largest possible error. While there are no
    more different items than counters, all counts are exact.

    Args:
        name: name of the list.
        k: length of the answer, 1 to 10,000.
        counters: k to 100,000, some 200 bytes each; ten for each item of the answer if None.
        ttl: seconds, or a timedelta, for which the list is kept after each addition; None: until `delete`.
        using: connection alias.

    The parameters are stored with the list. A list of the same name with others raises `SketchMismatch`.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "bloom"
    name_label = "list name"
    catalog_kind = "TopK"

    def __init__(
        self,
        name: str,
        k: int,
        *,
        counters: int | None = None,
        ttl: Seconds | None = None,
        using: str = "default",
    ) -> None:
        super().__init__(name, using=using)
        self.k = check_int(k, "k", 1, MAX_COUNTERS // COUNTERS_PER_ITEM)
        chosen = k * COUNTERS_PER_ITEM if counters is None else counters
        self.counters = check_int(chosen, "counters", k, MAX_COUNTERS)
        self._parameters = f"counters={self.counters}"
        self._ttl_ms = 0 if ttl is None else to_ms(ttl, "ttl")

    def add(self, item: str | int | UUID, count: int = 1) -> int:
        """Add to the count of an item and return it.

        It is sent once: after a lost reply it raises ConnectionError, and may have been added.

        Args:
            item: up to 500 bytes; 7 and "7" are the same item.
            count: 1 to 4,294,967,295.

        Raises:
            TypeError, ValueError: an argument is not accepted.
            SketchMismatch: the list was created with another number of counters.
        """
        return self._run(self._add([(item, count)]))[0]

    async def aadd(self, item: str | int | UUID, count: int = 1) -> int:
        """See `add`."""
        return (await self._arun(self._add([(item, count)])))[0]

    def add_many(self, items: Mapping[str | int | UUID, int] | Iterable[str | int | UUID]) -> list[int]:
        """Add to the counts of items and return them, 1,000 in each round trip; see `add`.

        Args:
            items: a mapping of items to what is added, or items of which one each is added.
        """
        return [count for chunk in counted_chunks(items) for count in self._run(self._add(chunk))]

    async def aadd_many(self, items: Mapping[str | int | UUID, int] | Iterable[str | int | UUID]) -> list[int]:
        """See `add_many`."""
        return [count for chunk in counted_chunks(items) for count in await self._arun(self._add(chunk))]

    def top(self, *, limit: int | None = None) -> list[TopItem]:
        """Return the items with the largest counts, the largest first.

        Args:
            limit: up to the number of counters; `k` if None.

        Raises:
            SketchMismatch: the list was created with another number of counters.
        """
        return self._run(self._top(limit))

    async def atop(self, *, limit: int | None = None) -> list[TopItem]:
        """See `top`."""
        return await self._arun(self._top(limit))

    def info(self) -> TopKInfo:
        """Return the sum of all counts, and the largest error."""
        return self._run(self._info())

    async def ainfo(self) -> TopKInfo:
        """See `info`."""
        return await self._arun(self._info())

    def _catalog_options(self) -> dict[str, Any]:
        return {"k": self.k, "counters": self.counters}

    def _base(self) -> str:
        return self._key(VERSION)

    def _add(self, pairs: Sequence[tuple[str | int | UUID, int]]) -> Flow[list[int]]:
        items = [part for item, count in pairs for part in (_item_text(item), check_int(count, "count", 1, MAX_COUNT))]
        reply: list[int] = yield INCREMENT_TOP(
            base=self._base(),
            parameters=self._parameters,
            counters=self.counters,
            ttl_ms=self._ttl_ms,
            items=items,
        )
        if reply[0] == -1:
            self._check(reply[1])
        return reply

    def _top(self, limit: int | None) -> Flow[list[TopItem]]:
        number = self.k if limit is None else check_int(limit, "limit", 1, self.counters)
        reply = yield READ_TOP(base=self._base(), parameters=self._parameters, number=number)
        if reply and reply[0] == -1:
            self._check(reply[1])
        return [
            TopItem(item.decode(errors="replace"), int(float(found)), int(float(error)))
            for item, found, error in zip(reply[::3], reply[1::3], reply[2::3], strict=True)
        ]

    def _info(self) -> Flow[TopKInfo]:
        base = self._base()
        [stored, total], used, smallest = yield Batch(
            [
                Read("HMGET", f"{base}:meta", "parameters", "total"),
                Read("ZCARD", f"{base}:counts"),
                Read("ZRANGE", f"{base}:counts", 0, 0, "WITHSCORES"),
            ]
        )
        if stored is not None:
            self._check(stored)
        max_error = int(float(smallest[1])) if used >= self.counters else 0
        return TopKInfo(self.name, self.counters, used, int(total or 0), max_error)

    def _delete(self) -> Flow[bool]:
        base = self._base()
        return bool((yield Command("UNLINK", f"{base}:counts", f"{base}:errors", f"{base}:meta", retry=True)))

    def _check(self, stored: bytes | int) -> None:
        text = stored.decode() if isinstance(stored, bytes) else str(stored)
        if text != self._parameters:
            raise SketchMismatch("Top list", self.name, text, self._parameters)


def _item_text(item: object) -> str:
    return check_text(id_text(item, "item"), "item", max_bytes=MAX_ITEM_BYTES)

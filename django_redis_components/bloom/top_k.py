"""The top list: the most frequent of any number of items, with a fixed number of counters and a known error."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from django_redis_components.bloom.counting import check_count, counted_chunks
from django_redis_components.bloom.exceptions import SketchMismatch
from django_redis_components.bloom.scripts import INCREMENT_TOP, READ_TOP
from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Command, Flow, Read, arun, run
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
        max_error: an item that is not in the list occurred at most so often, and no count is too large by more.
    """

    name: str
    counters: int
    used: int
    total: int
    max_error: int


class TopK:
    """The `k` most frequent items.

    With m counters each item that occurred more often than 1/m of all is in the list, and no count is too large by more
    than that; a count is never too small (Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k
    Elements in Data Streams", 2005: Space-Saving). Each count comes with its largest possible error. While there are no
    more different items than counters, all counts are exact.

    Args:
        name: name of the list.
        k: length of the answer, 1 to 10,000.
        counters: k to 100,000, some 200 bytes each; ten for each item of the answer if None.
        timeout: seconds, or a timedelta, for which the list is kept after each addition; None: until `delete`.
        using: connection alias.

    The parameters are stored with the list. A list of the same name with others raises `SketchMismatch`.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    def __init__(
        self,
        name: str,
        k: int,
        *,
        counters: int | None = None,
        timeout: Seconds | None = None,
        using: str = "default",
    ) -> None:
        self.name = keys.validate_name(name, "list name")
        self.using = using
        self.k = _check_whole(k, "k", 1, MAX_COUNTERS // COUNTERS_PER_ITEM)
        chosen = k * COUNTERS_PER_ITEM if counters is None else counters
        self.counters = _check_whole(chosen, "counters", k, MAX_COUNTERS)
        self._parameters = f"counters={self.counters}"
        self._ttl_ms = 0 if timeout is None else to_ms(timeout, "timeout")

    def __repr__(self) -> str:
        return f"<TopK {self.name}>"

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
        return run(connections.client(self.using), self._add([(item, count)]))[0]

    async def aadd(self, item: str | int | UUID, count: int = 1) -> int:
        """See `add`."""
        return (await arun(connections.aclient(self.using), self._add([(item, count)])))[0]

    def add_many(self, items: Mapping[str | int | UUID, int] | Iterable[str | int | UUID]) -> list[int]:
        """Add to the counts of items and return them, 1,000 in each round trip; see `add`.

        Args:
            items: a mapping of items to what is added, or items of which one each is added.
        """
        client = connections.client(self.using)
        return [count for chunk in counted_chunks(items) for count in run(client, self._add(chunk))]

    async def aadd_many(self, items: Mapping[str | int | UUID, int] | Iterable[str | int | UUID]) -> list[int]:
        """See `add_many`."""
        client = connections.aclient(self.using)
        return [count for chunk in counted_chunks(items) for count in await arun(client, self._add(chunk))]

    def top(self, count: int | None = None) -> list[TopItem]:
        """Return the items with the largest counts, the largest first.

        Args:
            count: up to the number of counters; `k` if None.

        Raises:
            SketchMismatch: the list was created with another number of counters.
        """
        return run(connections.client(self.using), self._top(count))

    async def atop(self, count: int | None = None) -> list[TopItem]:
        """See `top`."""
        return await arun(connections.aclient(self.using), self._top(count))

    def info(self) -> TopKInfo:
        """Return the sum of all counts, and the largest error."""
        return run(connections.client(self.using), self._info())

    async def ainfo(self) -> TopKInfo:
        """See `info`."""
        return await arun(connections.aclient(self.using), self._info())

    def delete(self) -> None:
        """Delete the list."""
        run(connections.client(self.using), self._delete())

    async def adelete(self) -> None:
        """See `delete`."""
        await arun(connections.aclient(self.using), self._delete())

    def _base(self) -> str:
        return keys.key("bloom", self.name, VERSION)

    def _add(self, pairs: Sequence[tuple[str | int | UUID, int]]) -> Flow[list[int]]:
        items = [part for item, count in pairs for part in (_text(item), check_count(count))]
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

    def _top(self, count: int | None) -> Flow[list[TopItem]]:
        number = self.k if count is None else _check_whole(count, "count", 1, self.counters)
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

    def _delete(self) -> Flow[None]:
        base = self._base()
        yield Command("UNLINK", f"{base}:counts", f"{base}:errors", f"{base}:meta", retry=True)

    def _check(self, stored: bytes | int) -> None:
        text = stored.decode() if isinstance(stored, bytes) else str(stored)
        if text != self._parameters:
            raise SketchMismatch("Top list", self.name, text, self._parameters)


def _text(item: object) -> str:
    if isinstance(item, bool) or not isinstance(item, str | int | UUID):
        raise TypeError(f"item={item!r}: expected str, int or UUID.")
    text = str(item)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError(f"item={item!r}: expected text that UTF-8 can encode.") from None
    if not 1 <= size <= MAX_ITEM_BYTES:
        raise ValueError(f"item={text[:40]!r}: {size} bytes, expected 1 to {MAX_ITEM_BYTES}.")
    return text


def _check_whole(value: object, what: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what}={value!r}: expected an integer.")
    if not least <= value <= most:
        raise ValueError(f"{what}={value}: expected {least:,} to {most:,}.")
    return value

"""The Bloom filter: a set that forgets its items, and answers whether an item is in it with a known error."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from django_redis_components.bloom import plans
from django_redis_components.bloom.hashing import DIGEST_BYTES, Item, digest, digests, part_of, split_digests
from django_redis_components.bloom.info import BloomInfo, merge
from django_redis_components.bloom.part import MAX_PARTS, Declaration, FilterPart, base_of
from django_redis_components.bloom.plans import BloomPlan
from django_redis_components.bloom.rebuilding import FilterRebuild, count_parts
from django_redis_components.bloom.scripts import DELETE
from django_redis_components.core.arguments import check_flag, check_int, check_iterable
from django_redis_components.core.client import connections
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Batch, Flow

#: Items of one call. Longer calls delay other clients of the server.
CHUNK = 1_000


class BloomFilter(DeletableComponent):
    """A set of items in about 10 bits each, at an error rate of 1 %.

    An item that was added is always found. An item that was not is found with a probability of at most `error_rate`.

    Args:
        name: name of the filter.
        capacity: number of items.
        error_rate: probability of a wrong "yes", 1e-9 to 0.5.
        scaling: whether the filter grows beyond its capacity, by layers; it starts with half of the error rate, and
            so 14 % more bits. Otherwise the error grows, and a warning is logged.
        parts: number of parts, 1 to 64, each in its own Cluster slot. The hash of an item selects its part.
        using: connection alias.

    The parameters are stored with the filter. A filter of the same name with others raises `FilterMismatch`.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "bloom"
    name_label = "filter name"
    catalog_kind = "BloomFilter"

    def __init__(
        self,
        name: str,
        capacity: int,
        *,
        error_rate: float = 0.01,
        scaling: bool = True,
        parts: int = 1,
        using: str = "default",
    ) -> None:
        super().__init__(name, using=using)
        self.capacity = plans.check(capacity, error_rate)
        self.error_rate = float(error_rate)
        self.scaling = check_flag(scaling, "scaling")
        self.parts = check_int(parts, "parts", 1, MAX_PARTS)
        self._declaration = Declaration(self.name, self.capacity, self.error_rate, scaling, parts)
        self._parts = tuple(FilterPart(self._declaration, number, self._create) for number in range(parts))

    @staticmethod
    def plan(capacity: int, error_rate: float = 0.01) -> BloomPlan:
        """Return the bits, hashes and bytes of a filter that does not grow."""
        return plans.plan(capacity, error_rate)

    def add(self, item: Item) -> bool:
        """Add an item and return whether it was new.

        False may be wrong with the probability of `error_rate`: it may be another item that was added.

        Raises:
            FilterMismatch: the filter was created with other parameters.
            redis.exceptions.ConnectionError: the reply was lost; whether the item was new is not known.
        """
        hashes = digest(item)
        return self._run(self._part(hashes).add_one(hashes))

    async def aadd(self, item: Item) -> bool:
        """See `add`."""
        hashes = digest(item)
        return await self._arun(self._part(hashes).add_one(hashes))

    def add_many(self, items: Iterable[Item]) -> list[bool]:
        """Add items and return whether each was new; 1,000 in each round trip."""
        return [is_new for chunk in _chunks(items) for is_new in self._run(self._add(chunk))]

    async def aadd_many(self, items: Iterable[Item]) -> list[bool]:
        """See `add_many`."""
        return [is_new for chunk in _chunks(items) for is_new in await self._arun(self._add(chunk))]

    def contains(self, item: Item, *, default: bool = False) -> bool:
        """Return whether an item is in the filter; True may be wrong with the probability of `error_rate`.

        Args:
            default: the answer while there is no filter: True where a filter that was lost must not hide items.
        """
        hashes = digest(item)
        return self._run(self._part(hashes).contains_one(hashes, default))

    async def acontains(self, item: Item, *, default: bool = False) -> bool:
        """See `contains`."""
        hashes = digest(item)
        return await self._arun(self._part(hashes).contains_one(hashes, default))

    def contains_many(self, items: Iterable[Item], *, default: bool = False) -> list[bool]:
        """Return for each item whether it is in the filter; see `contains`."""
        return [found for chunk in _chunks(items) for found in self._run(self._contains(chunk, default))]

    async def acontains_many(self, items: Iterable[Item], *, default: bool = False) -> list[bool]:
        """See `contains_many`."""
        return [found for chunk in _chunks(items) for found in await self._arun(self._contains(chunk, default))]

    def info(self) -> BloomInfo:
        """Return the number of items, the size and the expected error."""
        return self._run(self._info())

    async def ainfo(self) -> BloomInfo:
        """See `info`."""
        return await self._arun(self._info())

    def rebuild(self, items: Iterable[Item]) -> int:
        """Replace the items, also of a filter with other parameters: the only way to remove items.

        The filter answers with its former items until the new ones are loaded. Items that are added meanwhile are in
        both.

        Returns:
            The number of items that were loaded.

        Raises:
            RebuildSuperseded: a later rebuild has started, or this one paused for 15 minutes.
        """
        return self._new_rebuild().run(connections.client(self.using), items)

    async def arebuild(self, items: Iterable[Item] | AsyncIterable[Item]) -> int:
        """See `rebuild`; the iterable may be asynchronous."""
        return await self._new_rebuild().arun(connections.aclient(self.using), items)

    def _catalog_options(self) -> dict[str, Any]:
        options = {"capacity": self.capacity, "error_rate": self.error_rate, "scaling": self.scaling}
        return {**options, "parts": self.parts} if self.parts > 1 else options

    def _part(self, hashes: bytes) -> FilterPart:
        """Return the part that an item is in."""
        return self._parts[part_of(hashes, self.parts) if self.parts > 1 else 0]

    def _add(self, hashes: bytes) -> Flow[list[bool]]:
        if self.parts == 1:
            return (yield from self._parts[0].add(hashes))
        first = self._parts[0]
        if not first.is_known and (yield from first.find()) is None:
            yield from self._create()
        return (yield from self._in_parts(hashes, FilterPart.add))

    def _contains(self, hashes: bytes, default: bool) -> Flow[list[bool]]:
        return self._in_parts(hashes, lambda part, some: part.contains(some, default))

    def _in_parts(self, hashes: bytes, flow_of: Callable[[FilterPart, bytes], Flow[list[bool]]]) -> Flow[list[bool]]:
        """Run a flow in each part with items, in one round trip for each server; return the answers in order."""
        if self.parts == 1:
            return (yield from flow_of(self._parts[0], hashes))
        split = split_digests(hashes, self.parts)
        found = yield from gather_values([flow_of(self._parts[number], some) for number, (_, some) in split.items()])
        answers = [False] * (len(hashes) // DIGEST_BYTES)
        for (places, _), part_answers in zip(split.values(), found, strict=True):
            for place, answer in zip(places, part_answers, strict=True):
                answers[place] = answer
        return answers

    def _create(self) -> Flow[None]:
        """Create all parts. The first decides whether the parameters are those of the filter."""
        first, *others = self._parts
        yield first.creation()
        if others:
            yield from first.find()
            yield Batch([part.creation() for part in others])

    def _new_rebuild(self) -> FilterRebuild:
        self._record_use()
        declared = self._declaration
        layout = plans.layout(declared.plans)
        return FilterRebuild(self.name, self.parts, declared.parameters, layout, self._parts[0].first_look)

    def _delete(self) -> Flow[bool]:
        _, most = yield from count_parts(self.name)
        count = max(self.parts, most)
        bases = [base_of(self.name, number) for number in range(count)]
        deleted = (yield Batch([DELETE(base=base) for base in bases[1:]])) if count > 1 else []
        deleted.append((yield DELETE(base=bases[0])))  # last: it states how many there are
        return any(deleted)

    def _info(self) -> Flow[BloomInfo]:
        found = yield from gather_values([part.info() for part in self._parts])
        return found[0] if self.parts == 1 else merge(self._declaration, found)


def info_flow(bloom: BloomFilter) -> Flow[BloomInfo]:
    """Return the flow that reads the state of a filter, in two round trips."""
    return bloom._info()


def _chunks(items: Iterable[Item]) -> Iterator[bytes]:
    """Yield the hashes of items, those of up to 1,000 together."""
    source = iter(check_iterable(items, "items"))
    while chunk := digests(islice(source, CHUNK)):
        yield chunk

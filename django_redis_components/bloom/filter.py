"""The Bloom filter: a set that forgets its items, and answers whether an item is in it with a known error."""

from __future__ import annotations

import hashlib
import logging
import secrets
import weakref
from collections.abc import AsyncIterable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from uuid import UUID

from redis.exceptions import RedisError

from django_redis_components.bloom import plan as planning
from django_redis_components.bloom.exceptions import FilterMismatch, FilterRebuildSuperseded
from django_redis_components.bloom.info import BloomInfo, describe
from django_redis_components.bloom.plan import MAX_LAYERS, BloomPlan
from django_redis_components.bloom.scripts import ADD, CONTAINS, CREATE, DELETE, LOAD, SWAP
from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Flow, Read, arun, run
from django_redis_components.core.scripts import LuaScript
from django_redis_components.core.units import check_flag

#: Version of the hashes and of the layout: part of the keys.
VERSION = "v1"
#: Items of one call. Longer calls delay other clients of the server.
CHUNK = 1_000
#: Milliseconds for which a rebuild is kept after its last chunk.
REBUILD_TTL_MS = 15 * 60 * 1_000

#: An item. 7 and "7" are the same item, and so are "a" and b"a".
Item = str | bytes | int | UUID

logger = logging.getLogger("django_redis_components.bloom")


class BloomFilter:
    """A set of items in about 10 bits each, at an error rate of 1 %.

    An item that was added is always found. An item that was not is found with a probability of at most `error_rate`.

    Args:
        name: name of the filter.
        capacity: number of items.
        error_rate: probability of a wrong "yes", 1e-9 to 0.5.
        scaling: whether the filter grows beyond its capacity, by layers; it starts with half of the error rate, and
            so 14 % more bits. Otherwise the error grows, and a warning is logged.
        using: connection alias.

    The parameters are stored with the filter. A filter of the same name with others raises `FilterMismatch`.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    def __init__(
        self, name: str, capacity: int, error_rate: float = 0.01, *, scaling: bool = True, using: str = "default"
    ) -> None:
        self.name = keys.validate_name(name, "filter name")
        planning.check(capacity, error_rate)
        self.capacity = capacity
        self.error_rate = float(error_rate)
        self.scaling = check_flag(scaling, "scaling")
        self.using = using
        self._plans = planning.layers(capacity, self.error_rate, scaling=scaling)
        self._parameters = f"capacity={capacity}, error_rate={self.error_rate:g}, scaling={scaling}"
        self._has_warned = False
        _filters.add(self)

    def __repr__(self) -> str:
        return f"<BloomFilter {self.name}>"

    @staticmethod
    def plan(capacity: int, error_rate: float = 0.01) -> BloomPlan:
        """Return the bits, hashes and bytes of a filter that does not grow."""
        return planning.plan(capacity, error_rate)

    def add(self, item: Item) -> bool:
        """Add an item and return whether it was new.

        False may be wrong with the probability of `error_rate`: it may be another item that was added.

        Raises:
            FilterMismatch: the filter was created with other parameters.
            redis.exceptions.ConnectionError: the reply was lost; whether the item was new is not known.
        """
        return self.add_many([item])[0]

    async def aadd(self, item: Item) -> bool:
        """See `add`."""
        return (await self.aadd_many([item]))[0]

    def add_many(self, items: Iterable[Item]) -> list[bool]:
        """Add items and return whether each was new; 1,000 in each round trip."""
        client = connections.client(self.using)
        return [is_new for chunk in _chunks(items) for is_new in run(client, self._add(chunk))]

    async def aadd_many(self, items: Iterable[Item]) -> list[bool]:
        """See `add_many`."""
        client = connections.aclient(self.using)
        return [is_new for chunk in _chunks(items) for is_new in await arun(client, self._add(chunk))]

    def contains(self, item: Item, *, default: bool = False) -> bool:
        """Return whether an item is in the filter; True may be wrong with the probability of `error_rate`.

        Args:
            default: the answer while there is no filter: True where a filter that was lost must not hide items.
        """
        return self.contains_many([item], default=default)[0]

    async def acontains(self, item: Item, *, default: bool = False) -> bool:
        """See `contains`."""
        return (await self.acontains_many([item], default=default))[0]

    def contains_many(self, items: Iterable[Item], *, default: bool = False) -> list[bool]:
        """Return for each item whether it is in the filter; see `contains`."""
        client = connections.client(self.using)
        return [found for chunk in _chunks(items) for found in run(client, self._contains(chunk, default))]

    async def acontains_many(self, items: Iterable[Item], *, default: bool = False) -> list[bool]:
        """See `contains_many`."""
        client = connections.aclient(self.using)
        return [found for chunk in _chunks(items) for found in await arun(client, self._contains(chunk, default))]

    def info(self) -> BloomInfo:
        """Return the number of items, the size and the expected error."""
        return run(connections.client(self.using), self._info())

    async def ainfo(self) -> BloomInfo:
        """See `info`."""
        return await arun(connections.aclient(self.using), self._info())

    def rebuild(self, items: Iterable[Item]) -> None:
        """Replace the items, also of a filter with other parameters: the only way to remove items.

        The filter answers with its former items until the new ones are loaded. Items that are added meanwhile are in
        both.

        Raises:
            FilterRebuildSuperseded: a later rebuild started.
        """
        client, generation = connections.client(self.using), secrets.token_hex(8)
        run(client, self._begin(generation))
        try:
            for chunk in _chunks(items):
                run(client, self._load(generation, chunk))
            run(client, self._swap(generation))
        except BaseException:
            with suppress(RedisError):  # it expires anyway
                run(client, self._delete("build", generation))
            raise

    async def arebuild(self, items: Iterable[Item] | AsyncIterable[Item]) -> None:
        """See `rebuild`."""
        client, generation = connections.aclient(self.using), secrets.token_hex(8)
        await arun(client, self._begin(generation))
        try:
            chunk: list[Item] = []
            async for item in _each(items):
                chunk.append(item)
                if len(chunk) == CHUNK:
                    await arun(client, self._load(generation, chunk))
                    chunk = []
            await arun(client, self._load(generation, chunk))
            await arun(client, self._swap(generation))
        except BaseException:
            with suppress(RedisError):
                await arun(client, self._delete("build", generation))
            raise

    def delete(self) -> None:
        """Delete the filter."""
        client = connections.client(self.using)
        for part in ("build", "meta"):
            run(client, self._delete(part))

    async def adelete(self) -> None:
        """See `delete`."""
        client = connections.aclient(self.using)
        for part in ("build", "meta"):
            await arun(client, self._delete(part))

    def _base(self) -> str:
        return keys.key("bloom", self.name, VERSION)

    def _add(self, items: list[Item]) -> Flow[list[bool]]:
        reply = yield from self._apply(ADD, _hashes(items))
        if reply is None:
            yield from self._create("meta", secrets.token_hex(8))
            reply = yield from self._apply(ADD, _hashes(items))
        answers = [answer == 49 for answer in reply or b""]  # 49 is "1"
        if not self.scaling and not self._has_warned and any(answers):
            yield from self._warn(len(items))
        return answers

    def _contains(self, items: list[Item], default: bool) -> Flow[list[bool]]:
        reply = yield from self._apply(CONTAINS, _hashes(items))
        return [default] * len(items) if reply is None else [answer == 49 for answer in reply]

    def _apply(self, script: LuaScript, items: bytes) -> Flow[bytes | None]:
        """Call a script; return its reply, or None if there is no filter."""
        reply = yield script(base=self._base(), parameters=self._parameters, items=items)
        if isinstance(reply, list):
            raise FilterMismatch(self.name, reply[1].decode(), self._parameters)
        return None if reply == 0 else reply

    def _create(self, part: str, generation: str) -> Flow[None]:
        layout = " ".join(f"{each.bits}:{each.hashes}:{each.capacity}" for each in self._plans)
        yield CREATE(
            base=self._base(),
            part=part,
            parameters=self._parameters,
            generation=generation,
            layout=layout,
            ttl_ms=REBUILD_TTL_MS,
        )

    def _begin(self, generation: str) -> Flow[None]:
        yield from self._create("build", generation)

    def _load(self, generation: str, items: list[Item]) -> Flow[None]:
        reply = yield LOAD(base=self._base(), generation=generation, ttl_ms=REBUILD_TTL_MS, items=_hashes(items))
        self._check_rebuild(reply)

    def _swap(self, generation: str) -> Flow[None]:
        reply = yield SWAP(base=self._base(), generation=generation)
        self._check_rebuild(reply)

    def _check_rebuild(self, reply: int) -> None:
        if reply < 0:
            raise FilterRebuildSuperseded(self.name, REBUILD_TTL_MS / 1_000)

    def _delete(self, part: str, generation: str = "") -> Flow[None]:
        yield DELETE(base=self._base(), part=part, generation=generation)

    def _info(self) -> Flow[BloomInfo]:
        counts, is_rebuilding = yield from self._counts()
        return describe(self.name, self.capacity, self.error_rate, self._plans, counts, is_rebuilding=is_rebuilding)

    def _counts(self) -> Flow[tuple[list[int], bool]]:
        """Return the items of each layer, and whether the filter is being rebuilt."""
        fields = ["parameters", "layers", *(f"c{number}" for number in range(MAX_LAYERS))]
        [stored, layers, *counts], [rebuilding] = yield Batch(
            [Read("HMGET", f"{self._base()}:meta", *fields), Read("HMGET", f"{self._base()}:build", "generation")]
        )
        if stored is not None and stored.decode() != self._parameters:
            raise FilterMismatch(self.name, stored.decode(), self._parameters)
        return [int(count or 0) for count in counts[: int(layers or 0)]], rebuilding is not None

    def _warn(self, added: int) -> Flow[None]:
        """Log once if the filter has more items than its capacity. It is looked at rarely, at random."""
        if secrets.randbelow(max(1, self.capacity // 100)) >= added:
            return
        counts, _ = yield from self._counts()
        if sum(counts) > self.capacity:
            self._has_warned = True
            error = self._plans[0].error_at(sum(counts))
            logger.warning(
                "Bloom filter %r has %d items, more than its capacity of %d: its error rate is %.2g instead of %.2g."
                " Rebuild it with a larger capacity, or with scaling=True.",
                self.name, sum(counts), self.capacity, error, self.error_rate,
            )  # fmt: skip


def info_flow(bloom: BloomFilter) -> Flow[BloomInfo]:
    """Return the flow that reads the state of a filter, in one round trip of two commands."""
    return bloom._info()


_filters: weakref.WeakSet[BloomFilter] = weakref.WeakSet()


def registered_filters() -> dict[str, BloomFilter]:
    """Return the filters of this process by name, ordered by name."""
    return {each.name: each for each in sorted(_filters, key=lambda each: each.name)}


def _hashes(items: list[Item]) -> bytes:
    """Return two hashes of 48 bits for each item."""
    return b"".join([hashlib.blake2b(_encode(item), digest_size=12).digest() for item in items])


def _encode(item: Item) -> bytes:
    if isinstance(item, str):
        return item.encode("utf-8", "surrogatepass")
    if isinstance(item, bytes):
        return item
    if isinstance(item, int | UUID) and not isinstance(item, bool):
        return str(item).encode()
    raise TypeError(f"item={item!r}: expected str, bytes, int or UUID.")


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    if isinstance(items, str | bytes):
        raise TypeError(f"items={items!r}: expected an iterable of items.")
    source = iter(items)
    while chunk := list(islice(source, CHUNK)):
        yield chunk


async def _each(items: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterable[Item]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item

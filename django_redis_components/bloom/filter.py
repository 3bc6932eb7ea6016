"""The Bloom filter: a set that forgets its items, and answers whether an item is in it with a known error."""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncIterable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from django_redis_components.bloom import plans
from django_redis_components.bloom.exceptions import FilterMismatch
from django_redis_components.bloom.hashing import DIGEST_BYTES, HEADER_BITS, Item, digest, digests, operands
from django_redis_components.bloom.info import BloomInfo, describe
from django_redis_components.bloom.plans import BloomPlan
from django_redis_components.bloom.rebuilding import FilterRebuild
from django_redis_components.bloom.scripts import ADD, CONTAINS, CREATE, DELETE, LOOK
from django_redis_components.core.arguments import check_flag, check_iterable
from django_redis_components.core.client import connections
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.scripts import LuaScript

#: Version of the hashes and of the layout: part of the keys.
VERSION = "v1"
#: Items of one call. Longer calls delay other clients of the server.
CHUNK = 1_000

#: Parts of the capacity after which a filter is looked at whether it is full; the same as in lua/shared/adding.lua.
SHARE = 100
#: First bytes of a layer; see lua/shared/layers.lua.
OPEN, CLOSED, REBUILDING = 1, 2, 3
#: Fields of the hash of a filter.
META_FIELDS = ("parameters", "generation", "layers", "layout")
#: "1" in the replies of scripts.
YES = ord("1")

logger = guarded_logger("django_redis_components.bloom")


class KnownState(NamedTuple):
    """What a process knows of a filter: the part of its keys, the layers that it may get, and the keys of those it has.

    The sizes are the stored ones: another version of this package may have created the filter.
    """

    generation: str
    plans: tuple[BloomPlan, ...]
    keys: tuple[str, ...]


class BloomFilter(DeletableComponent):
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

    component = "bloom"
    name_label = "filter name"
    catalog_kind = "BloomFilter"

    def __init__(
        self, name: str, capacity: int, *, error_rate: float = 0.01, scaling: bool = True, using: str = "default"
    ) -> None:
        super().__init__(name, using=using)
        plans.check(capacity, error_rate)
        self.capacity = capacity
        self.error_rate = float(error_rate)
        self.scaling = check_flag(scaling, "scaling")
        self._plans = plans.layers(capacity, self.error_rate, scaling=scaling)
        self._parameters = f"capacity={capacity}, error_rate={self.error_rate}, scaling={scaling}"
        self._has_warned = False
        self._last_state: KnownState | None = None

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
        return self._run(self._add_one(digest(item)))

    async def aadd(self, item: Item) -> bool:
        """See `add`."""
        return await self._arun(self._add_one(digest(item)))

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
        return self._run(self._contains_one(digest(item), default))

    async def acontains(self, item: Item, *, default: bool = False) -> bool:
        """See `contains`."""
        return await self._arun(self._contains_one(digest(item), default))

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
        return {"capacity": self.capacity, "error_rate": self.error_rate, "scaling": self.scaling}

    def _base(self) -> str:
        return self._key(VERSION)

    def _state(self, generation: bytes, layers: bytes, layout: bytes) -> KnownState:
        name, prefix = generation.decode(), f"{self._base()}:{generation.decode()}"
        return KnownState(
            name, plans.parse(layout.decode()), tuple(f"{prefix}:{number}" for number in range(int(layers)))
        )

    def _add_one(self, hashes: bytes) -> Flow[bool]:
        """Add an item by one plain command, if the filter has one layer; the first byte of the layer tells."""
        last_state = self._last_state
        if last_state is None or len(last_state.keys) > 1:
            return (yield from self._add(hashes))[0]
        parts = operands(hashes, last_state.plans[0], is_set=True)
        state, *old = yield Command("BITFIELD", last_state.keys[0], "GET", "u8", "0", *parts)
        if state == OPEN:
            if random.random() * self.capacity < SHARE:
                yield from self._look()
            return 0 in old
        self._last_state = None
        if state == REBUILDING or (state and (yield from self._find(last_state))):
            return (yield from self._add(hashes, seen=last_state.generation, was_new=0 in old))[0] and 0 in old
        yield from self._look(last_state.generation)  # the filter was removed or replaced
        return (yield from self._add(hashes))[0]

    def _find(self, last_state: KnownState | None = None) -> Flow[KnownState | None]:
        """Read which layers there are; None if there is no filter, or another one than that which is known."""
        stored, *state = yield Read("HMGET", f"{self._base()}:meta", *META_FIELDS)
        if stored is None:
            return None
        if stored.decode() != self._parameters:
            raise FilterMismatch(self.name, stored.decode(), self._parameters)
        self._last_state = self._state(*state)
        return self._last_state if last_state is None or last_state.generation == self._last_state.generation else None

    def _add(self, hashes: bytes, seen: str = "", was_new: bool = True) -> Flow[list[bool]]:
        """Add items by the script, and create the filter.

        Args:
            seen: generation of the filter to whose first layer the items were added already.
            was_new: whether they were not in that layer before. Only one of several callers may go on to newer layers:
                it would not be told that the item is new if another one was faster there.
        """
        count = len(hashes) // DIGEST_BYTES
        reply = yield from self._apply(ADD, hashes, look=self._first_look(), seen=seen, was_new=int(was_new))
        if reply is None:
            yield from self._create()
            reply = yield from self._apply(ADD, hashes, look=self._first_look(), seen=seen, was_new=int(was_new))
        if self._last_state is None:
            with suppress(RedisError):  # the next call tries again
                yield from self._find()
        if not self.scaling and random.random() * self.capacity < SHARE * count:
            yield from self._look()
        return [answer == YES for answer in reply or b""]

    def _contains_one(self, hashes: bytes, default: bool) -> Flow[bool]:
        """Look an item up by one plain command for each layer; the first byte of the newest layer tells."""
        last_state = self._last_state or (yield from self._find())
        if last_state is None:
            return default
        reads = []
        for plan, key in reversed(list(zip(last_state.plans, last_state.keys, strict=False))):
            parts = operands(hashes, plan, is_set=False)
            reads.append(Read("BITFIELD_RO", key, "GET", "u8", "0", *parts))
        replies = yield (Batch(reads) if len(reads) > 1 else reads[0])
        replies = replies if len(reads) > 1 else [replies]
        states = [state for state, *_ in replies]
        if states[0] in (OPEN, REBUILDING) and all(state in (OPEN, CLOSED, REBUILDING) for state in states):
            return any(0 not in bits[1:] for bits in replies)
        self._last_state = None  # there are other layers, or some were removed between the commands
        answers: list[bool] = yield from self._contains(hashes, default)
        return answers[0]

    def _contains(self, hashes: bytes, default: bool) -> Flow[list[bool]]:
        reply = yield from self._apply(CONTAINS, hashes)
        count = len(hashes) // DIGEST_BYTES
        return [default] * count if reply is None else [answer == YES for answer in reply]

    def _apply(self, script: LuaScript, hashes: bytes, **arguments: int | str) -> Flow[bytes | None]:
        """Call a script; return its reply, or None if there is no filter."""
        reply = yield script(base=self._base(), parameters=self._parameters, items=hashes, **arguments)
        if isinstance(reply, list):
            raise FilterMismatch(self.name, reply[1].decode(), self._parameters)
        return None if reply == 0 else reply

    def _first_look(self) -> int:
        """Return after how many items to look whether the filter is full: at random, for all callers together."""
        return random.randint(1, max(1, self.capacity // SHARE))

    def _look(self, generation: str = "") -> Flow[None]:
        """Add a layer if the filter is full; log once if it may not grow. An outage loses no answer of `add`."""
        try:
            reply = yield LOOK(base=self._base(), generation=generation)
        except RedisError as exc:
            logger.debug("Whether Bloom filter %r is full was not found out: %s", self.name, exc)
            return
        items = float(reply or 0)
        if self.scaling or self._has_warned or not plans.is_exceeded(self._plans[0], items):
            return
        self._has_warned = True
        logger.warning(
            "Bloom filter %r has about %d items, more than its capacity of %d: its error rate is %.2g instead of %.2g."
            " Rebuild it with a larger capacity, or with scaling=True.",
            self.name, items, self.capacity, plans.expected_error(self._plans[0], items), self.error_rate,
        )  # fmt: skip

    def _create(self) -> Flow[None]:
        generation, layout = secrets.token_hex(8), plans.layout(self._plans)
        yield CREATE(base=self._base(), parameters=self._parameters, generation=generation, layout=layout)

    def _new_rebuild(self) -> FilterRebuild:
        self._record_use()
        layout = plans.layout(self._plans)
        return FilterRebuild(self.name, self._base(), self._parameters, layout, self._first_look)

    def _delete(self) -> Flow[bool]:
        return bool((yield DELETE(base=self._base())))

    def _info(self) -> Flow[BloomInfo]:
        base = self._base()
        [stored, *state], build = yield Batch(
            [Read("HMGET", f"{base}:meta", *META_FIELDS), Read("GET", f"{base}:build")]
        )
        if stored is not None and stored.decode() != self._parameters:
            raise FilterMismatch(self.name, stored.decode(), self._parameters)
        if stored is None:
            return describe(self, self._plans, [], is_rebuilding=build is not None)
        known = self._state(*state)
        set_bits = yield Batch([Read("BITCOUNT", key, HEADER_BITS // 8, -1) for key in known.keys])
        return describe(self, known.plans, set_bits, is_rebuilding=build is not None)


def info_flow(bloom: BloomFilter) -> Flow[BloomInfo]:
    """Return the flow that reads the state of a filter, in two round trips."""
    return bloom._info()


def _chunks(items: Iterable[Item]) -> Iterator[bytes]:
    """Yield the hashes of items, those of up to 1,000 together."""
    source = iter(check_iterable(items, "items"))
    while chunk := digests(islice(source, CHUNK)):
        yield chunk

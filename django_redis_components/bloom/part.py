"""A part of a Bloom filter: its layers, which are in one Cluster slot. Most filters have one part."""

from __future__ import annotations

import dataclasses
import random
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from redis.exceptions import RedisError

from django_redis_components.bloom import plans
from django_redis_components.bloom.exceptions import FilterMismatch
from django_redis_components.bloom.hashing import DIGEST_BYTES, HEADER_BITS, operands
from django_redis_components.bloom.info import BloomInfo, describe
from django_redis_components.bloom.plans import BloomPlan
from django_redis_components.bloom.scripts import ADD, CONTAINS, CREATE, LOOK
from django_redis_components.core import keys
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Batch, Call, Command, Flow, Read
from django_redis_components.core.scripts import LuaScript

#: Version of the hashes and of the layout: part of the keys.
VERSION = "v1"
#: Parts of the capacity after which a filter is looked at whether it is full; the same as in lua/shared/adding.lua.
SHARE = 100
#: First bytes of a layer; see lua/shared/layers.lua.
OPEN, CLOSED, REBUILDING = 1, 2, 3
#: Fields of the hash of a filter.
META_FIELDS = ("parameters", "generation", "layers", "layout")
#: "1" in the replies of scripts.
YES = ord("1")
#: Most parts of a filter.
MAX_PARTS = 64

logger = guarded_logger("django_redis_components.bloom")


@dataclasses.dataclass(slots=True)
class Declaration:
    """What is declared of a filter.

    Attributes:
        name, capacity, error_rate, scaling, parts: the arguments of `BloomFilter`.
        part_capacity: number of items of a part.
        plans: layers that a part may get.
        parameters: as they are stored with each part.
        has_warned: whether this process has logged that the filter has more items than its capacity.
    """

    name: str
    capacity: int
    error_rate: float
    scaling: bool
    parts: int
    part_capacity: int = dataclasses.field(init=False)
    plans: list[BloomPlan] = dataclasses.field(init=False)
    parameters: str = dataclasses.field(init=False)
    has_warned: bool = False

    def __post_init__(self) -> None:
        self.part_capacity = plans.part_capacity(self.capacity, self.parts)
        self.plans = plans.layers(self.part_capacity, self.error_rate, scaling=self.scaling)
        self.parameters = f"capacity={self.capacity}, error_rate={self.error_rate}, scaling={self.scaling}"
        if self.parts > 1:
            self.parameters += f", parts={self.parts}"


class KnownState(NamedTuple):
    """The state of a part as known to a process: generation, possible layers, and the keys of existing ones.

    The sizes are the stored ones: another version of this package may have created the filter.
    """

    generation: str
    plans: tuple[BloomPlan, ...]
    keys: tuple[str, ...]


def base_of(name: str, number: int = 0) -> str:
    """Return the prefix of the keys of a part. The first one has those of a filter without parts."""
    return keys.key("bloom", f"{name}:{number}", VERSION, "part") if number else keys.key("bloom", name, VERSION)


class FilterPart:
    """The flows of a part.

    Args:
        declaration: of the filter.
        number: of the part, from 0.
        create: creates all parts of the filter.
    """

    def __init__(self, declaration: Declaration, number: int, create: Callable[[], Flow[None]]) -> None:
        self._declaration = declaration
        self._number = number
        self._create = create
        self._last_state: KnownState | None = None

    @property
    def base(self) -> str:
        """Prefix of its keys."""
        return base_of(self._declaration.name, self._number)

    @property
    def is_known(self) -> bool:
        """Whether this process has read its state."""
        return self._last_state is not None

    def creation(self) -> Call:
        """Return the call that creates it."""
        declaration = self._declaration
        generation, layout = secrets.token_hex(8), plans.layout(declaration.plans)
        parameters = declaration.parameters
        return CREATE(base=self.base, parameters=parameters, generation=generation, layout=layout)

    def check_parameters(self, stored: bytes | None) -> None:
        """Raise `FilterMismatch` if other parameters are stored."""
        if stored is not None and stored.decode() != self._declaration.parameters:
            raise FilterMismatch(self._declaration.name, stored.decode(), self._declaration.parameters)

    def first_look(self) -> int:
        """Return after how many items to look whether the part is full: at random, for all callers together."""
        return random.randint(1, max(1, self._declaration.part_capacity // SHARE))

    def _state(self, generation: bytes, layers: bytes, layout: bytes) -> KnownState:
        name, prefix = generation.decode(), f"{self.base}:{generation.decode()}"
        return KnownState(
            name, plans.parse(layout.decode()), tuple(f"{prefix}:{number}" for number in range(int(layers)))
        )

    def add_one(self, hashes: bytes) -> Flow[bool]:
        """Add an item by one plain command, if the filter has one layer; the first byte of the layer tells."""
        last_state = self._last_state
        if last_state is None or len(last_state.keys) > 1:
            return (yield from self.add(hashes))[0]
        parts = operands(hashes, last_state.plans[0], is_set=True)
        state, *old = yield Command("BITFIELD", last_state.keys[0], "GET", "u8", "0", *parts)
        if state == OPEN:
            if random.random() * self._declaration.part_capacity < SHARE:
                yield from self._look()
            return 0 in old
        self._last_state = None
        if state == REBUILDING or (state and (yield from self.find(last_state))):
            return (yield from self.add(hashes, seen=last_state.generation, was_new=0 in old))[0] and 0 in old
        yield from self._look(last_state.generation)  # the filter was removed or replaced
        return (yield from self.add(hashes))[0]

    def find(self, last_state: KnownState | None = None) -> Flow[KnownState | None]:
        """Read which layers there are; None if there is no filter, or another one than that which is known."""
        stored, *state = yield Read("HMGET", f"{self.base}:meta", *META_FIELDS)
        if stored is None:
            yield from self._check_first()
            return None
        self.check_parameters(stored)
        self._last_state = self._state(*state)
        return self._last_state if last_state is None or last_state.generation == self._last_state.generation else None

    def add(self, hashes: bytes, seen: str = "", was_new: bool = True) -> Flow[list[bool]]:
        """Add items by the script, and create the filter.

        Args:
            seen: generation of the filter to whose first layer the items were added already.
            was_new: whether they were not in that layer before. Only one of several callers may go on to newer layers:
                it would not be told that the item is new if another one was faster there.
        """
        count = len(hashes) // DIGEST_BYTES
        reply = yield from self._apply(ADD, hashes, look=self.first_look(), seen=seen, was_new=int(was_new))
        if reply is None:
            yield from self._create()
            reply = yield from self._apply(ADD, hashes, look=self.first_look(), seen=seen, was_new=int(was_new))
        if self._last_state is None:
            with suppress(RedisError):  # the next call tries again
                yield from self.find()
        if not self._declaration.scaling and random.random() * self._declaration.part_capacity < SHARE * count:
            yield from self._look()
        return [answer == YES for answer in reply or b""]

    def contains_one(self, hashes: bytes, default: bool) -> Flow[bool]:
        """Look an item up by one plain command for each layer; the first byte of the newest layer tells."""
        last_state = self._last_state or (yield from self.find())
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
        answers: list[bool] = yield from self.contains(hashes, default)
        return answers[0]

    def contains(self, hashes: bytes, default: bool) -> Flow[list[bool]]:
        """Look items up by the script."""
        reply = yield from self._apply(CONTAINS, hashes)
        if reply is not None:
            return [answer == YES for answer in reply]
        yield from self._check_first()
        return [default] * (len(hashes) // DIGEST_BYTES)

    def _check_first(self) -> Flow[None]:
        """Raise `FilterMismatch` if this part does not exist because the filter was created with fewer parts."""
        if self._number:
            self.check_parameters((yield Read("HGET", f"{base_of(self._declaration.name)}:meta", META_FIELDS[0])))

    def _apply(self, script: LuaScript, hashes: bytes, **arguments: int | str) -> Flow[bytes | None]:
        """Call a script; return its reply, or None if there is no filter."""
        reply = yield script(base=self.base, parameters=self._declaration.parameters, items=hashes, **arguments)
        if isinstance(reply, list):
            raise FilterMismatch(self._declaration.name, reply[1].decode(), self._declaration.parameters)
        return None if reply == 0 else reply

    def _look(self, generation: str = "") -> Flow[None]:
        """Add a layer if the filter is full; log once if it may not grow. An outage loses no answer of `add`."""
        try:
            reply = yield LOOK(base=self.base, generation=generation)
        except RedisError as exc:
            logger.debug("Whether Bloom filter %r is full was not found out: %s", self._declaration.name, exc)
            return
        items, declared = float(reply or 0), self._declaration
        if declared.scaling or declared.has_warned or not plans.is_exceeded(declared.plans[0], items):
            return
        declared.has_warned = True
        logger.warning(
            "Bloom filter %r has about %d items, more than its capacity of %d: its error rate is %.2g instead of %.2g."
            " Rebuild it with a larger capacity, or with scaling=True.",
            declared.name, items * declared.parts, declared.capacity,
            plans.expected_error(declared.plans[0], items), declared.error_rate,
        )  # fmt: skip

    def info(self) -> Flow[BloomInfo]:
        """Read the state of the part."""
        base = self.base
        reads = [Read("HMGET", f"{base}:meta", *META_FIELDS), Read("GET", f"{base}:build")]
        [stored, *state], build = yield Batch(reads)
        self.check_parameters(stored)
        if stored is None:
            yield from self._check_first()
            return describe(self._declaration, self._declaration.plans, [], is_rebuilding=build is not None)
        known = self._state(*state)
        set_bits = yield Batch([Read("BITCOUNT", key, HEADER_BITS // 8, -1) for key in known.keys])
        return describe(self._declaration, known.plans, set_bits, is_rebuilding=build is not None)

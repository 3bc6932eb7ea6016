"""From an item to the bits that it sets. Without Redis."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from uuid import UUID

from django_redis_components.bloom.plans import BloomPlan
from django_redis_components.core.arguments import id_text, short_repr

#: Bits before those of the items; see lua/shared/layers.lua.
HEADER_BITS = 64

#: Two hashes of 48 bits.
DIGEST_BYTES = 12

#: An item. 7 and "7" are the same item, and so are "a" and b"a".
Item = str | bytes | int | UUID


def digest(item: Item) -> bytes:
    """Return two hashes of 48 bits.

    Raises:
        TypeError: the type is not accepted.
    """
    return blake2b(_encode(item), digest_size=DIGEST_BYTES).digest()


def digests(items: Iterable[Item]) -> bytes:
    """Return the hashes of items, one after the other; see `digest`."""
    texts = [item.encode("utf-8", "surrogatepass") if item.__class__ is str else _encode(item) for item in items]
    return b"".join([blake2b(text, digest_size=DIGEST_BYTES).digest() for text in texts])


def operands(hashes: bytes, plan: BloomPlan, *, is_set: bool) -> list[str]:
    """Return the operands of BITFIELD that set or get the bits of an item in a layer.

    Enhanced double hashing, the same as in lua/shared/layers.lua.
    """
    bits = plan.bits
    both = int.from_bytes(hashes, "big")
    x, y = (both >> 48) % bits, (both & 0xFFFF_FFFF_FFFF) % bits
    found: list[str] = []
    for number in range(1, plan.hashes + 1):
        found += ("SET", "u1", str(x + HEADER_BITS), "1") if is_set else ("GET", "u1", str(x + HEADER_BITS))
        x, y = (x + y) % bits, (y + number) % bits
    return found


def _encode(item: Item) -> bytes:
    if isinstance(item, str):
        return item.encode("utf-8", "surrogatepass")
    if isinstance(item, bytes):
        return item
    if isinstance(item, int | UUID) and not isinstance(item, bool):
        return id_text(item, "item").encode()
    raise TypeError(f"item={short_repr(item)}: expected a string, bytes, an integer or a UUID.")

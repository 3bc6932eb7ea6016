"""From an item to the bits that it sets. Without Redis."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from uuid import UUID
from zlib import crc32

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


def part_of(hashes: bytes, parts: int) -> int:
    """Return the number of the part that an item is in.

    The bits that an item sets in its part must not depend on which part it is: so it is another hash of the digest.
    Each version of the package must return the same number.
    """
    return crc32(hashes) * parts >> 32


def split_digests(hashes: bytes, parts: int) -> dict[int, tuple[list[int], bytes]]:
    """Return for each part with items the places of these, and their hashes one after the other; see `digests`."""
    split: dict[int, tuple[list[int], list[bytes]]] = {}
    for place in range(len(hashes) // DIGEST_BYTES):
        item = hashes[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES]
        places, found = split.setdefault(part_of(item, parts), ([], []))
        places.append(place)
        found.append(item)
    return {number: (places, b"".join(found)) for number, (places, found) in split.items()}


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

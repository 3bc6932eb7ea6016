"""Blocks of ranges: up to 64 neighboring ranges of addresses in one string. Without Redis.

A block is stored as a member of a sorted set with score 0, so that the server finds the block of an address by the
lexical order of its first bytes. Layout:

======================  =======================================================================
bytes                   content
======================  =======================================================================
16                      start of the first range
1                       number of ranges, n
1                       width w of an offset, in bytes
n times w               start of each range, as an offset from the first one, big-endian
n times w               last address of each range, likewise
n                       index of the place of each range
the rest                places, separated by newlines; the fields of a place by tabs; UTF-8
======================  =======================================================================
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django_redis_components.core.arguments import short_repr
from django_redis_components.geoip.exceptions import InvalidRange
from django_redis_components.geoip.places import UNKNOWN, Address, Place, is_ipv4, pack, unpacked

#: Ranges of a block. More need less memory for each range, and longer replies.
BLOCK_RANGES = 64
#: Bytes of an address.
ADDRESS_BYTES = 16
#: Most characters of a name.
MAX_NAME_CHARS = 100
#: Most times that the addresses of a load may start anew at a lower one, as IPv6 files before IPv4 files do.
MAX_RUNS = 1_000


class IpRange(NamedTuple):
    """A range of addresses of one place.

    Attributes:
        start, end: first and last address.
    """

    start: Address
    end: Address
    place: Place


class Block:
    """A decoded block."""

    __slots__ = ("_ends", "_first", "_indexes", "_places", "_starts")

    def __init__(self, data: bytes) -> None:
        count, width = data[ADDRESS_BYTES], data[ADDRESS_BYTES + 1]
        at = ADDRESS_BYTES + 2
        middle, indexes = at + count * width, at + 2 * count * width
        self._first = int.from_bytes(data[:ADDRESS_BYTES], "big")
        self._starts = [data[n : n + width] for n in range(at, middle, width)]
        self._ends = data[middle:indexes]
        self._indexes = data[indexes : indexes + count]
        self._places = data[indexes + count :].split(b"\n")

    def place(self, packed: bytes) -> Place:
        """Return the place of an address; unknown in a gap between ranges, and after the last one."""
        width = len(self._starts[0])
        try:
            offset = (int.from_bytes(packed, "big") - self._first).to_bytes(width, "big")
        except OverflowError:  # outside of the block
            return UNKNOWN
        index = bisect_right(self._starts, offset) - 1
        if offset > self._ends[index * width : (index + 1) * width]:
            return UNKNOWN
        return Place(*self._places[self._indexes[index]].decode().split("\t"))


def encode(ranges: list[tuple[bytes, bytes, bytes]]) -> bytes:
    """Return the block of ranges: start, last address and place of each, in order."""
    first = int.from_bytes(ranges[0][0], "big")
    span = int.from_bytes(ranges[-1][1], "big") - first
    width = max(1, (span.bit_length() + 7) // 8)
    places = {place: number for number, place in enumerate(dict.fromkeys(place for *_, place in ranges))}

    def offsets(part: int) -> bytes:
        return b"".join((int.from_bytes(each[part], "big") - first).to_bytes(width, "big") for each in ranges)

    head = ranges[0][0] + bytes([len(ranges), width])
    return b"".join([head, offsets(0), offsets(1), bytes(places[place] for *_, place in ranges), b"\n".join(places)])


def blocks(ranges: Iterable[IpRange]) -> Iterator[tuple[bytes, int]]:
    """Yield blocks, each with its number of ranges.

    Args:
        ranges: in the order of their addresses, without overlaps; several sorted parts may follow each other.
            Neighbors of the same place are joined. Those of unknown places are left out.

    Raises:
        InvalidRange: a range is not valid, or overlaps another one.
    """
    order = _Order()
    pending: list[tuple[bytes, bytes, bytes]] = []
    for each in ranges:
        if not isinstance(each, IpRange):
            raise TypeError(f"{short_repr(each)}: expected an IpRange.")
        if not isinstance(each.place, Place) or not all(isinstance(field, str) for field in each.place):
            raise TypeError(f"place={short_repr(each.place)}: expected a Place of texts.")
        start, end = _bounds(each)
        is_new_run = order.check(start, end)
        if each.place.country == UNKNOWN.country:
            continue
        place = _encoded(each.place)
        if pending and (is_new_run or is_ipv4(start) != is_ipv4(pending[-1][0])):
            yield encode(pending), len(pending)
            pending = []
        if pending and pending[-1][2] == place and _follows(pending[-1][1], start):
            pending[-1] = (pending[-1][0], end, place)
            continue
        if len(pending) == BLOCK_RANGES:
            yield encode(pending), len(pending)
            pending = []
        pending.append((start, end, place))
    if pending:
        yield encode(pending), len(pending)


class _Order:
    """Checks that ranges are in order, or in a few parts that are in order and do not overlap."""

    def __init__(self) -> None:
        self._runs: list[tuple[bytes, bytes]] = []
        self._first = self._last = b""
        self._limit = b"\xff" * ADDRESS_BYTES

    def check(self, start: bytes, end: bytes) -> bool:
        """Check a range; return whether it starts a new part."""
        is_new_run = bool(self._last) and start <= self._last
        if is_new_run:
            self._start_run(start, end)
        if not self._last or is_new_run:
            self._first = start
        if end > self._limit:
            raise InvalidRange(_overlap(start, end))
        self._last = end
        return is_new_run

    def _start_run(self, start: bytes, end: bytes) -> None:
        self._runs.append((self._first, self._last))
        overlaps = any(first <= start <= last for first, last in self._runs)
        if overlaps or len(self._runs) > MAX_RUNS:
            raise InvalidRange(_overlap(start, end))
        above = [first for first, _ in self._runs if first > start]
        self._limit = _before(min(above)) if above else b"\xff" * ADDRESS_BYTES


def _overlap(start: bytes, end: bytes) -> str:
    return (
        f"The range {unpacked(start)} to {unpacked(end)} overlaps an earlier one, or is not in order: expected ranges"
        " in the order of their addresses, without overlaps."
    )


def _bounds(ip_range: IpRange) -> tuple[bytes, bytes]:
    start, end = pack(ip_range.start), pack(ip_range.end)
    if start is None or end is None:
        wrong = ip_range.start if start is None else ip_range.end
        raise InvalidRange(f"{short_repr(wrong)} is no IP address.")
    if end < start:
        raise InvalidRange(f"The range ends at {ip_range.end}, before its start {ip_range.start}.")
    if is_ipv4(start) != is_ipv4(end):
        raise InvalidRange(f"The range {ip_range.start} to {ip_range.end} is partly IPv4 and partly IPv6.")
    return start, end


def _encoded(place: Place) -> bytes:
    fields = [" ".join(str(field).split())[:MAX_NAME_CHARS] for field in place]
    return "\t".join(fields).rstrip("\t").encode("utf-8", "replace")


def _before(packed: bytes) -> bytes:
    return (int.from_bytes(packed, "big") - 1).to_bytes(ADDRESS_BYTES, "big")


def _follows(last: bytes, start: bytes) -> bool:
    return int.from_bytes(last, "big") + 1 == int.from_bytes(start, "big")

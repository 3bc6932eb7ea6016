"""Local counts: the lines of a batch by day and key."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Literal

from django_redis_components.aggregation.exceptions import NoRangesLoaded
from django_redis_components.aggregation.log_entry import LogEntry
from django_redis_components.core.arguments import check_choice, check_instance, check_string
from django_redis_components.core.client_address import bare_address
from django_redis_components.core.keys import day_stamp, digest
from django_redis_components.core.names import dotted_path
from django_redis_components.core.protocol import Flow
from django_redis_components.geoip.lookup import IpLookup, has_source, places_flow
from django_redis_components.geoip.places import UNKNOWN

#: Most lines of a batch. A process that is killed reads them again.
MAX_LINES = 100_000
#: Most different counts of a batch, which one script adds in a few milliseconds.
MAX_COUNTS = 4_000
#: Maximum length of a key in UTF-8 bytes; a longer one is truncated and ends with its digest.
MAX_KEY_BYTES = 200
#: Bytes that are kept of a truncated key.
TRUNCATED_BYTES = 160
#: Bad lines whose offsets are reported.
MAX_EXAMPLES = 3

#: Addresses whose places are remembered while logs are counted, about 150 bytes each; and for how many seconds.
MAX_REMEMBERED, REMEMBER_S = 100_000, 300.0

#: What is counted: a function of a request that returns the key, or None for a request that is not counted. With an
#: attribute ``needs_address`` that is true, a line without an address is bad.
EntryKey = Callable[[LogEntry], str | None]


class PlaceKey:
    """Count requests by the place of their address, as "FR", "FR/Île-de-France" or "FR/Île-de-France/Paris".

    Args:
        level: "country", "region" or "city".
        lookup: where places are looked up; None: by the settings.

    Raises:
        ValueError: there is no such level.
    """

    #: Lines without an address would all be counted as unknown.
    needs_address = True

    def __init__(self, level: Literal["country", "region", "city"] = "country", lookup: IpLookup | None = None) -> None:
        levels = ("country", "region", "city")
        self.level = check_choice(level, "level", levels)
        wanted = "an IpLookup or None"
        self.lookup = IpLookup() if lookup is None else check_instance(lookup, "lookup", IpLookup, wanted)
        self._fields = levels.index(level) + 1
        self._texts: dict[str, str] = {}
        self._forget_at = 0.0

    def __repr__(self) -> str:
        return f"<PlaceKey {self.level!r}>"

    def __call__(self, entry: LogEntry) -> str:
        """Return the address: the places of a batch are looked up together."""
        return entry.address

    def _cached_places(self) -> dict[str, str]:
        """Return the keys that are remembered, by address."""
        if time.monotonic() > self._forget_at or len(self._texts) > MAX_REMEMBERED:
            self._texts, self._forget_at = {}, time.monotonic() + REMEMBER_S
        return self._texts

    def _check(self) -> Flow[None]:
        """Check that there are places.

        Raises:
            NoRangesLoaded: there is no database file, and no ranges are loaded.
        """
        if not (yield from has_source(self.lookup)):
            raise NoRangesLoaded(self.lookup.name)

    def _texts_of(self, addresses: Iterable[str]) -> Flow[dict[str, str]]:
        """Return the keys of addresses. They are remembered for 5 minutes.

        Raises:
            NoRangesLoaded: the ranges were removed since `check_places`.
        """
        cached = self._cached_places()
        wanted = [address for address in set(addresses) if address not in cached]
        places = (yield from places_flow(self.lookup, wanted)) if wanted else []
        if wanted and all(place == UNKNOWN for place in places):
            yield from self._check()
        for address, place in zip(wanted, places, strict=True):
            cached[address] = "/".join(place[: self._fields]).rstrip("/")
        return cached


def check_places(key: PlaceKey) -> Flow[None]:
    """Check that there are places.

    Raises:
        NoRangesLoaded: there is no database file, and no ranges are loaded.
    """
    return key._check()


def texts_of(key: PlaceKey, addresses: Iterable[str]) -> Flow[dict[str, str]]:
    """Return the keys of addresses. They are remembered for 5 minutes.

    Raises:
        NoRangesLoaded: the ranges were removed since `check_places`.
    """
    return key._texts_of(addresses)


class LogBatch:
    """The counts of successive lines of a file.

    Attributes:
        lines, bad: number of lines that are requests with what the key needs, and of others.
        unknown: number of lines whose place is unknown, after `place`.
        examples: offsets of the first bad lines.
        counts: number of requests by day and key.
        addresses: number of requests by day and address, for addresses whose place is not known before `place`.
    """

    __slots__ = ("_key", "_needs_address", "_places", "addresses", "bad", "counts", "examples", "lines", "unknown")

    def __init__(self, key: EntryKey) -> None:
        self._key = key
        self._places = key._cached_places() if isinstance(key, PlaceKey) else None
        self._needs_address = bool(getattr(key, "needs_address", False))
        self.lines = self.bad = self.unknown = 0
        self.examples: list[int] = []
        self.counts: Counter[tuple[date, str]] = Counter()
        self.addresses: Counter[tuple[date, str]] = Counter()

    def add(self, entry: LogEntry | None, offset: int = 0) -> None:
        """Count a request; None for a line that is none."""
        if entry is not None and self._places is not None and (place := self._places.get(entry.address)) is not None:
            self.lines += 1
            self.counts[entry.day, place] += 1
        elif entry is None or (self._needs_address and bare_address(entry.address) is None):
            self.bad += 1
            if len(self.examples) < MAX_EXAMPLES:
                self.examples.append(offset)
        else:
            self.lines += 1
            self._count(entry)

    def place(self, texts: dict[str, str]) -> None:
        """Count the requests of addresses by their places, and those of unknown ones.

        Args:
            texts: keys by address.
        """
        for (day, address), count in self.addresses.items():
            self.counts[day, texts[address]] += count
        self.addresses.clear()
        self.unknown = sum(count for (_, key), count in self.counts.items() if key == UNKNOWN.country)

    def _count(self, entry: LogEntry) -> None:
        if self._places is not None:
            self.addresses[entry.day, entry.address] += 1
        elif (key := self._key(entry)) is not None:
            self.counts[entry.day, key] += 1

    def is_full(self) -> bool:
        """Return whether the batch should be flushed."""
        return len(self.counts) + len(self.addresses) >= MAX_COUNTS or self.lines + self.bad >= MAX_LINES


def flat(batch: LogBatch) -> Sequence[str | int]:
    """Return day, key and count of each, grouped by day."""
    merged: Counter[tuple[str, str]] = Counter()
    for (day, key), count in batch.counts.items():
        merged[day_stamp(day), key_name(key)] += count
    return [part for (day, key), count in sorted(merged.items()) for part in (day, key, count)]


def name_of_key(key: EntryKey) -> str:
    """Return the name of a key function, by which counts of two of them under one name are noticed."""
    if isinstance(key, PlaceKey):
        return key.level
    return dotted_path(key)


def key_name(key: str) -> str:
    """Return the name that a key is counted under; "-" if it is empty.

    Raises:
        TypeError: not a string.
    """
    data = (check_string(key, "key") or "-").encode("utf-8", "replace")
    if len(data) > MAX_KEY_BYTES:
        return f"{data[:TRUNCATED_BYTES].decode('utf-8', 'ignore')}…{digest(key)}"
    return data.decode()

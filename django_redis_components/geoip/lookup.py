"""The place of an IP address, from a database file or from ranges in Redis."""

from __future__ import annotations

import dataclasses
import os
from bisect import bisect_right
from collections.abc import AsyncIterable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from django_redis_components.core.arguments import check_choice, check_iterable, check_string
from django_redis_components.core.chunks import chunks
from django_redis_components.core.client import connections
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable
from django_redis_components.core.units import moment_of
from django_redis_components.geoip.blocks import ADDRESS_BYTES, Block, IpRange, blocks
from django_redis_components.geoip.mmdb import mmdb_file
from django_redis_components.geoip.places import UNKNOWN, Address, Place, pack_public, public_address
from django_redis_components.geoip.rebuilding import RangesRebuild, read_blocks
from django_redis_components.geoip.scripts import DELETE, FIND_RANGES

#: Addresses of one call. Each may need a block of about 2 KiB.
MAX_ADDRESSES = 500
#: Where places are looked up.
Source = Literal["auto", "mmdb", "ranges"]
SOURCES: tuple[Source, ...] = ("auto", "mmdb", "ranges")

logger = guarded_logger("django_redis_components.geoip")


@dataclasses.dataclass(frozen=True, slots=True)
class RangesInfo:
    """The loaded ranges.

    Attributes:
        ranges, blocks: their number; 0 if none are loaded.
        source: where they are from, such as the names of files.
        loaded_at: when they became visible; None if none are loaded.
    """

    ranges: int
    blocks: int
    source: str
    loaded_at: datetime | None


class IpLookup(DeletableComponent):
    """Look up the places of IP addresses.

    Args:
        name: name of the ranges in Redis.
        mmdb: path of a database file; None: ``GEOIP["MMDB"]``.
        source: "mmdb": the database file; "ranges": the ranges in Redis; "auto": the file if there is one, else the
            ranges.
        using: connection alias of the ranges.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "geoip"
    name_label = "name of ranges"
    catalog_kind = "IpLookup"

    def __init__(
        self,
        name: str = "default",
        *,
        mmdb: str | os.PathLike[str] | None = None,
        source: Source = "auto",
        using: str = "default",
    ) -> None:
        super().__init__(name, using=using)
        check_choice(source, "source", SOURCES)
        if mmdb is not None and source == "ranges":
            raise ValueError(f"mmdb={os.fspath(mmdb)!r}: expected none with source='ranges'.")
        self.mmdb = None if mmdb is None else os.fspath(mmdb)
        self.source = source
        self._has_warned = False

    def __repr__(self) -> str:
        return f"<IpLookup {self._mmdb_path() or self.name!r}>"

    def _mmdb_path(self) -> str | None:
        """Return the path of the database file that is used; None if the ranges in Redis are used.

        Raises:
            ValueError: ``source="mmdb"``, and there is no path.
        """
        path = None if self.source == "ranges" else self.mmdb or conf.settings().geoip.mmdb
        if path is None and self.source == "mmdb":
            raise ValueError('source="mmdb": expected a path in mmdb or in REDIS_COMPONENTS["GEOIP"]["MMDB"].')
        return path

    def lookup(self, ip: Address) -> Place:
        """Return the place of an address.

        The place is ``UNKNOWN``, with the country "ZZ", for private addresses, for addresses that are in no range, and
        for text that is no address: nothing is resolved by DNS.

        Raises:
            DatabaseUnavailable: the database file is missing or damaged.
            redis.exceptions.RedisError: the ranges could not be read.
        """
        if (path := self._mmdb_path()) is not None:
            return _from_file(path, (ip,))[0]
        return self._run(self._lookup((ip,)))[0]

    async def alookup(self, ip: Address) -> Place:
        """See `lookup`. A database file is read without a thread: it is in memory."""
        return (await self.alookup_many((ip,)))[0]

    def lookup_many(self, ips: Iterable[Address]) -> list[Place]:
        """Return the place of each address; see `lookup`. With ranges: one round trip for 500 different addresses."""
        wanted = list(check_iterable(ips, "ips", "addresses"))
        if (path := self._mmdb_path()) is not None:
            return _from_file(path, wanted)
        return self._run(self._lookup(wanted)) if wanted else []

    async def alookup_many(self, ips: Iterable[Address]) -> list[Place]:
        """See `lookup_many`."""
        wanted = list(check_iterable(ips, "ips", "addresses"))
        if (path := self._mmdb_path()) is not None:
            return _from_file(path, wanted)
        return await self._arun(self._lookup(wanted)) if wanted else []

    def rebuild(self, items: Iterable[IpRange], *, source: str = "") -> int:
        """Replace the ranges in Redis in one step, after all were added, and return their number.

        Until then, and after an error, the former ones are used. Neighbors of the same place are counted as one.

        Args:
            items: ranges in the order of their addresses, without overlaps; several sorted parts may follow each other.
            source: where they are from, for `info`.

        Raises:
            InvalidRange: a range is not valid, or overlaps another one, or no range has a country.
            RebuildSuperseded: a later one has started, or this one paused for 15 minutes.
        """
        return self._new_rebuild(source).run(connections.client(self.using), blocks(check_iterable(items, "items")))

    async def arebuild(self, items: Iterable[IpRange] | AsyncIterable[IpRange], *, source: str = "") -> int:
        """See `rebuild`. An iterable is read in a thread; an asynchronous one whole before the first is added."""
        known = [each async for each in items] if isinstance(items, AsyncIterable) else check_iterable(items, "items")
        client = connections.aclient(self.using)
        return await self._new_rebuild(source).arun(client, read_blocks(client, blocks(known)))

    def info(self) -> RangesInfo:
        """Return what is loaded in Redis."""
        return self._run(self._info())

    async def ainfo(self) -> RangesInfo:
        """See `info`."""
        return await self._arun(self._info())

    def _catalog_options(self) -> dict[str, Any]:
        return {"source": "ranges"}

    def _base(self) -> str:
        return self._key()

    def _lookup(self, ips: Sequence[Address]) -> Flow[list[Place]]:
        packed = [pack_public(ip) for ip in ips]
        wanted = sorted({each for each in packed if each is not None})
        places: dict[bytes | None, Place] = {}
        for part in chunks(wanted, MAX_ADDRESSES):
            reply: Sequence[bytes] = yield FIND_RANGES(base=self._base(), addresses=part)
            if not reply:
                yield from self._warn_if_empty()
            starts = [block[:ADDRESS_BYTES] for block in reply]
            decoded = [Block(block) for block in reply]
            for address in part:
                number = bisect_right(starts, address) - 1
                places[address] = decoded[number].place(address) if number >= 0 else UNKNOWN
        return [places.get(each, UNKNOWN) for each in packed]

    def _warn_if_empty(self) -> Flow[None]:
        if self._has_warned or (yield from are_ranges_loaded(self)):
            return
        self._has_warned = True
        logger.warning(
            "No ranges %r are loaded: all places are unknown. Load them by manage.py load_ip_ranges, or set"
            ' REDIS_COMPONENTS["GEOIP"]["MMDB"].',
            self.name,
        )

    def _new_rebuild(self, source: str) -> RangesRebuild:
        self._record_use()
        return RangesRebuild(self.name, self._base(), encodable(check_string(source, "source")))

    def _delete(self) -> Flow[bool]:
        return bool((yield DELETE(base=self._base())))

    def _info(self) -> Flow[RangesInfo]:
        ranges, count, source, loaded_at = yield Read("HMGET", self._base(), "ranges", "blocks", "source", "loaded_at")
        at = None if loaded_at is None else moment_of(int(loaded_at) * 1_000_000)
        return RangesInfo(int(ranges or 0), int(count or 0), (source or b"").decode(), at)


def lookup_flow(lookup: IpLookup, ips: Sequence[Address]) -> Flow[list[Place]]:
    """Return the flow that looks addresses up in the ranges in Redis."""
    return lookup._lookup(ips)


def places_flow(lookup: IpLookup, ips: Sequence[Address]) -> Flow[list[Place]]:
    """Return the flow of `IpLookup.lookup_many`, to run it on the connection of the lookup."""
    if (path := lookup._mmdb_path()) is not None:
        return _from_file(path, ips)
    return (yield from lookup._lookup(ips))


def has_source(lookup: IpLookup) -> Flow[bool]:
    """Return whether there is a database file, or ranges in Redis."""
    return lookup._mmdb_path() is not None or (yield from are_ranges_loaded(lookup))


def are_ranges_loaded(lookup: IpLookup) -> Flow[bool]:
    """Return whether there are ranges in Redis. A load of an earlier version may have left none."""
    return int((yield Read("HGET", lookup._base(), "ranges")) or 0) > 0


def info_flow(lookup: IpLookup) -> Flow[RangesInfo]:
    """Return the flow of `IpLookup.info`, to run it with others."""
    return lookup._info()


def _from_file(path: str, ips: Sequence[Address]) -> list[Place]:
    file = mmdb_file(path)
    public = map(public_address, ips)
    return [UNKNOWN if address is None else file.place(address) for address in public]

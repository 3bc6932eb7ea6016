"""Ranges of addresses from the CSV files of DB-IP, IP2Location, MaxMind and IPinfo."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_network
from pathlib import Path
from typing import BinaryIO, Literal

from django_redis_components.core.regular_files import open_regular_file
from django_redis_components.geoip.blocks import IpRange
from django_redis_components.geoip.exceptions import InvalidRange
from django_redis_components.geoip.lookup import IpLookup, RangesInfo
from django_redis_components.geoip.places import UNKNOWN, Address, Place

#: The format of a file.
RangeFormat = Literal["dbip", "ip2location", "geolite2", "ipinfo"]
RANGE_FORMATS: tuple[RangeFormat, ...] = ("dbip", "ip2location", "geolite2", "ipinfo")
#: First bytes of a gzip file.
GZIP_MAGIC = b"\x1f\x8b"
#: Most bytes of a line; longer ones are errors.
MAX_LINE_BYTES = 65_536

#: Reads a row of a format.
RowReader = Callable[[Sequence[str]], IpRange]


class RangeFile:
    """A CSV file of ranges, also one compressed with gzip.

    Args:
        path: of the file.
        locations: places by the id that the rows of GeoLite2 name; see `read_locations`.
        format: of the file; None: told from its first line.
        on_read: called with the position in the file, in bytes, now and then.
    """

    def __init__(
        self,
        path: str,
        locations: dict[str, Place] | None = None,
        format: RangeFormat | None = None,
        on_read: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.path = Path(path)
        self._locations = locations
        #: None until the first line was read.
        self.format = format
        self._on_read = on_read
        #: Number of the line that was read last.
        self.line = 0

    def __iter__(self) -> Iterator[IpRange]:
        """Yield the ranges.

        Raises:
            InvalidRange: a line is not valid; `load_files` adds its number.
            OSError: the file cannot be read.
        """
        self.line = 0
        reader: RowReader | None = None
        try:
            for number, row in _rows(self.path, self._on_read):
                self.line = number
                if reader is None:
                    reader = self._reader(row)
                    if _is_header(row):
                        continue
                yield reader(row)
        except (ValueError, IndexError, csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as exc:
            self.line += isinstance(exc, csv.Error)  # the row after the last one
            raise InvalidRange("too few columns" if isinstance(exc, IndexError) else str(exc)) from exc

    def _reader(self, row: Sequence[str]) -> RowReader:
        self.format = name = self.format or detect_format(row)
        if name == "dbip":
            return _dbip
        if name == "ip2location":
            return _ip2location
        if name == "ipinfo":
            return _ipinfo(row)
        if self._locations is None:
            raise ValueError("the file of blocks of GeoLite2 needs a file of locations: pass --locations")
        return _geolite2(row, self._locations)


_IP2LOCATION_HINT = " A file of IPv6 of IP2Location has the IPv4 ranges too: load it alone."


def load_files(lookup: IpLookup, files: Sequence[RangeFile]) -> RangesInfo:
    """Replace the ranges of `lookup` with those of files; see `IpLookup.rebuild`.

    Raises:
        InvalidRange: a line is not valid, or a file has no range with a country; the text names the file and the line.
            The former ranges stay in use.
        OSError: a file cannot be read.
    """
    current = files[0]

    def ranges() -> Iterator[IpRange]:
        nonlocal current
        for current in files:
            has_country = False
            for each in current:
                has_country = has_country or each.place.country != UNKNOWN.country
                yield each
            if not has_country:
                raise InvalidRange("The file has no ranges with a country: the former ranges stay in use.")

    try:
        lookup.rebuild(ranges(), source=", ".join(file.path.name for file in files))
        return lookup.info()
    except InvalidRange as exc:
        hint = (
            _IP2LOCATION_HINT if len(files) > 1 and current.format == "ip2location" and "overlaps" in exc.reason else ""
        )
        raise InvalidRange(f"{current.path}, line {max(1, current.line)}: {exc.reason.rstrip('.')}.{hint}") from exc


def detect_format(row: Sequence[str]) -> RangeFormat:
    """Return the format of a file by its first row.

    Raises:
        ValueError: it is not known.
    """
    if row and row[0] == "network":
        return "ipinfo" if "country_code" in row else "geolite2"
    if len(row) >= 3 and row[0].isdecimal() and row[1].isdecimal():
        return "ip2location"
    if len(row) >= 3 and not _is_header(row):
        return "dbip"
    raise ValueError(
        f"unknown columns {', '.join(row)[:100]!r}: expected a file of DB-IP Lite, IP2Location LITE, IPinfo"
        " Lite, or blocks of GeoLite2"
    )


def read_locations(path: str) -> dict[str, Place]:
    """Return the places of a file of locations of GeoLite2 by their ids.

    Raises:
        InvalidRange: the file is not one.
        OSError: it cannot be read.
    """
    number, places = 0, {}
    columns: dict[str, int] = {}
    try:
        for number, row in _rows(Path(path), lambda _: None):
            if number == 1:
                columns = {name: index for index, name in enumerate(row)}
                if not {"geoname_id", "country_iso_code"} <= columns.keys():
                    raise ValueError("expected the columns geoname_id and country_iso_code")
                continue
            values = (row[columns[name]] if name in columns else "" for name in _LOCATION_COLUMNS)
            places[row[columns["geoname_id"]]] = _place(*values)
    except (ValueError, IndexError, csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as exc:
        reason = "too few columns" if isinstance(exc, IndexError) else str(exc)
        raise InvalidRange(f"{path}, line {number or 1}: {reason}.") from exc
    return places


_LOCATION_COLUMNS = ("country_iso_code", "subdivision_1_name", "city_name")


def _rows(path: Path, on_read: Callable[[int], object]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the number of each line and its columns."""
    with open_regular_file(path) as file:
        is_gzip = file.read(2) == GZIP_MAGIC
        file.seek(0)
        source: BinaryIO = gzip.GzipFile(fileobj=file) if is_gzip else file  # type: ignore[assignment]
        with io.TextIOWrapper(source, encoding="utf-8-sig", errors="replace", newline="") as text:
            reader = csv.reader(iter(lambda: text.readline(MAX_LINE_BYTES), ""), strict=True)
            for row in reader:
                if reader.line_num % 1_000 == 0:
                    on_read(file.tell())
                if row:
                    yield reader.line_num, row
            on_read(file.tell())


def _is_header(row: Sequence[str]) -> bool:
    return not row[0][:1].isdecimal() and ":" not in row[0]


def _dbip(row: Sequence[str]) -> IpRange:
    if len(row) == 3:  # start, end, country
        return IpRange(row[0], row[1], _place(row[2]))
    return IpRange(row[0], row[1], _place(row[3], row[4], row[5]))  # start, end, continent, country, region, city, …


def _ip2location(row: Sequence[str]) -> IpRange:
    region, city = (row[4], row[5]) if len(row) >= 6 else ("", "")
    start, end = _number(row[0]), _number(row[1])
    kind = IPv4Address if end < 2**32 else IPv6Address
    return IpRange(kind(start), kind(end), _place(row[2], region, city))


def _geolite2(header: Sequence[str], locations: dict[str, Place]) -> RowReader:
    column = header.index("geoname_id")

    def read(row: Sequence[str]) -> IpRange:
        network = ip_network(row[0])
        ends: tuple[Address, Address] = (network[0], network[-1])
        if row[column] and row[column] not in locations:
            raise ValueError(f"unknown location {row[column]!r}")
        return IpRange(*ends, locations.get(row[column], UNKNOWN))

    return read


def _ipinfo(header: Sequence[str]) -> RowReader:
    column = header.index("country_code")

    def read(row: Sequence[str]) -> IpRange:
        network = ip_network(row[0])
        return IpRange(network[0], network[-1], _place(row[column]))

    return read


def _number(value: str) -> int:
    if not value.isdecimal() or len(value) > 39 or int(value) >= 2**128:
        raise ValueError(f"{value[:50]!r} is no number of an IP address")
    return int(value)


def _place(country: str, region: str = "", city: str = "") -> Place:
    """Return a place; "-" and "" are unknown."""
    if country in ("", "-", UNKNOWN.country):
        return UNKNOWN
    if len(country) != 2 or not (country.isascii() and country.isalpha()):
        raise ValueError(f"{country[:50]!r} is no country code of two letters")
    return Place(country.upper(), *(("" if name == "-" else name) for name in (region, city)))

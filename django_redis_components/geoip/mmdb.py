"""Look-ups in a database file of the format MaxMind DB (``.mmdb``), which is mapped into memory."""

from __future__ import annotations

import os
import threading
import time
from itertools import islice
from typing import Any

from django_redis_components.core.exceptions import missing_extra
from django_redis_components.core.regular_files import open_regular_file
from django_redis_components.geoip.exceptions import DatabaseUnavailable
from django_redis_components.geoip.places import UNKNOWN, Address, Place

#: Seconds between two checks whether the file was replaced, as by an update.
CHECK_EVERY_S = 30.0
#: Records among which a country is looked for when a file is opened. That of networks (ASN) has none in any.
MAX_RECORDS = 10_000
#: Language of the names.
LANGUAGE = "en"


class MmdbFile:
    """A database file. It is opened once in a process, and again after it was replaced."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._mutex = threading.Lock()
        self._reader: Any = None
        self._version: tuple[int, int] | None = None
        self._check_at = 0.0

    def place(self, address: Address) -> Place:
        """Return the place of a valid address.

        Raises:
            DatabaseUnavailable: the file is missing or damaged, or has no countries.
        """
        now = time.monotonic()
        if now >= self._check_at:
            with self._mutex:
                self._open_if_replaced()
                self._check_at = now + CHECK_EVERY_S
        try:
            record = self._reader.get(address)
        except _library().InvalidDatabaseError as exc:
            raise DatabaseUnavailable(self.path, str(exc)) from exc
        except ValueError as exc:
            if ":" in str(address):  # an IPv6 address, and a database of IPv4 only
                return UNKNOWN
            raise DatabaseUnavailable(self.path, str(exc)) from exc
        return place_of(record)

    def _open_if_replaced(self) -> None:
        maxminddb = _library()
        try:
            with open_regular_file(self.path) as file:
                status = os.fstat(file.fileno())
            version = (status.st_ino, status.st_mtime_ns)
            if version == self._version:
                return
            reader = maxminddb.open_database(self.path)
            if not any(place_of(record) != UNKNOWN for _, record in islice(reader, MAX_RECORDS)):
                raise maxminddb.InvalidDatabaseError(
                    f"it has no countries: its type is {reader.metadata().database_type!r}"
                )
            # The former reader is not closed: another thread may be using it.
            self._reader = reader
        except (OSError, maxminddb.InvalidDatabaseError) as exc:
            if self._reader is not None:  # it is being replaced: the former one stays in use
                return
            raise DatabaseUnavailable(self.path, str(exc)) from exc
        self._version = version


def place_of(record: Any) -> Place:
    """Return the place of a record of the databases of MaxMind, DB-IP, IP2Location or IPinfo."""
    if not isinstance(record, dict):
        return UNKNOWN
    country = record.get("country")
    code = country.get("iso_code") if isinstance(country, dict) else record.get("country_code", country)
    if not isinstance(code, str) or len(code) != 2:
        return UNKNOWN
    regions = record.get("subdivisions")
    region = _name(regions[0]) if isinstance(regions, list) and regions else _name(record.get("region"))
    return Place(code, region, _name(record.get("city")))


def _name(part: Any) -> str:
    name = part.get("names", {}).get(LANGUAGE, "") if isinstance(part, dict) else part
    return name if isinstance(name, str) else ""


def _library() -> Any:
    try:
        import maxminddb
    except ImportError as exc:
        raise missing_extra("Looking places up in an mmdb file", "maxminddb", "geoip") from exc
    return maxminddb


_files: dict[str, MmdbFile] = {}


def mmdb_file(path: str) -> MmdbFile:
    """Return the file of a path; the same one for all callers of the process."""
    return _files.get(path) or _files.setdefault(path, MmdbFile(path))

"""The formats of stored data: a number for each component, by which a release notices what it cannot read.

Workers and pollers compare the numbers on their connection once, when they start; so do `redis doctor` and
`redis migrate`. Nothing else reads them. The process that starts first records its numbers; a server without them has
data of format 1, or none.

A component's number changes only if the release before could not read what is written from then on. Two minor
releases introduce a format: the first reads it (`READ_AHEAD`), the second writes it (`WRITTEN`). So processes of two
successive minor releases run together, and the later one can be rolled back.

================================  ====  ===================================================  =============
key                               type  content                                              TTL
================================  ====  ===================================================  =============
``<prefix>:format:{default}``     hash  by component: number and release that recorded it;   none
                                        ``<component>:migrated``: number without older data
================================  ====  ===================================================  =============
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from django_redis_components import __version__
from django_redis_components.core import keys
from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.exceptions import StoredFormatTooNew
from django_redis_components.core.protocol import Batch, Command, Flow, Read

#: The format that this release writes, by component: the second part of keys.
WRITTEN: dict[str, int] = {
    "aggregation": 1,
    "analytics": 1,
    "autocomplete": 1,
    "bloom": 1,
    "catalog": 1,
    "expiry": 1,
    "files": 1,
    "geoip": 1,
    "live": 1,
    "locks": 1,
    "messaging": 1,
    "problems": 1,
    "ratelimits": 1,
    "search": 1,
    "semaphores": 1,
    "taskqueue": 1,
    "transactions": 1,
}
#: The newest format that this release reads, of a component whose next release writes a newer one than this.
READ_AHEAD: dict[str, int] = {}

#: A number, and the release that recorded it.
_VALUE = re.compile(r"([1-9][0-9]{0,5}) ([\w.+!-]{1,40})", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class StoredFormats:
    """What is recorded on a server.

    Attributes:
        record: the hash.
    """

    record: Mapping[bytes, bytes]

    def number(self, component: str) -> int:
        """Return the format of a component: 1 if it was never recorded, 0 if the value cannot be read."""
        value = self._value(component)
        if value is None:
            return 1
        return int(found[1]) if (found := _VALUE.fullmatch(value)) else 0

    def migrated(self, component: str) -> int:
        """Return the format below which a component has no data, because a migration has converted them."""
        value = self._value(f"{component}:migrated") or ""
        return int(found[1]) if (found := _VALUE.fullmatch(value)) else 1

    def newer(self) -> list[str]:
        """Return descriptions of the components whose data this release cannot read."""
        found = []
        for component, written in WRITTEN.items():
            newest, number = max(written, READ_AHEAD.get(component, 0)), self.number(component)
            if not 1 <= number <= newest:
                found.append(f"{component} has {self._describe(component)} (this release reads up to {newest})")
        return found

    def check(self, address: str) -> None:
        """Raise an error if this release cannot read the data.

        Args:
            address: of the server.

        Raises:
            StoredFormatTooNew: it cannot.
        """
        if newer := self.newer():
            raise StoredFormatTooNew(address, __version__, newer)

    def _value(self, component: str) -> str | None:
        value = self.record.get(component.encode())
        return None if value is None else value.decode(errors="replace")

    def _describe(self, component: str) -> str:
        value = self._value(component) or ""
        found = _VALUE.fullmatch(value)
        return f"format {found[1]}, written by release {found[2]}" if found else f"an unknown format {value[:40]!r}"


def formats_key() -> str:
    """Return the key of the record. It shares the slot of the queue: a worker needs no other node to start."""
    return keys.key("format", "default")


def read_formats() -> Flow[StoredFormats]:
    """Read the record. A server without one has data of format 1, or none."""
    return _parsed((yield Read("HGETALL", formats_key())))


def record_formats(address: str) -> Flow[StoredFormats]:
    """Check that this release reads the stored data, and record the formats that it writes.

    Args:
        address: of the server, for the error.

    Raises:
        StoredFormatTooNew: it does not.
    """
    stored = yield from read_formats()
    stored.check(address)
    while writes := _writes(stored):  # again if an older release was the first to write an absent number
        *_, reply = yield Batch([*writes, Read("HGETALL", formats_key())])
        stored = _parsed(reply)
        stored.check(address)  # a newer release may have started meanwhile
    return stored


def record_migrated(component: str, number: int) -> Command:
    """Return the command that records that a component has no data below a format."""
    return Command("HSET", formats_key(), f"{component}:migrated", _value_of(number), retry=True)


def _writes(stored: StoredFormats) -> list[Command]:
    """Return the commands that record what is absent, and raise what is lower.

    Neither lowers a number while processes of two releases start. Of three that start within a round trip, the middle
    one may overwrite the number of the newest, whose next process raises it again.
    """
    key = formats_key()
    absent = [name for name in WRITTEN if name.encode() not in stored.record]
    lower = [name for name, number in WRITTEN.items() if name not in absent and stored.number(name) < number]
    return [
        *(Command("HSETNX", key, name, _value_of(WRITTEN[name]), retry=True) for name in absent),
        *(Command("HSET", key, name, _value_of(WRITTEN[name]), retry=True) for name in lower),
    ]


def _value_of(number: int) -> str:
    return f"{number} {__version__}"


def _parsed(pairs: list[bytes]) -> StoredFormats:
    return StoredFormats(dict(pairs_of(pairs)))

"""The index of a counter's periods that are stored (see lua/shared/stored_periods.lua)."""

from __future__ import annotations

from django_redis_components.core.protocol import Flow, Read

#: Names that one SSCAN looks at.
SCAN_COUNT = 1_000


def stored_periods(index: str) -> Flow[list[str]]:
    """Return the names of the periods in an index, in order. Some may have expired."""
    found, cursor = set[bytes](), 0
    while True:
        cursor, names = yield Read("SSCAN", index, cursor, "COUNT", SCAN_COUNT)
        found.update(names)
        if not int(cursor):
            return sorted(name.decode() for name in found)

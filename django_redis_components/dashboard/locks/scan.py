"""A scan of a part of the keys for a page, and the cursors to continue.

Locks have no index: it would cost each acquire and each release another write. A page therefore scans some thousand
keys, shows how many, and passes the cursors on in a link.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from django_redis_components.core.gather import gather_values
from django_redis_components.core.key_scan import Cursors, count_keys, scan_step, step_size
from django_redis_components.core.protocol import Flow

#: COUNT of the SCAN: it blocks the server for two to three milliseconds.
COUNT = 10_000
#: Most primaries whose cursors a link may contain.
MAX_PRIMARIES = 1_000

T = TypeVar("T")
_CURSORS = re.compile(r"\d{1,6}\.\d{1,20}(,\d{1,6}\.\d{1,20})*")


@dataclasses.dataclass(frozen=True, slots=True)
class ScanResult(Generic[T]):
    """The result of a partial scan.

    Attributes:
        items: the items, unique and sorted.
        scanned: number of keys scanned, approximately.
        total: number of keys on all primaries.
        cursors: where to continue; empty at the end.
    """

    items: list[T]
    scanned: int
    total: int
    cursors: Cursors


def cursors_from_text(value: str) -> Cursors:
    """Parse the cursors of a link; none if invalid, which starts a new scan."""
    if not _CURSORS.fullmatch(value):
        return {}
    pairs = [part.split(".") for part in value.split(",", MAX_PRIMARIES)[:MAX_PRIMARIES]]
    return {anchor: int(cursor) for anchor, cursor in pairs if int(cursor) < 2**64}


def cursors_to_text(cursors: Cursors) -> str:
    """Format cursors for a link."""
    return ",".join(f"{anchor}.{cursor}" for anchor, cursor in cursors.items())


def scan_items(
    pattern: str, parse: Callable[[str], T | None], cursors: Cursors, anchors: Sequence[str]
) -> Flow[ScanResult[T]]:
    """Scan the next part of the keyspace in one round trip.

    Args:
        pattern: of the keys.
        parse: returns the item of a key, or None.
        cursors: where to start.
        anchors: a key on each primary.
    """
    total, (keys, left) = yield from gather_values([count_keys(anchors), scan_step(cursors, pattern, count=COUNT)])
    items: set[Any] = {item for key in keys if (item := parse(_decode(key))) is not None}
    return ScanResult(sorted(items), min(total, step_size(cursors, COUNT)), total, left)


def _decode(key: bytes) -> str:
    """Decode a key. A key that is not UTF-8 is not from this package: a brace makes sure that it does not match."""
    return key.decode(errors="replace").replace("\ufffd", "{")

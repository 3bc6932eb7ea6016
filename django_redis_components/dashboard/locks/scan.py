"""A scan of a bounded part of the keyspace: one SCAN per primary, and the cursors to continue.

Locks have no index: it would cost each acquire and each release another write. A page therefore scans some thousand
keys, shows how many, and passes the cursors on in a link.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from django_redis_components.core.protocol import Batch, Command, Flow, Read

#: COUNT of the SCAN: it blocks the server for two to three milliseconds.
COUNT = 10_000
#: Most primaries that one page scans.
MAX_SCANS = 50
#: Most primaries whose cursors a link may contain.
MAX_PRIMARIES = 1_000

T = TypeVar("T")
_CURSORS = re.compile(r"\d{1,6}\.\d{1,20}(,\d{1,6}\.\d{1,20})*")
_GLOB_CHARACTERS = re.compile(r"([*?\[\]\\^])")


@dataclasses.dataclass(frozen=True, slots=True)
class ScanCursor:
    """The position of a scan on one primary.

    Attributes:
        anchor: a key on that primary, for routing.
        cursor: from its last SCAN; 0 at the start.
    """

    anchor: str
    cursor: int


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
    cursors: tuple[ScanCursor, ...]


def cursors_from_text(value: str) -> tuple[ScanCursor, ...]:
    """Parse the cursors of a link; () if invalid, which starts a new scan."""
    if not _CURSORS.fullmatch(value):
        return ()
    pairs = [part.split(".") for part in value.split(",", MAX_PRIMARIES)[:MAX_PRIMARIES]]
    return tuple(ScanCursor(anchor, int(cursor)) for anchor, cursor in pairs if int(cursor) < 2**64)


def cursors_to_text(cursors: Iterable[ScanCursor]) -> str:
    """Format cursors for a link."""
    return ",".join(f"{each.anchor}.{each.cursor}" for each in cursors)


def escape_glob(literal: str) -> str:
    """Escape a text for the pattern of SCAN."""
    return _GLOB_CHARACTERS.sub(r"\\\1", literal)


def scan_keys(
    pattern: str, parse: Callable[[str], T | None], cursors: tuple[ScanCursor, ...], anchors: list[str]
) -> Flow[ScanResult[T]]:
    """Scan the next part of the keyspace in one round trip.

    Args:
        pattern: of the keys.
        parse: returns the item of a key, or None.
        cursors: where to start.
        anchors: a key on each primary.
    """
    current, postponed = cursors[:MAX_SCANS], cursors[MAX_SCANS:]
    replies = yield Batch(
        [*[Read("DBSIZE", key=anchor) for anchor in anchors], *[_scan(each, pattern) for each in current]]
    )
    total, scans = sum(replies[: len(anchors)]), replies[len(anchors) :]
    items: set[Any] = set()
    items.update(item for _, keys in scans for key in keys if (item := parse(_decode(key))) is not None)
    after = zip(current, (int(cursor) for cursor, _ in scans), strict=True)
    unfinished = [ScanCursor(each.anchor, cursor) for each, cursor in after if cursor]
    return ScanResult(sorted(items), min(total, len(current) * COUNT), total, (*unfinished, *postponed))


def _scan(cursor: ScanCursor, pattern: str) -> Command:
    return Read("SCAN", cursor.cursor, "MATCH", pattern, "COUNT", COUNT, key=cursor.anchor)


def _decode(key: bytes) -> str:
    """Decode a key. A key that is not UTF-8 is not from this package: a brace makes sure that it does not match."""
    return key.decode(errors="replace").replace("\ufffd", "{")

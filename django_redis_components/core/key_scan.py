"""Scans of the keys of a server: of its primary with Sentinel, of every primary of a Cluster.

A step sends one SCAN to each primary, in one round trip. Keys are bytes: those of other programs need not be UTF-8.

    cursors = start(client.key_per_primary())
    while cursors:
        keys, cursors = yield from scan_step(cursors, pattern, count=COUNT)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.protocol import Batch, Flow, Read, run

#: Keys that a step of a scan of all keys looks at on each primary: it blocks a server for about half a millisecond.
COUNT = 1_000
#: Most primaries that a step scans.
MAX_SCANS = 50

#: Where a scan continues: a key on each primary whose scan has not ended, with the cursor of its last SCAN. Empty at
#: the end.
Cursors = Mapping[str, int]

_GLOB_CHARACTERS = re.compile(r"([*?\[\]\\^])")


def escape_glob(literal: str) -> str:
    """Escape a text for the pattern of SCAN."""
    return _GLOB_CHARACTERS.sub(r"\\\1", literal)


def start(anchors: Sequence[str]) -> Cursors:
    """Return the cursors of a new scan. `anchors`: a key on each primary."""
    return dict.fromkeys(anchors, 0)


def step_size(cursors: Cursors, count: int) -> int:
    """Return the number of keys that the next step looks at, about: SCAN may look at a few more."""
    return count * min(MAX_SCANS, len(cursors))


def scan_step(cursors: Cursors, pattern: str = "*", *, count: int) -> Flow[tuple[list[bytes], Cursors]]:
    """Scan the next keys of each primary in one round trip; return those that match, and where to continue."""
    anchors = list(cursors)[:MAX_SCANS]
    replies = yield Batch(
        [Read("SCAN", cursors[anchor], "MATCH", pattern, "COUNT", count, key=anchor) for anchor in anchors]
    )
    after = {anchor: int(cursor) for anchor, (cursor, _) in zip(anchors, replies, strict=True)}
    left = {anchor: cursor for anchor, cursor in {**cursors, **after}.items() if cursor or anchor not in after}
    return [key for _, keys in replies for key in keys], left


def count_keys(anchors: Sequence[str]) -> Flow[int]:
    """Return the number of keys on all primaries."""
    return sum((yield Batch([Read("DBSIZE", key=anchor) for anchor in anchors])))


def scan_keys(client: SyncClient, pattern: str, progress: Callable[[int], object]) -> Iterator[list[bytes]]:
    """Scan all keys, and yield those that match after each step.

    Args:
        progress: called with the number of keys that a step has looked at, about. The sum is that of `count_keys`.
    """
    anchors = client.key_per_primary()
    total, scanned, cursors = run(client, count_keys(anchors)), 0, start(anchors)
    while cursors:
        before = scanned
        scanned = min(total, scanned + step_size(cursors, COUNT))
        keys, cursors = run(client, scan_step(cursors, pattern, count=COUNT))
        yield keys
        progress((scanned if cursors else total) - before)

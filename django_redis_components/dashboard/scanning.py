"""Looking for names in a bounded part of the keyspace: a few SCANs on each primary, and where to go on.

There is no index of locks: to keep one, each acquire and each release would write once more. So a page looks through
some thousand keys, says how many that were, and carries the cursors on in a link.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from django_redis_components.core.protocol import Batch, Command, Flow, Read

#: Keys that one SCAN looks at, about: the server does nothing else for half a millisecond.
COUNT = 2_000
#: SCANs of one page on one primary, and of all primaries together.
MAX_ROUNDS, MAX_SCANS = 8, 50
#: Most primaries whose cursors a link may carry.
MAX_PRIMARIES = 1_000

T = TypeVar("T")
_POSITIONS = re.compile(r"\d{1,6}\.\d{1,20}(,\d{1,6}\.\d{1,20})*")
_SPECIAL = re.compile(r"([*?\[\]\\^])")


@dataclasses.dataclass(frozen=True, slots=True)
class Position:
    """Where to go on on a primary.

    Attributes:
        anchor: a key that stands on it.
        cursor: what its last SCAN said.
    """

    anchor: str
    cursor: int


@dataclasses.dataclass(frozen=True, slots=True)
class Slice(Generic[T]):
    """What was looked through.

    Attributes:
        found: what was found, each once, in order.
        looked: how many keys were looked at, about.
        total: how many keys there are on all primaries.
        rest: where to go on; nothing when the end was reached.
    """

    found: list[T]
    looked: int
    total: int
    rest: tuple[Position, ...]


def positions_of(text: str) -> tuple[Position, ...]:
    """What a link has carried; () for nonsense, which begins anew."""
    if not _POSITIONS.fullmatch(text):
        return ()
    pairs = [part.split(".") for part in text.split(",", MAX_PRIMARIES)[:MAX_PRIMARIES]]
    return tuple(Position(anchor, int(cursor)) for anchor, cursor in pairs if int(cursor) < 2**64)


def text_of(positions: Iterable[Position]) -> str:
    """What a link carries."""
    return ",".join(f"{each.anchor}.{each.cursor}" for each in positions)


def escaped(text: str) -> str:
    """A text within a pattern of SCAN."""
    return _SPECIAL.sub(r"\\\1", text)


def look_through(
    pattern: str, take: Callable[[str], T | None], positions: tuple[Position, ...], anchors: list[str], most: int
) -> Flow[Slice[T]]:
    """Look through the next part.

    Args:
        pattern: of the keys.
        take: what a key tells of; None if that is nothing.
        positions: where to begin.
        anchors: a key on each primary.
        most: how many are found when no further SCAN is sent.
    """
    now, later = list(positions[:MAX_SCANS]), positions[MAX_SCANS:]
    rounds = max(1, min(MAX_ROUNDS, MAX_SCANS // max(1, len(now))))
    found: set[Any] = set()
    scans, total = 0, sum((yield Batch([Read("DBSIZE", key=anchor) for anchor in anchors])))
    for _ in range(rounds):
        replies = yield Batch([_scan(each, pattern) for each in now])
        scans += len(now)
        found.update(place for _, keys in replies for key in keys if (place := take(_decoded(key))) is not None)
        after = zip(now, (int(cursor) for cursor, _ in replies), strict=True)
        now = [Position(each.anchor, cursor) for each, cursor in after if cursor]
        if not now or len(found) >= most:
            break
    return Slice(sorted(found), min(total, scans * COUNT), total, (*now, *later))


def _scan(position: Position, pattern: str) -> Command:
    return Read("SCAN", position.cursor, "MATCH", pattern, "COUNT", COUNT, key=position.anchor)


def _decoded(key: bytes) -> str:
    """A key that is no UTF-8 is none of ours; it must not become one either."""
    return key.decode(errors="replace").replace("\ufffd", "{")

"""What holders have written down, read, and what in it must not be.

Times are the server's, in microseconds. A fencing token is such a time: that of the grant.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path


@dataclasses.dataclass
class Grant:
    """One lease of one lock, as its holder knew it.

    Attributes:
        asked, answered: before the lock was asked for, and after that was granted.
        inside: the last moment at which the holder could prove by its own clock that the lease lasted.
        robbed: it ended although the holder's clock said that it lasts.
    """

    lock: str
    pid: int
    fence: int
    asked: int
    answered: int
    inside: int = 0
    robbed: bool = False

    def __str__(self) -> str:
        return f"{self.lock} of {self.pid} under {self.fence}"


def read_grants(directory: Path) -> list[Grant]:
    """The grants of all processes. One that was killed has said all that it said."""
    grants = []
    for path in directory.glob("*.log"):
        current: Grant | None = None
        for line in path.read_text().splitlines():
            kind, *figures = json.loads(line)
            if kind == "grant":
                current = Grant(*figures)
                grants.append(current)
            elif current is not None and kind == "inside":
                current.inside = figures[0]
            elif current is not None and kind == "robbed":
                current.robbed = True
    return grants


def problems(grants: Iterable[Grant]) -> list[str]:
    """What no history of locks may have."""
    of_locks: dict[str, list[Grant]] = defaultdict(list)
    for grant in grants:
        of_locks[grant.lock].append(grant)
    return [found for each in of_locks.values() for found in _problems(sorted(each, key=lambda one: one.fence))]


def stale_writes(fences: Iterable[int]) -> list[str]:
    """Writes, in the order in which they landed, that came after a newer one."""
    return [f"{after} was written after {before}" for before, after in itertools.pairwise(fences) if after < before]


def _problems(grants: list[Grant]) -> Iterable[str]:
    last: Grant | None = None
    for grant in grants:
        if not grant.asked <= grant.fence <= grant.answered:
            yield f"{grant}: granted outside of {grant.asked} to {grant.answered}"
        if grant.robbed:
            yield f"{grant}: taken away during its lease"
        if last is not None and grant.fence == last.fence:
            yield f"{grant}: under the fence of {last}"
        if last is not None and last.inside > grant.fence:
            yield f"{grant}: granted while {last} was inside its lease, until {last.inside}"
        if last is None or grant.inside > last.inside:
            last = grant
    yield from _disorder(grants)


def _disorder(grants: list[Grant]) -> Iterable[str]:
    """Grants that were over before another was asked for, and have a greater fence."""
    first: Grant | None = None
    for grant in reversed(grants):
        if first is not None and first.answered < grant.asked:
            yield f"{grant}: after {first}"
        if first is None or grant.answered < first.answered:
            first = grant

"""What holders have written down, read, and what in it must not be.

Times are the server's, in microseconds. A fencing token is such a time: that of the grant.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path


@dataclasses.dataclass
class Grant:
    """One lease of one lock, as its holder knew it.

    Attributes:
        fence: its number; 0 for a reader or a permit, which have none.
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

    @property
    def reads(self) -> bool:
        return self.fence == 0

    def __str__(self) -> str:
        return f"{self.lock} of {self.pid} " + ("for reading" if self.reads else f"under {self.fence}")


def read_grants(directory: Path) -> list[Grant]:
    """The grants of all processes. One that was killed has said all that it said."""
    grants: list[Grant] = []
    for path in directory.glob("*.log"):
        current: list[Grant] = []
        for line in path.read_text().splitlines():
            kind, *figures = json.loads(line)
            if kind == "grant":
                names, *facts = figures
                current = [Grant(name, *facts) for name in names]
                grants += current
            for grant in current:
                if kind == "inside":
                    grant.inside = figures[0]
                elif kind == "robbed":
                    grant.robbed = True
    return grants


def problems(grants: Iterable[Grant]) -> list[str]:
    """What no history of locks may have."""
    of_locks: dict[str, list[Grant]] = defaultdict(list)
    for grant in grants:
        of_locks[grant.lock].append(grant)
    return [found for each in of_locks.values() for found in _of_one_lock(each)]


def shared(grants: Iterable[Grant]) -> int:
    """How many readers were inside together with one that came before them."""
    readers = sorted((one for one in grants if one.reads and one.inside), key=lambda one: (one.lock, one.answered))
    pairs = itertools.pairwise(readers)
    return sum(before.lock == after.lock and after.answered < before.inside for before, after in pairs)


def crowds(grants: Iterable[Grant], limit: int) -> list[str]:
    """Moments at which more than so many surely held one semaphore. A grant of several permits is there for each."""
    moments = [
        moment
        for grant in grants
        if grant.inside > grant.answered
        for moment in ((grant.lock, grant.answered, 1), (grant.lock, grant.inside, -1))
    ]
    held: dict[str, int] = defaultdict(int)
    found = []
    for lock, at, change in sorted(moments):
        held[lock] += change
        if held[lock] > limit:
            found.append(f"{lock}: {held[lock]} permits of {limit} at {at}")
    return found


def stale_writes(fences: Iterable[int]) -> list[str]:
    """Writes, in the order in which they landed, that came after a newer one."""
    return [f"{after} was written after {before}" for before, after in itertools.pairwise(fences) if after < before]


def _of_one_lock(grants: Sequence[Grant]) -> Iterable[str]:
    writers = sorted((grant for grant in grants if not grant.reads), key=lambda one: one.fence)
    readers = [grant for grant in grants if grant.reads]
    yield from _problems(writers)
    yield from (f"{reader}: taken away during its lease" for reader in readers if reader.robbed)
    for reader in readers:
        for writer in writers:
            if _meet(reader, writer):
                yield f"{reader}, from {reader.answered} to {reader.inside}: beside {writer}, until {writer.inside}"


def _meet(reader: Grant, writer: Grant) -> bool:
    """Whether both were surely inside at one time. A writer's fence is the time of its grant; that of a reader's
    lies between its question and its answer."""
    came_to_a_reader = reader.answered < writer.fence < reader.inside
    came_to_a_writer = writer.fence < reader.asked and reader.answered < writer.inside
    return came_to_a_reader or came_to_a_writer


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

"""Reads the logs of the workers, and reports violations in them.

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
    """One lease of one lock, as its holder observed it.

    Attributes:
        fence: its fencing token; 0 for a reader or a permit, which have none.
        requested_at, granted_at: times before the request and after its reply.
        inside: last time at which the lease was valid by the clock of its holder.
        revoked: it ended while it was valid by the clock of its holder.
    """

    lock: str
    pid: int
    fence: int
    requested_at: int
    granted_at: int
    inside: int = 0
    revoked: bool = False

    @property
    def reads(self) -> bool:
        return self.fence == 0

    def __str__(self) -> str:
        return f"{self.lock} of {self.pid} " + ("for reading" if self.reads else f"under {self.fence}")


def read_grants(directory: Path) -> list[Grant]:
    """Return the grants of all processes. The log of a killed process ends early."""
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
                elif kind == "revoked":
                    grant.revoked = True
    return grants


def problems(grants: Iterable[Grant]) -> list[str]:
    """Return all violations in a history of locks."""
    of_locks: dict[str, list[Grant]] = defaultdict(list)
    for grant in grants:
        of_locks[grant.lock].append(grant)
    return [found for each in of_locks.values() for found in _of_one_lock(each)]


def shared(grants: Iterable[Grant]) -> int:
    """Return how many readers shared the lock with an earlier one."""
    readers = sorted((one for one in grants if one.reads and one.inside), key=lambda one: (one.lock, one.granted_at))
    pairs = itertools.pairwise(readers)
    return sum(before.lock == after.lock and after.granted_at < before.inside for before, after in pairs)


def exceeded_limits(grants: Iterable[Grant], limit: int) -> list[str]:
    """Return the times at which more than `limit` permits were held. A lease has a grant per permit."""
    moments = [
        moment
        for grant in grants
        if grant.inside > grant.granted_at
        for moment in ((grant.lock, grant.granted_at, 1), (grant.lock, grant.inside, -1))
    ]
    held: dict[str, int] = defaultdict(int)
    found = []
    for lock, at, change in sorted(moments):
        held[lock] += change
        if held[lock] > limit:
            found.append(f"{lock}: {held[lock]} permits of {limit} at {at}")
    return found


def stale_writes(fences: Iterable[int]) -> list[str]:
    """Return the writes that were accepted after a newer one."""
    return [f"{after} was written after {before}" for before, after in itertools.pairwise(fences) if after < before]


def _of_one_lock(grants: Sequence[Grant]) -> Iterable[str]:
    writers = sorted((grant for grant in grants if not grant.reads), key=lambda one: one.fence)
    readers = [grant for grant in grants if grant.reads]
    yield from _problems(writers)
    yield from (f"{reader}: taken away during its lease" for reader in readers if reader.revoked)
    for reader in readers:
        for writer in writers:
            if _overlap(reader, writer):
                yield f"{reader}, from {reader.granted_at} to {reader.inside}: beside {writer}, until {writer.inside}"


def _overlap(reader: Grant, writer: Grant) -> bool:
    """Return whether both certainly had the lock at one time.

    A writer's fence is the time of its grant; a reader was granted between its request and its reply.
    """
    granted_beside_reader = reader.granted_at < writer.fence < reader.inside
    granted_beside_writer = writer.fence < reader.requested_at and reader.granted_at < writer.inside
    return granted_beside_reader or granted_beside_writer


def _problems(grants: list[Grant]) -> Iterable[str]:
    last: Grant | None = None
    for grant in grants:
        if not grant.requested_at <= grant.fence <= grant.granted_at:
            yield f"{grant}: granted outside of {grant.requested_at} to {grant.granted_at}"
        if grant.revoked:
            yield f"{grant}: taken away during its lease"
        if last is not None and grant.fence == last.fence:
            yield f"{grant}: under the fence of {last}"
        if last is not None and last.inside > grant.fence:
            yield f"{grant}: granted while {last} was inside its lease, until {last.inside}"
        if last is None or grant.inside > last.inside:
            last = grant
    yield from _disorder(grants)


def _disorder(grants: list[Grant]) -> Iterable[str]:
    """Report grants that were made before another was requested, and have a greater fence."""
    first: Grant | None = None
    for grant in reversed(grants):
        if first is not None and first.granted_at < grant.requested_at:
            yield f"{grant}: after {first}"
        if first is None or grant.granted_at < first.granted_at:
            first = grant

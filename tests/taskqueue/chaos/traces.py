"""Read the trace file: starts, effects and deaths, and the repeated runs that no death explains."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Traces:
    """The contents of a trace file."""

    #: Task number -> pids that started it, in order.
    starts: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    #: Task number -> pids that had its effect, in order.
    effects: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    #: (point, pid) of each planned death, and ("outside", pid) of each that the test noted.
    deaths: list[tuple[str, int]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Traces:
        found = cls()
        for line in path.read_text().splitlines() if path.exists() else []:
            kind, what, pid = line.split()
            if kind == "start":
                found.starts[int(what)].append(int(pid))
            elif kind == "effect":
                found.effects[int(what)].append(int(pid))
            elif kind == "death":
                found.deaths.append((what, int(pid)))
        return found

    def doubles(self) -> dict[int, list[int]]:
        """Return task number -> pids of the tasks that were started more than once."""
        return {number: pids for number, pids in self.starts.items() if len(pids) > 1}

    def unexplained(self) -> dict[int, list[int]]:
        """Return the repeated tasks of which a run before the last was in a process that did not die."""
        dead = {pid for _, pid in self.deaths}
        return {number: pids for number, pids in self.doubles().items() if not set(pids[:-1]) <= dead}

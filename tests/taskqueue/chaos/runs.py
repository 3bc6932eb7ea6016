"""Read the runs that the tasks of a chaos test recorded, and find repeated runs that no fault explains."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.taskqueue.chaos.faults import Fault, Stall

#: Seconds after its effect for which a run is in flight: its ack is sent after 5 ms, or after an outage.
ACK_S = 3.0


@dataclasses.dataclass
class Run:
    """One run of a task; monotonic seconds, the end None when it had none."""

    name: str
    begin: float
    end: float | None = None

    @property
    def pid(self) -> int:
        return int(self.name.partition("-")[0])

    def in_flight_at(self, fault: Fault, stalls: Sequence[Stall] = ()) -> bool:
        over = float("inf") if self.end is None else self.end + ACK_S
        for stall in stalls:  # acks are sent when the server continues
            if stall.begin <= over and self.end is not None and self.end <= stall.end:
                over = max(over, stall.end + ACK_S)
        return fault.pid == self.pid and fault.begin <= over and fault.end >= self.begin


def read_runs(path: Path) -> dict[int, list[Run]]:
    """Runs of each task number, in the order of their beginnings. The file exists once a task has started."""
    runs: dict[int, list[Run]] = defaultdict(list)
    if not path.exists():
        return runs
    for line in path.read_text().splitlines():
        kind, number, name, at = line.split()
        if kind == "begin":
            runs[int(number)].append(Run(name, float(at)))
        else:
            next(run for run in runs[int(number)] if run.name == name).end = float(at)
    return runs


@dataclasses.dataclass
class ForkedChild:
    """A process that a task has forked; its parent has waited for its end. Monotonic seconds."""

    number: int
    pid: int
    exit_code: int
    begin: float
    end: float

    def has_run(self, runs: Iterable[Run]) -> bool:
        """Whether one of these was its doing, as if it were a worker."""
        return any(run.pid == self.pid and self.begin <= run.begin <= self.end for run in runs)


def read_forks(path: Path) -> list[ForkedChild]:
    """The children that have ended."""
    rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [
        ForkedChild(int(number), int(pid), int(code), float(begin), float(end))
        for number, pid, code, begin, end in rows
    ]


def unexplained(
    runs: dict[int, list[Run]], faults: Iterable[Fault], stalls: Sequence[Stall] = ()
) -> dict[int, list[Run]]:
    """Tasks that ran again although no fault hit a process that had them in flight.

    A stall of the server explains none; it only makes outcomes wait.
    """
    by_pid: dict[int, list[Fault]] = defaultdict(list)
    for fault in faults:
        by_pid[fault.pid].append(fault)
    return {
        number: all_of_it
        for number, all_of_it in runs.items()
        if not all(any(run.in_flight_at(fault, stalls) for fault in by_pid[run.pid]) for run in all_of_it[:-1])
    }

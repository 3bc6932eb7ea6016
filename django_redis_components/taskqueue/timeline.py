"""What became of a task, run by run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime


@dataclasses.dataclass(frozen=True, slots=True)
class TaskRun:
    """One run, by the server's clock.

    Attributes:
        worker_id: who ran it.
        began_at: when it was leased to that worker; the function begins up to some milliseconds later.
        ended_at: when the outcome arrived, or for a dead worker when that was noticed; None while it runs.
        outcome: succeeded, failed, retried, put_off, cancelled, parked, recovered (its worker died, or lost its
            lease), or running.
    """

    worker_id: str
    began_at: datetime
    ended_at: datetime | None
    outcome: str


def runs_of(fields: Mapping[str, bytes], moment: Callable[[int], datetime]) -> list[TaskRun]:
    """The runs that a task's record tells of, oldest first; of many the last ones, about 50.

    Those that did not succeed stand in the field ``h``. A success, or the run that goes on, stands in the other
    fields, so that a task that succeeds at once needs no history.

    Args:
        moment: makes a datetime of microseconds since the epoch.
    """
    lines = fields.get("h", b"").decode().splitlines()
    runs = [_run(moment, *line.split(" ", 3)) for line in lines]
    leased_us, state = int(fields.get("l", 0)), fields.get("s")
    if state == b"running":
        runs.append(TaskRun(fields["L"].decode().partition("/")[0], moment(leased_us), None, "running"))
    elif state == b"successful":
        worker = fields["w"].decode().rpartition(",")[2]
        runs.append(TaskRun(worker, moment(leased_us), moment(int(fields["F"])), "succeeded"))
    return runs


def _run(moment: Callable[[int], datetime], outcome: str, leased_us: str, took_us: str, worker: str) -> TaskRun:
    began_us = int(leased_us)
    return TaskRun(worker, moment(began_us), moment(began_us + int(took_us)), outcome)

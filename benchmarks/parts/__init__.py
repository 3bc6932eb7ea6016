"""The measured parts. Each has ``steps(bench, sizes)``: the steps of the run, in their order.

A step measures one row once and returns figures by column; the runner keeps the figures of all rounds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

#: Figures by column; a list stands for many measurements of one round.
Figures = dict[str, float]


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of a run.

    Attributes:
        rounds: how often each row is measured; the median counts.
        tasks: no-ops in a drain, times the weight of the row.
        pickups: single tasks on an idle server.
        delayed: tasks that fall due, over `delayed_s` seconds.
        scheduled: other delayed tasks in the queue.
        singles: delayed tasks 1.37 s apart on an idle server.
        expired: tasks whose results expire.
        idle_s: seconds for which an idle worker's commands are counted.
    """

    rounds: int = 5
    tasks: int = 20_000
    pickups: int = 300
    delayed: int = 500
    delayed_s: float = 5.0
    scheduled: int = 1_000_000
    singles: int = 20
    expired: int = 200_000
    idle_s: float = 30.0


QUICK = Sizes(
    rounds=1, tasks=2_000, pickups=40, delayed=100, delayed_s=1.0, scheduled=10_000, singles=3, expired=5_000, idle_s=6
)


@dataclasses.dataclass(frozen=True)
class Step:
    """One measurement."""

    part: str
    row: str
    run: Callable[[], Figures]

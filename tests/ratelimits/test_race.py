"""Eight processes on one key: never more than the algorithm allows."""

from __future__ import annotations

import json

from django_redis_components.ratelimits.algorithms import ALGORITHMS
from tests.support import Store
from tests.support.processes import Children

LIMIT = 20
#: Hits of each process on each limit.
HITS = 150

#: When hits were allowed: before they were asked for, and after the answer.
Hits = list[tuple[float, float]]


def test_eight_processes_never_exceed(children: Children, redis_server: Store) -> None:
    for algorithm, hits in race(children, 8, 0.05).items():
        assert len(hits) >= LIMIT
        assert excess(hits, algorithm, 0.05) <= 0, algorithm


def test_the_excess_is_seen_when_the_guards_are_taken_out(children: Children, redis_server: Store) -> None:
    for algorithm, hits in race(children, 2, 600.0, broken=True).items():
        assert excess(hits, algorithm, 600.0) > 0, algorithm


def race(children: Children, processes: int, period_s: float, broken: bool = False) -> dict[str, Hits]:
    """What each algorithm has let through."""
    hitters = [children.call("tests.ratelimits.hitters:hit", LIMIT, period_s, HITS, broken) for _ in range(processes)]
    per_process = [json.loads(hitter.wait_for("[", 120)) for hitter in hitters]
    return {
        name: sorted(tuple(hit) for each in per_process for hit in each[place]) for place, name in enumerate(ALGORITHMS)
    }


def excess(hits: Hits, algorithm: str, period_s: float) -> float:
    """How many more hits lie surely within any stretch of time than the algorithm lets through in it."""
    most = -float(LIMIT)
    for first, (asked, _) in enumerate(hits):
        for number, answered in enumerate(sorted(answered for _, answered in hits[first:]), 1):
            most = max(most, number - allowed_in((answered - asked) / period_s, algorithm))
    return most


def allowed_in(periods: float, algorithm: str) -> float:
    """The most that any stretch of so many periods may let through."""
    if algorithm == "gcra":
        return LIMIT + LIMIT * periods + 0.001
    if algorithm == "sliding":
        return LIMIT * (periods // 1 + 1)
    return LIMIT * (periods // 1 + 2)

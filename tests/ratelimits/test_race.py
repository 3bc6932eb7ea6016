"""Eight processes hit one key: never more hits are allowed than the algorithm permits."""

from __future__ import annotations

from django_redis_components.ratelimits.algorithms import ALGORITHMS
from tests.ratelimits.race_children import Hits
from tests.support import Store
from tests.support.processes import Children

LIMIT = 20
#: Hits of each process on each limit.
HITS = 150


def test_eight_processes_never_exceed_the_limit(children: Children, redis_server: Store) -> None:
    for algorithm, hits in race(children, 8, 0.05).items():
        assert len(hits) >= LIMIT
        assert excess(hits, algorithm, 0.05) <= 0, algorithm


def test_race_test_fails_when_denials_are_disabled(children: Children, redis_server: Store) -> None:
    for algorithm, hits in race(children, 2, 600.0, broken=True).items():
        assert excess(hits, algorithm, 600.0) > 0, algorithm


def race(children: Children, processes: int, period_s: float, broken: bool = False) -> dict[str, Hits]:
    """Return the hits that each algorithm allowed."""
    calls = [[LIMIT, period_s, HITS, broken]] * processes
    per_process = children.call_together("tests.ratelimits.race_children:hit", calls)
    return {
        name: sorted(tuple(hit) for each in per_process for hit in each[place]) for place, name in enumerate(ALGORITHMS)
    }


def excess(hits: Hits, algorithm: str, period_s: float) -> float:
    """Return how many hits in any time span certainly exceed what the algorithm allows in it."""
    most = -float(LIMIT)
    for first, (called_at, _) in enumerate(hits):
        for number, returned_at in enumerate(sorted(returned_at for _, returned_at in hits[first:]), 1):
            most = max(most, number - allowed_in((returned_at - called_at) / period_s, algorithm))
    return most


def allowed_in(periods: float, algorithm: str) -> float:
    """Return the maximum of allowed hits in a time span of this many periods."""
    if algorithm == "gcra":
        return LIMIT + LIMIT * periods + 0.001
    if algorithm == "sliding":
        return LIMIT * (periods // 1 + 1)
    return LIMIT * (periods // 1 + 2)

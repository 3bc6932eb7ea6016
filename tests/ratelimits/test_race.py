"""Eight processes on one key: never more than the algorithm allows."""

from __future__ import annotations

import json

import pytest

from tests.support import Store
from tests.support.processes import Children

PROCESSES, SECONDS = 8, 1.0
LIMIT, PERIOD_S = 20, 0.25
RATE = (LIMIT, PERIOD_S)


@pytest.mark.parametrize("algorithm", ["gcra", "sliding", "fixed"])
def test_eight_processes_never_exceed(children: Children, redis_server: Store, algorithm: str) -> None:
    hits = race(children, algorithm)

    assert len(hits) > LIMIT
    assert excess(hits, algorithm) <= 0


@pytest.mark.parametrize("algorithm", ["gcra", "sliding", "fixed"])
def test_the_excess_is_seen_when_the_guard_is_taken_out(
    children: Children, redis_server: Store, algorithm: str
) -> None:
    assert excess(race(children, algorithm, broken=True), algorithm) > 0


def race(children: Children, algorithm: str, broken: bool = False) -> list[tuple[float, float]]:
    """When hits were allowed: before they were asked for, and after the answer."""
    hitters = [
        children.call("tests.ratelimits.hitters:hit", algorithm, RATE, SECONDS, broken) for _ in range(PROCESSES)
    ]
    for hitter in hitters:
        hitter.wait_for("ready", 30)
    return sorted(tuple(hit) for hitter in hitters for hit in json.loads(hitter.wait_for("[", 30)))


def excess(hits: list[tuple[float, float]], algorithm: str) -> float:
    """How many more hits lie surely within any stretch of time than the algorithm lets through in it."""
    most = -float(LIMIT)
    for first in range(len(hits)):
        asked = hits[first][0]
        ends = sorted(answered for begin, answered in hits[first:] if begin >= asked)
        for number, answered in enumerate(ends, 1):
            most = max(most, number - allowed_in(answered - asked, algorithm))
    return most


def allowed_in(seconds: float, algorithm: str) -> float:
    """The most that any stretch of so many seconds may let through."""
    if algorithm == "gcra":
        return LIMIT + LIMIT * seconds / PERIOD_S + 0.001
    if algorithm == "sliding":
        return LIMIT * (seconds // PERIOD_S + 1)
    return LIMIT * (seconds // PERIOD_S + 2)

"""A history of sixteen processes that are killed, stopped and cancelled while replies get lost.

The gate runs some seconds of it. The whole: ``HISTORY_S=600 pytest tests/locks/chaos -s -o
faulthandler_timeout=0``. With ``HISTORY_WITHOUT=acquire`` (or release, extend, fence, deadline, resource) that
guard is taken out first, and the run must fail.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.locks.chaos.history import Grant, problems, read_grants, stale_writes
from tests.locks.chaos.holders import NAMES, Board
from tests.support import Proxy, Store
from tests.support.processes import Children

#: Seconds of the run.
HISTORY_S = float(os.environ.get("HISTORY_S", "8"))
#: Repeats a run's choices, not its timing.
SEED = int(os.environ.get("HISTORY_SEED", "1"))
WITHOUT = os.environ.get("HISTORY_WITHOUT", "")
#: Share of replies that get lost.
LOSS = 0.03


def test_no_two_holders_no_order_but_that_of_fences_and_no_stale_write(
    children: Children, proxy: Proxy, redis_server: Store, tmp_path: Path
) -> None:
    proxy.drop_random(LOSS, SEED)
    child = children.call("tests.locks.chaos.forge:forge", HISTORY_S, SEED, str(tmp_path), WITHOUT)
    counts = child.result(timeout_s=HISTORY_S + 180)

    grants, board = read_grants(tmp_path), Board()
    print(f"\n{len(grants)} grants in {HISTORY_S:g} s, {proxy.dropped} replies lost: {counts}")
    assert problems(grants) == []
    assert {name: stale_writes(board.landed(name)) for name in NAMES} == {name: [] for name in NAMES}
    assert proxy.dropped > 0
    assert any(grant.inside for grant in grants)


def grant(fence: int, **facts: object) -> Grant:
    """A grant that asked a moment before and knew it a moment after."""
    times = {"asked": fence - 5, "answered": fence + 5}
    return Grant(**({"lock": "anvil", "pid": 1, "fence": fence} | times | facts))


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        ([grant(100, inside=250), grant(200)], "was inside its lease, until 250"),
        ([grant(100, inside=350), grant(200, inside=210), grant(300)], "was inside its lease, until 350"),
        ([grant(100), grant(100)], "under the fence of"),
        ([grant(100, asked=101)], "granted outside of 101 to 105"),
        ([grant(100, answered=99)], "granted outside of 95 to 99"),
        ([grant(100, asked=300, answered=310), grant(200)], "anvil of 1 under 100: after anvil of 1 under 200"),
        ([grant(100, robbed=True)], "taken away during its lease"),
    ],
)
def test_a_planted_fault_is_found(history: list[Grant], problem: str) -> None:
    assert any(problem in found for found in problems(history))


def test_a_history_without_faults_has_no_problems() -> None:
    history = [grant(100, inside=150), grant(200), grant(150, lock="bellows", inside=900), grant(300, inside=310)]

    assert problems(history) == []


def test_a_stale_write_is_found() -> None:
    assert stale_writes([1, 1, 5, 7]) == []
    assert stale_writes([1, 5, 4, 7]) == ["4 was written after 5"]

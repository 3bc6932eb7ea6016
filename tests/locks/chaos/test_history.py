"""Histories of sixteen processes that are killed, stopped and cancelled while replies are lost.

Of single locks, groups of names, readers and writers, and semaphores, each on one server and on a Cluster (which
loses no replies). Waiters are killed and stopped too, and servers stall. All checks run a few seconds of it. The full
size: ``HISTORY_S=600 pytest tests/locks/chaos -s -o faulthandler_timeout=0``. With ``HISTORY_WITHOUT=acquire`` (or
another of `kinds.GUARDS`, or deadline, resource) that guard is removed first, and the run of its kind must fail.
"""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from tests.locks.chaos.history import Grant, exceeded_limits, problems, read_grants, shared, stale_writes
from tests.locks.chaos.kinds import KINDS, LIMIT, NAMES
from tests.locks.chaos.shared_state import SharedState
from tests.support import Proxy, Store
from tests.support.processes import Children

#: Seconds of the run.
HISTORY_S = float(os.environ.get("HISTORY_S", "2"))
#: Repeats a run's choices, not its timing.
SEED = int(os.environ.get("HISTORY_SEED", "1"))
WITHOUT = os.environ.get("HISTORY_WITHOUT", "")
#: Share of replies that are lost.
LOSS = 0.03


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_history_has_no_overlapping_holders_disordered_fences_or_stale_writes(
    children: Children, proxy: Proxy, redis_server: Store, kind: str, tmp_path: Path
) -> None:
    proxy.drop_random(LOSS, SEED)

    grants = run(children, redis_server, kind, tmp_path)

    print(f"{proxy.dropped} replies lost")
    assert proxy.dropped > 0
    assert any(grant.inside for grant in grants)


@pytest.mark.parametrize("store", ["cluster"], indirect=True)
def test_history_on_a_cluster_has_no_problems(children: Children, store: Store, kind: str, tmp_path: Path) -> None:
    assert any(grant.inside for grant in run(children, store, kind, tmp_path))


def run(children: Children, store: Store, kind: str, directory: Path) -> list[Grant]:
    """Run a history, check it, and return its grants."""
    servers = [server.pid for server in store.servers]
    child = children.call(
        "tests.locks.chaos.fault_injection:run_with_faults", kind, HISTORY_S, SEED, str(directory), WITHOUT, servers
    )
    try:
        counts = child.result(timeout_s=HISTORY_S + 180)
    finally:
        for pid in servers:
            os.kill(pid, signal.SIGCONT)

    grants = read_grants(directory)
    print(f"\n{kind}: {len(grants)} grants in {HISTORY_S:g} s, {shared(grants)} readers beside others: {counts}")
    assert problems(grants) == []
    assert kind != "semaphore" or exceeded_limits(grants, LIMIT) == []
    with closing(SharedState()) as state:
        assert {name: stale_writes(state.landed(name)) for name in NAMES} == {name: [] for name in NAMES}
    assert (shared(grants) > 0) is (kind in ("readwrite", "semaphore"))
    return grants


def grant(at: int, **facts: object) -> Grant:
    """Return a grant that was requested shortly before, and known shortly after."""
    times = {"requested_at": at - 5, "granted_at": at + 5}
    return Grant(**({"lock": "anvil", "pid": 1, "fence": at} | times | facts))


def reader(at: int, **facts: object) -> Grant:
    """Return the grant of a reader, known shortly after."""
    return grant(at, **({"fence": 0, "requested_at": at - 5, "granted_at": at + 5} | facts))


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        ([grant(100, inside=250), grant(200)], "was inside its lease, until 250"),
        ([grant(100, inside=350), grant(200, inside=210), grant(300)], "was inside its lease, until 350"),
        ([grant(100), grant(100)], "under the fence of"),
        ([grant(100, requested_at=101)], "granted outside of 101 to 105"),
        ([grant(100, granted_at=99)], "granted outside of 95 to 99"),
        (
            [grant(100, requested_at=300, granted_at=310), grant(200)],
            "anvil of 1 under 100: after anvil of 1 under 200",
        ),
        ([grant(100, revoked=True)], "taken away during its lease"),
        ([reader(100, revoked=True)], "taken away during its lease"),
        ([reader(100, inside=250), grant(200)], "for reading, from 105 to 250: beside anvil of 1 under 200"),
        ([grant(100, inside=250), reader(200)], "for reading, from 205 to 0: beside anvil of 1 under 100, until 250"),
    ],
)
def test_injected_fault_is_reported(history: list[Grant], problem: str) -> None:
    assert any(problem in found for found in problems(history))


def test_history_without_faults_has_no_problems() -> None:
    history = [grant(100, inside=150), grant(200), grant(150, lock="bellows", inside=900), grant(300, inside=310)]
    readers = [reader(400, inside=500), reader(450, inside=700), grant(800, inside=900), reader(1_000)]

    assert problems(history + readers) == []
    assert shared(history + readers) == 1


def test_exceeded_limit_is_reported() -> None:
    three = [reader(100, inside=200), reader(110, inside=300), reader(120, inside=190)]

    assert exceeded_limits([*three, reader(210, inside=400), reader(100, lock="bellows", inside=900)], 3) == []
    assert exceeded_limits([*three, reader(150, inside=400)], 3) == ["anvil: 4 permits of 3 at 155"]


def test_stale_write_is_reported() -> None:
    assert stale_writes([1, 1, 5, 7]) == []
    assert stale_writes([1, 5, 4, 7]) == ["4 was written after 5"]

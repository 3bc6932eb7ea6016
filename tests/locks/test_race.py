"""Sixteen processes on one lock, while replies get lost: never two holders.

``RACE_SECONDS`` sets how long they fight.
"""

from __future__ import annotations

import os

import pytest

from tests.support import Proxy, Store
from tests.support.processes import Children

SECONDS = float(os.environ.get("RACE_SECONDS", "2"))
#: Share of replies that get lost.
LOSS = 0.05


def run_race(
    children: Children, proxy: Proxy, store: Store, room: str, limit: int, seconds: float, *edits: tuple[str, str, str]
) -> dict[str, int]:
    """Let them fight, and return what the board says."""
    proxy.drop_random(LOSS)
    child = children.call("tests.locks.racers:race", room, limit, 16, seconds, edits)
    child.result(timeout_s=seconds + 90)
    proxy.drop_random(0)
    board = f"{store.prefix}:race"
    names = ("grants", "violations", "errors", "not_owned", "inside")
    return {name: int(store.raw.get(f"{board}:{name}") or 0) for name in names} | {
        "most": int(store.raw.zscore(f"{board}:most", "inside") or 0),
        "dropped": proxy.dropped,
    }


def test_lock_never_has_two_holders(children: Children, proxy: Proxy, redis_server: Store) -> None:
    board = run_race(children, proxy, redis_server, "locks", 1, SECONDS)

    print(f"\nlock, 16 processes, {SECONDS:g} s: {board}")
    assert board["violations"] == 0
    assert board["most"] == 1
    assert board["not_owned"] == 0
    assert board["dropped"] > 0
    fences = [int(fence) for fence in redis_server.raw.lrange(f"{redis_server.prefix}:race:fences", 0, -1)]
    assert fences == sorted(set(fences))
    assert not redis_server.raw.exists(f"{redis_server.prefix}:locks:{{prize}}:queue")


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(("ACQUIRE", "if not holder then", "if true then"), id="acquire"),
        pytest.param(("RELEASE", 'if redis.call("GET", lock) ~= token then', "if false then"), id="release"),
    ],
)
def test_two_holders_are_detected_when_a_guard_is_removed(
    children: Children, proxy: Proxy, redis_server: Store, edit: tuple[str, str, str]
) -> None:
    board = run_race(children, proxy, redis_server, "locks", 1, 0.5, edit)

    assert board["violations"] > 0

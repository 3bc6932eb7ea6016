"""Sixteen processes contend for one lock while replies are lost: never two holders.

``RACE_SECONDS`` sets the duration.
"""

from __future__ import annotations

import pytest

from tests.locks.race_workers import WITHOUT_EXCLUSION
from tests.locks.races import SECONDS, run_race
from tests.support import Proxy, Store
from tests.support.processes import Children


def test_lock_never_has_two_holders(children: Children, proxy: Proxy, redis_server: Store) -> None:
    stats = run_race(children, proxy, redis_server, "locks", 1, SECONDS)

    print(f"\nlock, 16 processes, {SECONDS:g} s: {stats}")
    assert stats["violations"] == 0
    assert stats["most"] == 1
    assert stats["not_owned"] == 0
    assert stats["dropped"] > 0
    fences = [int(fence) for fence in redis_server.raw.lrange(f"{redis_server.prefix}:race:fences", 0, -1)]
    assert fences == sorted(set(fences))
    assert not redis_server.raw.exists(f"{redis_server.prefix}:locks:{{prize}}:queue")


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(("acquire", *WITHOUT_EXCLUSION), id="acquire"),
        pytest.param(("release", 'if redis.call("GET", ctx.base) ~= token then', "if false then"), id="release"),
    ],
)
def test_two_holders_are_detected_when_a_guard_is_removed(
    children: Children, proxy: Proxy, redis_server: Store, edit: tuple[str, str, str]
) -> None:
    stats = run_race(children, proxy, redis_server, "locks", 1, 0.5, edit)

    assert stats["violations"] > 0

"""Sixteen processes contend for a semaphore of three while replies are lost: never four holders.

``RACE_SECONDS`` sets the duration.
"""

from __future__ import annotations

from tests.locks.races import SECONDS, run_race
from tests.support import Proxy, Store
from tests.support.processes import Children


def test_semaphore_of_three_never_has_four_holders(children: Children, proxy: Proxy, redis_server: Store) -> None:
    stats = run_race(children, proxy, redis_server, "semaphores", 3, SECONDS)

    print(f"\nsemaphore of 3, 16 processes, {SECONDS:g} s: {stats}")
    assert stats["violations"] == 0
    assert stats["most"] == 3
    assert stats["dropped"] > 0
    assert redis_server.raw.zcard(f"{redis_server.prefix}:semaphores:{{prize}}") == 0
    assert not redis_server.raw.exists(f"{redis_server.prefix}:semaphores:{{prize}}:queue")


def test_four_holders_are_detected_when_the_guard_is_removed(
    children: Children, proxy: Proxy, redis_server: Store
) -> None:
    edit = ("acquire", "others + count > limit", "others > limit")

    stats = run_race(children, proxy, redis_server, "semaphores", 3, 0.5, edit)

    assert stats["violations"] > 0

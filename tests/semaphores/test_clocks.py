"""Eight processes on a semaphore of three, half of their clocks eleven seconds ahead: never four holders.

The full size: ``CLOCK_TEST_GRANTS=100000 pytest tests/semaphores/test_clocks.py -s -o faulthandler_timeout=0``.
"""

from __future__ import annotations

import os
import threading

from django_redis_components.core import keys
from django_redis_components.core.client.connections import client
from django_redis_components.core.leasing import wait_queue
from django_redis_components.core.protocol import Command
from django_redis_components.semaphores import Semaphore
from tests.semaphores.skewed_clocks import LIMIT
from tests.support import Store, eventually
from tests.support.child import print_line
from tests.support.processes import Children

GRANTS = int(os.environ.get("CLOCK_TEST_GRANTS", "2000"))


def run_clock_test(children: Children, store: Store, grants: int, use_client_clocks: bool = False) -> dict[str, int]:
    """Run the processes until this many permits were granted, and return what they counted."""
    child = children.call("tests.semaphores.skewed_clocks:run_processes", grants, use_client_clocks)
    child.result(timeout_s=120 + grants / 100)
    stats = store.raw.hgetall(f"{store.prefix}:clocks:stats")
    return {what.decode(): int(number) for what, number in stats.items()}


def test_semaphore_of_three_never_has_four_holders_when_clocks_differ(children: Children, redis_server: Store) -> None:
    stats = run_clock_test(children, redis_server, GRANTS)

    print(f"\nsemaphore of 3, 8 processes, half of them 11 s ahead: {stats}")
    assert stats["grants"] >= GRANTS
    assert "overruns" not in stats
    assert Semaphore("pool", LIMIT, blocking=False).available() == LIMIT


def test_overruns_are_detected_when_a_script_uses_client_clocks(children: Children, redis_server: Store) -> None:
    stats = run_clock_test(children, redis_server, 500, use_client_clocks=True)

    assert stats["overruns"] > 0


def test_permits_of_a_killed_holder_are_free_when_they_expire(redis_server: Store, children: Children) -> None:
    child = children.call("tests.semaphores.test_clocks:hold", [0.6, 1.2, 1.8])
    ends_ms = [float(word) for word in child.wait_for("holding", 30).split()[1:]]
    child.kill()

    for end_ms in ends_ms:
        assert Semaphore("pool", LIMIT, blocking_timeout=60).acquire()
        assert now_ms(redis_server) >= end_ms


def hold(timeouts: list[float]) -> None:
    """Acquire permits, print when they expire on the server, and keep them."""
    for timeout in timeouts:
        assert Semaphore("pool", LIMIT, timeout=timeout, blocking=False).acquire()
    key = keys.key("semaphores", "pool")
    scores = client().execute(Command("ZRANGE", key, 0, -1, "WITHSCORES"))[1::2]
    print_line("holding", *map(float, scores))
    threading.Event().wait()


def test_waiter_is_woken_by_the_release_and_does_not_poll(own_server: Store) -> None:
    holder, waiter = Semaphore("pool", 1, blocking=False), Semaphore("pool", 1)
    holder.acquire()
    holder.release()  # the server has the scripts from now on
    holder.acquire()
    got: list[bool] = []
    before, started_ms = calls(own_server), now_ms(own_server)
    thread = threading.Thread(target=lambda: got.append(waiter.acquire()))
    thread.start()
    eventually(lambda: blocked(own_server) == 1, timeout_s=30)

    holder.release()

    thread.join(30)
    slices = (now_ms(own_server) - started_ms) // wait_queue.HANDOFF_MS
    assert got == [True]
    assert calls(own_server) - before <= 3 + slices, "one to join the queue, one to release, one to accept the handoff"


def calls(store: Store) -> int:
    """Return the number of script calls."""
    stats = store.raw.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


def blocked(store: Store) -> int:
    """Return the number of clients that wait for a wakeup."""
    return store.raw.info("clients")["blocked_clients"]


def now_ms(store: Store) -> int:
    seconds, microseconds = store.raw.time()
    return seconds * 1_000 + microseconds // 1_000

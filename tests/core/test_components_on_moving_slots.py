"""Components keep their guarantees under load while their Cluster slot moves to another node and back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_redis_components.autocomplete import PrefixIndex, RecentList
from django_redis_components.core.client import connections
from django_redis_components.core.keys import key
from django_redis_components.core.protocol import Command
from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.ratelimits import RateLimit
from django_redis_components.semaphores import Semaphore
from tests.conftest import components_settings
from tests.core.slots import Move, moving
from tests.support import Store, eventually
from tests.support.pools import close_pools

#: Threads that use the thing, and how much each does before the slot is back at the latest.
THREADS = 3
LEAST = 15


@pytest.fixture(params=["cluster", "cluster7"])
def cluster(request: pytest.FixtureRequest, stores: Any, settings: Any) -> Iterator[Store]:
    """A Cluster of Valkey, and one of Redis 7."""
    lent = stores.get(request.param).for_test(f"use-{request.param}")
    settings.REDIS_COMPONENTS = components_settings(lent)
    yield lent
    close_pools()
    lent.delete_keys()


def use_while_it_moves(cluster: Store, in_the_slot: str, act: Callable[[], object]) -> int:
    """Have threads act again and again while the slot moves there and back; the value is how often they did."""
    done, failed, stop = list[int](), list[Exception](), threading.Event()

    def work() -> None:
        try:
            while not stop.is_set():
                act()
                done.append(1)
        except Exception as exc:  # noqa: BLE001 - reported below
            failed.append(exc)

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    with moving(cluster, in_the_slot) as move:
        for thread in threads:
            thread.start()
        for way in (move, move.back()):
            seen = len(done)
            eventually(lambda seen=seen: len(done) > seen + LEAST or failed)
            slowly(way)
        seen = len(done)
        eventually(lambda: len(done) > seen + LEAST or failed)
        stop.set()
        for thread in threads:
            thread.join(120)
    assert failed == []
    return len(done)


def slowly(move: Move) -> None:
    """Move the slot key by key, with time between the keys for requests to meet it."""
    move.begin()
    time.sleep(0.02)
    while found := move.source.execute_command("CLUSTER", "GETKEYSINSLOT", move.slot, 1):
        move.carry(*found)
        time.sleep(0.01)
    move.finish()


LOCKS: dict[str, Callable[[], Any]] = {
    "lock": lambda: Lock("thing", timeout=30),
    "group": lambda: MultiLock("a", "b", group="thing", timeout=30),
    "writer": lambda: ReadWriteLock("thing", timeout=30).write(),
}


@pytest.mark.parametrize("make", LOCKS.values(), ids=LOCKS)
def test_lock_has_one_holder_and_its_fence_only_grows(cluster: Store, make: Callable[[], Any]) -> None:
    fences, holders = list[int](), list[int]()

    def act() -> None:
        with make() as lock:
            holders.append(1)
            fences.append(lock.fencing_token)
            assert len(holders) == 1
            holders.pop()

    times = use_while_it_moves(cluster, key("locks", "thing"), act)

    assert len(fences) == times
    assert fences == sorted(set(fences))


def test_semaphore_never_has_more_holders_than_its_limit(cluster: Store) -> None:
    holders, most = list[int](), list[int]()

    def act() -> None:
        with Semaphore("thing", 2, timeout=30):
            holders.append(1)
            most.append(len(holders))
            time.sleep(0.001)
            holders.pop()

    use_while_it_moves(cluster, key("semaphores", "thing"), act)

    assert max(most) <= 2
    assert Semaphore("thing", 2, blocking=False).available() == 2


@pytest.mark.parametrize("algorithm", ["gcra", "sliding", "fixed"])
def test_rate_limit_counts_each_hit_once(cluster: Store, algorithm: str) -> None:
    limit = RateLimit("thing", (10_000, 30 * 86_400), algorithm=algorithm)  # type: ignore[arg-type]
    limit.hit("me")
    (where, *_) = cluster.keys()

    times = 1 + use_while_it_moves(cluster, where.decode(), lambda: limit.hit("me"))

    used = 10_000 - limit.peek("me").remaining
    assert used == times if algorithm != "gcra" else times - 1 <= used <= times  # one is refilled in 259 s


def test_index_and_recent_list_contain_everything_added(cluster: Store) -> None:
    numbers, index, recents = iter(range(10_000)), PrefixIndex("thing"), RecentList("thing", limit=100)
    added = list[str]()

    def act() -> None:
        number = str(next(numbers))
        index.add(number, f"entry {number}")
        recents.touch(number, f"entry {number}")
        added.append(number)

    times = use_while_it_moves(cluster, key("autocomplete", "thing"), act)

    assert index.count() == times == len(added)
    assert len(recents.all()) == min(times, 100)


def test_counter_counts_each_increment(cluster: Store) -> None:
    name = key("counter", "thing")

    times = use_while_it_moves(cluster, name, lambda: connections.client().execute(Command("INCR", name)))

    assert int(cluster.raw.get(name)) == times

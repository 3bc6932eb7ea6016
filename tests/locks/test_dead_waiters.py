"""Dead and hung waiters delay live ones by one hand-off, whatever their number."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any

import pytest

from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.semaphores import Semaphore
from tests.support import Store, eventually
from tests.support.child import print_line
from tests.support.processes import Child, Children

#: Longest total wait of live waiters: three hand-offs of two seconds, for a busy machine.
HANDOFFS_S = 3 * 2.0


def made(kind: str, number: int = 0) -> Any:
    """Return what the waiter with this number acquires."""
    if kind == "lock":
        return Lock("stock", timeout=60)
    if kind == "group":
        return MultiLock("stock", "price", group="items", timeout=60)
    if kind == "semaphore":
        return Semaphore("stock", 2, timeout=60)
    both = ReadWriteLock("stock", timeout=60)
    return both.read() if number % 2 else both.write()


def waiting(kind: str) -> int:
    if kind == "semaphore":
        return Semaphore("stock", 2).inspect().waiting
    if kind == "group":
        return made(kind).inspect()["stock"].waiting
    return (ReadWriteLock("stock") if kind == "readwrite" else Lock("stock")).inspect().waiting


def wait_in_tasks(kind: str, count: int) -> None:
    """Run this many waiters, in a process that the test ends."""

    async def main() -> None:
        await asyncio.gather(*[made(kind, number).aacquire() for number in range(count)])
        print_line("granted")
        await asyncio.sleep(60)

    asyncio.run(main())


def held(kind: str) -> list[Any]:
    holders = [made(kind) for _ in range(2 if kind == "semaphore" else 1)]
    assert all(holder.acquire() for holder in holders)
    return holders


def victims(children: Children, kind: str, count: int) -> Child:
    child = children.call("tests.locks.test_dead_waiters:wait_in_tasks", kind, count)
    eventually(lambda: waiting(kind) == count)
    return child


def live_waiters(kind: str, served: list[int], count: int = 3) -> list[threading.Thread]:
    """Start threads that wait in this order and append their numbers when they are served."""

    def wait(number: int) -> None:
        lock = made(kind)
        assert lock.acquire()
        served.append(number)
        lock.release()

    threads = []
    for number in range(count):
        before = waiting(kind)
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        eventually(lambda before=before: waiting(kind) == before + 1)
    return threads


def seconds_of(act: Callable[[], object]) -> float:
    started_at = time.monotonic()
    act()
    return time.monotonic() - started_at


@pytest.mark.parametrize("end", [SIGKILL, SIGTERM], ids=["killed", "terminated"])
@pytest.mark.parametrize("kind", ["lock", "group", "readwrite", "semaphore"])
def test_many_dead_waiters_delay_a_live_waiter_no_longer_than_one(
    redis_server: Store, children: Children, kind: str, end: int
) -> None:
    holders = held(kind)
    child = victims(children, kind, 12)
    served: list[int] = []
    threads = live_waiters(kind, served)
    child.signal(end)
    child.wait()

    for holder in holders:
        holder.release()
    waited_s = seconds_of(lambda: [thread.join(60) for thread in threads])

    assert sorted(served) == [0, 1, 2]
    assert kind == "semaphore" or served == [0, 1, 2]
    assert waited_s < HANDOFFS_S


@pytest.mark.parametrize("kind", ["lock", "group", "readwrite", "semaphore"])
def test_many_hung_waiters_cost_one_handoff(redis_server: Store, children: Children, kind: str) -> None:
    holders = held(kind)
    child = victims(children, kind, 12)
    served: list[int] = []
    threads = live_waiters(kind, served, 2)
    child.signal(SIGSTOP)

    for holder in holders:
        holder.release()
    waited_s = seconds_of(lambda: [thread.join(60) for thread in threads])
    child.signal(SIGCONT)

    assert sorted(served) == [0, 1]
    assert waited_s < HANDOFFS_S


def test_500_dead_waiters_are_skipped_in_one_call(redis_server: Store, children: Children) -> None:
    [holder] = held("lock")
    child = victims(children, "lock", 500)
    served: list[int] = []
    threads = live_waiters("lock", served)
    child.kill()

    holder.release()
    waited_s = seconds_of(lambda: [thread.join(60) for thread in threads])

    assert served == [0, 1, 2]
    assert waited_s < HANDOFFS_S


def test_waiter_keeps_its_place_after_a_long_hang(redis_server: Store, children: Children) -> None:
    [holder] = held("lock")
    child = victims(children, "lock", 1)
    child.signal(SIGSTOP)
    eventually(lambda: waiting("lock") == 0)  # it is presumed dead
    later: list[int] = []
    threads = live_waiters("lock", later, 1)
    child.signal(SIGCONT)
    eventually(lambda: waiting("lock") == 2)

    holder.release()

    child.wait_for("granted")
    assert later == []
    child.kill()
    redis_server.raw.delete(f"{redis_server.prefix}:locks:{{stock}}")
    threads[0].join(60)
    assert later == [0]

"""Threads and tasks share lock and semaphore objects, and release what they do not hold.

Each holder checks that no other has the lock: a release by another thread or task would let one acquire it. Tasks
acquire through `asyncio.wait_for`. All checks run a few seconds of it; the full size: ``HISTORY_S=600``.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections import Counter
from typing import Any

import pytest

from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.semaphores import Semaphore
from tests.locks.chaos.kinds import NOT_OWNED
from tests.support import Store, eventually, run_async, run_together

#: Seconds of the run.
HISTORY_S = min(float(os.environ.get("HISTORY_S", "3")), 60.0)
THREADS, TASKS = 4, 6
#: Events that must have occurred before a run may end.
ENOUGH = {"grants": 30, "refused releases": 30, "timed out": 1}


class SharedObject:
    """One shared object, and its current holders."""

    def __init__(self, kind: str) -> None:
        self.shared: Any = {
            "lock": lambda: Lock("anvil", timeout=60),
            "renewed": lambda: Lock("anvil", timeout=60, renew=True),
            "reentrant": lambda: Lock("anvil", timeout=60, reentrant=True),
            "group": lambda: MultiLock("anvil", "tongs", group="tools", timeout=60),
            "writer": lambda: ReadWriteLock("anvil", timeout=60).write(),
            "semaphore": lambda: Semaphore("anvil", 2, timeout=60),
        }[kind]()
        self.limit = 2 if kind == "semaphore" else 1
        self.until = time.monotonic() + HISTORY_S
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self._inside: set[str] = set()
        self._guard = threading.Lock()

    def should_continue(self) -> bool:
        enough = all(self.counts[what] >= least for what, least in ENOUGH.items())
        return not self.problems and (time.monotonic() < self.until or not enough)

    def count(self, what: str) -> None:
        with self._guard:
            self.counts[what] += 1

    def enter(self, who: str) -> None:
        with self._guard:
            self.counts["grants"] += 1
            self._inside.add(who)
            if len(self._inside) > self.limit:
                self.problems.append(f"inside together: {self._inside}")

    def leave(self, who: str) -> None:
        with self._guard:
            self._inside.discard(who)

    def count_refusal(self, released: bool, who: str) -> None:
        """Count a release by a caller without a lease: it must be refused."""
        if released:
            self.problems.append(f"{who} released what it did not hold")
        self.count("refused releases")

    def work_as_thread(self, number: int) -> None:
        who = f"thread {number}"
        while self.should_continue():
            self.count_refusal(self._release(), who)
            with self.shared:
                self.enter(who)
                time.sleep(random.uniform(0, 0.003))
                self._check(who)
                self.leave(who)

    async def work_as_tasks(self) -> None:
        await asyncio.gather(*(asyncio.create_task(self._work_as_task(f"task {number}")) for number in range(TASKS)))

    async def _work_as_task(self, who: str) -> None:
        while self.should_continue():
            self.count_refusal(await self._arelease(), who)
            try:
                wait_limit_s = random.choice([0.002, 0.02, 30])
                await asyncio.wait_for(self.shared.aacquire(), wait_limit_s)
            except TimeoutError:
                self.count("timed out")
                continue
            self.enter(who)
            await asyncio.sleep(random.uniform(0, 0.003))
            self._check(who)
            self.leave(who)
            if not await self._arelease():
                self.problems.append(f"{who} could not release its own")

    def _check(self, who: str) -> None:
        try:
            self.shared.check()
        except NOT_OWNED as exc:
            self.problems.append(f"{who}: {exc}")

    def _release(self) -> bool:
        try:
            self.shared.release()
            return True
        except NOT_OWNED:
            return False

    async def _arelease(self) -> bool:
        try:
            await self.shared.arelease()
            return True
        except NOT_OWNED:
            return False


@pytest.mark.parametrize("kind", ["lock", "renewed", "reentrant", "group", "writer", "semaphore"])
def test_release_never_affects_the_lease_of_another_thread_or_task(redis_server: Store, kind: str) -> None:
    run = SharedObject(kind)

    def work(number: int) -> None:
        if number:
            run.work_as_thread(number)
        else:
            run_async(run.work_as_tasks, timeout_s=HISTORY_S + 60)

    run_together(1 + THREADS, work, timeout_s=HISTORY_S + 120)

    print(f"\n{kind}: {dict(run.counts)}")
    assert run.problems == []
    eventually(lambda: run.shared.available() == 2 if kind == "semaphore" else not run.shared.locked())

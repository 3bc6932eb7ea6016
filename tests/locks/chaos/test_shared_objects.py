"""Threads and tasks that share lock and semaphore objects, and release what they do not hold.

Each holder proves, while it is inside, that nobody else is: a release by another thread or task would let one in. Half
of the tasks acquire through `asyncio.wait_for`. The gate runs some seconds; the whole: ``HISTORY_S=600``.
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
#: What a run must have seen.
ENOUGH = {"grants": 30, "refused releases": 30, "timed out": 1}


class Forge:
    """One shared object, and who is inside."""

    def __init__(self, kind: str) -> None:
        self.shared: Any = {
            "lock": lambda: Lock("anvil", timeout=60),
            "renewed": lambda: Lock("anvil", timeout=60, renew=True),
            "reentrant": lambda: Lock("anvil", timeout=60, reentrant=True),
            "group": lambda: MultiLock("anvil", "tongs", group="forge", timeout=60),
            "writer": lambda: ReadWriteLock("anvil", timeout=60).write(),
            "semaphore": lambda: Semaphore("anvil", 2, timeout=60),
        }[kind]()
        self.limit = 2 if kind == "semaphore" else 1
        self.until = time.monotonic() + HISTORY_S
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self._inside: set[str] = set()
        self._guard = threading.Lock()

    def goes_on(self) -> bool:
        enough = all(self.counts[what] >= least for what, least in ENOUGH.items())
        return not self.problems and (time.monotonic() < self.until or not enough)

    def count(self, what: str) -> None:
        with self._guard:
            self.counts[what] += 1

    def comes(self, who: str) -> None:
        with self._guard:
            self.counts["grants"] += 1
            self._inside.add(who)
            if len(self._inside) > self.limit:
                self.problems.append(f"inside together: {self._inside}")

    def leaves(self, who: str) -> None:
        with self._guard:
            self._inside.discard(who)

    def judge(self, released: bool, who: str) -> None:
        """Somebody without a lease has released."""
        if released:
            self.problems.append(f"{who} released what it did not hold")
        self.count("refused releases")

    def work_as_thread(self, number: int) -> None:
        who = f"thread {number}"
        while self.goes_on():
            self.judge(self._release(), who)
            with self.shared:
                self.comes(who)
                time.sleep(random.uniform(0, 0.003))
                self._prove(who)
                self.leaves(who)

    async def work_as_tasks(self) -> None:
        await asyncio.gather(*(asyncio.create_task(self._work_as_task(f"task {number}")) for number in range(TASKS)))

    async def _work_as_task(self, who: str) -> None:
        while self.goes_on():
            self.judge(await self._arelease(), who)
            try:
                patience_s = random.choice([0.002, 0.02, 30])
                await asyncio.wait_for(self.shared.aacquire(), patience_s)
            except TimeoutError:
                self.count("timed out")
                continue
            self.comes(who)
            await asyncio.sleep(random.uniform(0, 0.003))
            self._prove(who)
            self.leaves(who)
            if not await self._arelease():
                self.problems.append(f"{who} could not release its own")

    def _prove(self, who: str) -> None:
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
    forge = Forge(kind)

    def work(number: int) -> None:
        if number:
            forge.work_as_thread(number)
        else:
            run_async(forge.work_as_tasks, timeout_s=HISTORY_S + 60)

    run_together(1 + THREADS, work, timeout_s=HISTORY_S + 120)

    print(f"\n{kind}: {dict(forge.counts)}")
    assert forge.problems == []
    eventually(lambda: forge.shared.available() == 2 if kind == "semaphore" else not forge.shared.locked())

"""Processes that take locks, hold them, extend them and write under them, and put down what they know.

Half of them are asynchronous, and cancel some of what they ask for. Half of all locks are reached through a
network that loses replies. None is careful: a holder that learns that its lease has ended writes once more. Each tells
the process that makes the faults whether it waits (`WAITING`).
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, MutableSequence
from pathlib import Path
from typing import Any

from django.conf import settings
from redis.exceptions import RedisError

from tests.locks.chaos.board import Board
from tests.locks.chaos.kinds import LOST, NOT_OWNED, made

#: Seconds of a lease.
LEASE_S = 1.0
#: What a process writes in its place of the shared memory while it asks for a lock.
WAITING = 1
#: Share of the steps under a lock before which a holder is stopped for longer than its lease.
STOPS = 0.02


class Smith:
    """One process. The same coroutine drives locks either way: without a loop it never waits for anything."""

    def __init__(
        self, directory: str, kind: str, is_async: bool, board: Board, states: MutableSequence[int], number: int
    ) -> None:
        random.seed(os.getpid())
        self._states, self._number = states, number
        self._kind = kind
        self._aliases = list(settings.REDIS_COMPONENTS["CONNECTIONS"])
        self._is_async = is_async
        self._board = board
        self._log = os.open(Path(directory) / f"{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def work(self) -> None:
        """Until somebody ends it."""
        if self._is_async:
            asyncio.run(self._work())
        else:
            self._work().send(None)

    async def _work(self) -> None:
        while True:
            await self._turn()

    async def _turn(self) -> None:
        names, lock = made(
            self._kind,
            timeout=LEASE_S,
            renew=random.random() < 0.3,
            blocking_timeout=random.choice([0, 0.05, 2]),
            using=random.choice(self._aliases),
        )
        asked = self._board.now()
        self._states[self._number] = WAITING
        granted = await self._patiently(lambda: self._take(lock))
        self._states[self._number] = 0
        if not granted:
            await self._pause(random.uniform(0, 0.05))
            return
        fence = lock.fencing_token
        self._note("grant", names, os.getpid(), fence or 0, asked, self._board.now())
        self._board.count("grants" if fence else "readers")
        for _ in range(random.randint(1, 4)):
            await self._pause(random.uniform(0, 0.03))
            if random.random() < STOPS:
                self._board.count("stopped inside")
                os.kill(os.getpid(), signal.SIGSTOP)  # somebody lets it go on when its lease has ended
            if not await self._goes_on(lock):
                break
            self._write(names, fence)
        self._write(names, fence)
        await self._give_back(lock)

    def _write(self, names: list[str], fence: int | None) -> None:
        """Also late; who only reads has nothing to write."""
        for name in names if fence else ():
            self._board.write(name, fence or 0)

    async def _take(self, lock: Any) -> bool:
        if not self._is_async:
            return lock.acquire()
        task = asyncio.ensure_future(lock.aacquire())
        if random.random() < 0.4:
            await asyncio.sleep(random.uniform(0, 0.02))
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            self._board.count("cancelled")
            return False

    async def _goes_on(self, lock: Any) -> bool:
        """Extend it perhaps, and put down that it still lasts."""
        try:
            if random.random() < (0.3 if lock.remaining() else 0.6):
                await self._patiently(lambda: self._do(lock, "extend", LEASE_S))
                self._board.count("extended")
            now = self._board.now()
            lock.check()
        except LOST:
            self._board.count("lost")
            return False
        except NOT_OWNED:
            self._board.count("not extended")
            return False
        self._note("inside", now)
        return True

    async def _give_back(self, lock: Any) -> None:
        surely_ours_until = time.monotonic() + lock.remaining()
        try:
            await self._patiently(lambda: self._do(lock, "release"))
        except NOT_OWNED:
            if time.monotonic() < surely_ours_until:
                self._note("robbed")
            self._board.count("not released")

    async def _patiently(self, method: Callable[[], Awaitable[Any]]) -> Any:
        """Call it until it is answered: by its token it knows what it has already done."""
        while True:
            try:
                return await method()
            except RedisError:
                self._board.count("errors")

    async def _do(self, lock: Any, method: str, *args: object) -> Any:
        reply = getattr(lock, f"a{method}" if self._is_async else method)(*args)
        return await reply if inspect.isawaitable(reply) else reply

    def _pause(self, seconds: float) -> Coroutine[Any, Any, None]:
        return asyncio.sleep(seconds) if self._is_async else _sleep(seconds)

    def _note(self, kind: str, *figures: object) -> None:
        """One line in one call: a kill leaves it whole or not at all."""
        os.write(self._log, json.dumps([kind, *figures]).encode() + b"\n")


async def _sleep(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - no loop runs

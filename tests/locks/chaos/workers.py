"""Processes that acquire locks, extend them, write under them, and log what they observe.

Half of them are asynchronous, and cancel some acquisitions. Half of all locks use a connection that loses replies.
A holder whose lease has expired writes once more. Each process reports to the fault injector whether it waits
(`WAITING`).
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

from tests.locks.chaos.kinds import LOST, NOT_OWNED, make_lock
from tests.locks.chaos.shared_state import SharedState

#: Seconds of a lease.
LEASE_S = 1.0
#: Value of a process in the shared memory while it waits for a lock.
WAITING = 1
#: Share of the steps under a lock before which a holder is stopped for longer than its lease.
STOPS = 0.02


class Worker:
    """One process. One coroutine serves both modes: without an event loop it never suspends."""

    def __init__(
        self, directory: str, kind: str, is_async: bool, state: SharedState, states: MutableSequence[int], number: int
    ) -> None:
        random.seed(os.getpid())
        self._states, self._number = states, number
        self._kind = kind
        self._aliases = list(settings.REDIS_COMPONENTS["CONNECTIONS"])
        self._is_async = is_async
        self._state = state
        self._log = os.open(Path(directory) / f"{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def work(self) -> None:
        """Run until the process is killed."""
        if self._is_async:
            asyncio.run(self._work())
        else:
            self._work().send(None)

    async def _work(self) -> None:
        while True:
            await self._acquire_and_write()

    async def _acquire_and_write(self) -> None:
        names, lock = make_lock(
            self._kind,
            timeout=LEASE_S,
            renew=random.random() < 0.3,
            blocking_timeout=random.choice([0, 0.05, 2]),
            using=random.choice(self._aliases),
        )
        requested_at = self._state.now()
        self._states[self._number] = WAITING
        granted = await self._retry_until_answered(lambda: self._acquire(lock))
        self._states[self._number] = 0
        if not granted:
            await self._pause(random.uniform(0, 0.05))
            return
        fence = lock.fencing_token
        self._log_event("grant", names, os.getpid(), fence or 0, requested_at, self._state.now())
        self._state.count("grants" if fence else "readers")
        for _ in range(random.randint(1, 4)):
            await self._pause(random.uniform(0, 0.03))
            if random.random() < STOPS:
                self._state.count("stopped inside")
                os.kill(os.getpid(), signal.SIGSTOP)  # the injector resumes it after the lease has expired
            if not await self._should_continue(lock):
                break
            self._write(names, fence)
        self._write(names, fence)
        await self._release(lock)

    def _write(self, names: list[str], fence: int | None) -> None:
        """Write, even after the lease expired. Readers write nothing."""
        for name in names if fence else ():
            self._state.write(name, fence or 0)

    async def _acquire(self, lock: Any) -> bool:
        if not self._is_async:
            return lock.acquire()
        task = asyncio.ensure_future(lock.aacquire())
        if random.random() < 0.4:
            await asyncio.sleep(random.uniform(0, 0.02))
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            self._state.count("cancelled")
            return False

    async def _should_continue(self, lock: Any) -> bool:
        """Extend the lease sometimes. Log and return whether it is still valid."""
        try:
            if random.random() < (0.3 if lock.remaining() else 0.6):
                await self._retry_until_answered(lambda: self._do(lock, "extend", LEASE_S))
                self._state.count("extended")
            now = self._state.now()
            lock.check()
        except LOST:
            self._state.count("lost")
            return False
        except NOT_OWNED:
            self._state.count("not extended")
            return False
        self._log_event("inside", now)
        return True

    async def _release(self, lock: Any) -> None:
        valid_until = time.monotonic() + lock.remaining()
        try:
            await self._retry_until_answered(lambda: self._do(lock, "release"))
        except NOT_OWNED:
            if time.monotonic() < valid_until:
                self._log_event("revoked")
            self._state.count("not released")

    async def _retry_until_answered(self, method: Callable[[], Awaitable[Any]]) -> Any:
        """Call it until the server replies: it is idempotent by its token."""
        while True:
            try:
                return await method()
            except RedisError:
                self._state.count("errors")

    async def _do(self, lock: Any, method: str, *args: object) -> Any:
        reply = getattr(lock, f"a{method}" if self._is_async else method)(*args)
        return await reply if inspect.isawaitable(reply) else reply

    def _pause(self, seconds: float) -> Coroutine[Any, Any, None]:
        return asyncio.sleep(seconds) if self._is_async else _sleep(seconds)

    def _log_event(self, kind: str, *figures: object) -> None:
        """Write one line in one call: a kill never leaves a partial line."""
        os.write(self._log, json.dumps([kind, *figures]).encode() + b"\n")


async def _sleep(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - no loop runs

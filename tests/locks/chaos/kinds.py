"""The kinds of locks in a history, and the guards in their scripts."""

from __future__ import annotations

import random
from typing import Any

from django_redis_components.core.leasing import lease as leases
from django_redis_components.locks import Lock, LockLost, LockNotOwned, MultiLock, ReadWriteLock
from django_redis_components.semaphores import PermitLost, PermitNotOwned, Semaphore
from tests.locks.chaos import shared_state
from tests.locks.race_workers import break_script

NAMES = ("anvil", "bellows", "crucible", "file", "hammer", "tongs")
KINDS = ("lock", "group", "readwrite", "semaphore")
#: Permits of a semaphore.
LIMIT = 3
#: Share of readers at a read-write lock.
READERS = 0.7
#: Guards in scripts: the script, its text, and the text without the guard.
GUARDS = {
    "acquire": [("ACQUIRE", 'return redis.call("EXISTS", ctx.base) == 0', "return true")],
    "release": [("RELEASE", 'if redis.call("GET", lock) ~= token then', "if false then")],
    "extend": [("EXTEND", 'if redis.call("GET", lock) ~= token then', "if false then")],
    "fence": [
        ("ACQUIRE", "local now_us = time[1] * 1000000 + time[2]", "local now_us = time[1] * 1000000"),
        ("ACQUIRE", "tonumber(last) < now_us", "true"),
    ],
    "acquire_multi": [
        ("ACQUIRE_MULTI", 'local is_held = redis.call("EXISTS", held_key(ctx, name)) == 1', "local is_held = false")
    ],
    "release_multi": [("RELEASE_MULTI", 'if redis.call("GET", held_key(ctx, name)) == token then', "if true then")],
    "extend_multi": [
        ("EXTEND_MULTI", 'if redis.call("GET", group .. ":held:" .. name) ~= token then', "if false then")
    ],
    "writers": [("ACQUIRE_READWRITE", ' and (is_reader(token) or redis.call("EXISTS", ctx.readers) == 0)', "")],
    "readers": [
        (
            "ACQUIRE_READWRITE",
            'redis.call("EXISTS", ctx.writer) == 0 and',
            'is_reader(token) or redis.call("EXISTS", ctx.writer) == 0 and',
        )
    ],
    "permits": [("ACQUIRE", 'redis.call("ZCARD", ctx.holders) + count <= limit', "true")],
}


class Permits:
    """Permits of a semaphore, with the methods of a lock that holders use."""

    fencing_token = None

    def __init__(self, name: str, permits: int, **options: Any) -> None:
        self.semaphore = Semaphore(name, LIMIT, **options)
        for method in ("check", "remaining", "extend", "aextend", "release", "arelease"):
            setattr(self, method, getattr(self.semaphore, method))
        self._permits = permits

    def acquire(self) -> bool:
        return self.semaphore.acquire(self._permits)

    async def aacquire(self) -> bool:
        return await self.semaphore.aacquire(self._permits)


#: Errors of a lost lease; those of `LOST` are raised only when it has expired by the local clock.
LOST = (LockLost, PermitLost)
NOT_OWNED = (LockNotOwned, PermitNotOwned)


def make_lock(kind: str, **options: Any) -> tuple[list[str], Any]:
    """Return random names and the lock on them; a semaphore's name occurs once per permit."""
    if kind == "group":
        names = random.sample(NAMES, random.randint(1, 2))
        return names, MultiLock(*names, group="tools", **options)
    name = random.choice(NAMES)
    if kind == "semaphore":
        permits = random.randint(1, 2)
        return [name] * permits, Permits(name, permits, **options)
    if kind == "lock":
        return [name], Lock(name, **options)
    both = ReadWriteLock(name, **options)
    return [name], both.read() if random.random() < READERS else both.write()


def remove_guard(guard: str) -> None:
    """Remove a guard, to verify that the history reports it."""
    if guard == "resource":
        shared_state.FENCED_WRITE = shared_state.FENCED_WRITE.replace("return 0", "")
    elif guard == "deadline":
        leases.Lease.has_expired = property(lambda lease: False)
    elif guard:
        for edit in GUARDS[guard]:
            break_script("semaphores" if guard == "permits" else "locks", *edit)

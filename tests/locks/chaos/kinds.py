"""The kinds of locks in a history, and the guards in their scripts."""

from __future__ import annotations

import random
from typing import Any

from django_redis_components.core.leasing import lease as leases
from django_redis_components.locks import Lock, LockLost, LockNotOwned, MultiLock, ReadWriteLock
from django_redis_components.semaphores import PermitLost, PermitNotOwned, Semaphore
from tests.locks.chaos import shared_state
from tests.locks.race_workers import WITHOUT_EXCLUSION, break_script

NAMES = ("anvil", "bellows", "crucible", "file", "hammer", "tongs")
KINDS = ("lock", "group", "readwrite", "semaphore")
#: Permits of a semaphore.
LIMIT = 3
#: Share of readers at a read-write lock.
READERS = 0.7
_HELD = 'redis.call("GET", ctx.base) == token and redis.call("PTTL", ctx.base) or nil'
#: Guards in scripts: the kind, the script, its text, and the text without the guard.
GUARDS = {
    "acquire": [("locks", "acquire", *WITHOUT_EXCLUSION)],
    "release": [("locks", "release", 'if redis.call("GET", ctx.base) ~= token then', "if false then")],
    "extend": [("locks", "extend", _HELD, 'redis.call("PTTL", ctx.base)')],
    "fence": [
        ("locks", "acquire", "local now_us = time[1] * 1000000 + time[2]", "local now_us = time[1] * 1000000"),
        ("locks", "acquire", "tonumber(last) < now_us", "true"),
    ],
    "acquire_multi": [("group", "acquire", "if holder and holder ~= token then", "if false then")],
    "release_multi": [("group", "release", 'if redis.call("GET", held_key(ctx, name)) == token then', "if true then")],
    "extend_multi": [("group", "extend", "return own == #names and left or nil", "return left or 1")],
    "writers": [("readwrite", "acquire", 'redis.call("EXISTS", readers) == 0 and', "")],
    "readers": [("readwrite", "acquire", 'redis.call("EXISTS", ctx.base) == 0 and add_member', "add_member")],
    "permits": [("semaphores", "acquire", "others + count > limit or", "")],
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
            break_script(*edit)

"""The kinds of locks that a history is made of, and what holds their promises."""

from __future__ import annotations

import random
from typing import Any

from django_redis_components.core.leasing import lease as leases
from django_redis_components.locks import Lock, LockLost, LockNotOwned, MultiLock, ReadWriteLock
from django_redis_components.semaphores import PermitLost, PermitNotOwned, Semaphore
from tests.locks.chaos import board
from tests.locks.racers import break_script

NAMES = ("anvil", "bellows", "crucible", "file", "hammer", "tongs")
KINDS = ("lock", "group", "readwrite", "semaphore")
#: Permits of a semaphore.
LIMIT = 3
#: Share of those at a read-write lock who only read.
READERS = 0.7
#: What holds the promises in scripts: which, its text, and what it becomes when the guard is taken out.
GUARDS = {
    "acquire": [("ACQUIRE", 'return redis.call("EXISTS", lock) == 0', "return true")],
    "release": [("RELEASE", 'if redis.call("GET", lock) ~= token then', "if false then")],
    "extend": [("EXTEND", 'if redis.call("GET", lock) ~= token then', "if false then")],
    "fence": [
        ("ACQUIRE", "local now_us = time[1] * 1000000 + time[2]", "local now_us = time[1] * 1000000"),
        ("ACQUIRE", "tonumber(last) < now_us", "true"),
    ],
    "acquire_all": [("ACQUIRE_ALL", 'redis.call("EXISTS", held(name)) == 1 or', "")],
    "release_all": [("RELEASE_ALL", 'if redis.call("GET", held(name)) == token then', "if true then")],
    "extend_all": [("EXTEND_ALL", 'if redis.call("GET", held) ~= token then', "if false then")],
    "writers": [("ACQUIRE_RW", ' and (reads(token) or redis.call("EXISTS", readers) == 0)', "")],
    "readers": [
        ("ACQUIRE_RW", 'redis.call("EXISTS", writer) == 0 and', 'reads(token) or redis.call("EXISTS", writer) == 0 and')
    ],
    "permits": [("ACQUIRE", 'redis.call("ZCARD", holders) + count <= most', "true")],
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


#: Errors of a lease that is not ours any more; the first two are raised only when it is over by our clock.
LOST = (LockLost, PermitLost)
NOT_OWNED = (LockNotOwned, PermitNotOwned)


def made(kind: str, **options: Any) -> tuple[list[str], Any]:
    """Which names somebody wants, and the lock on them; a semaphore's once for each permit."""
    if kind == "group":
        names = random.sample(NAMES, random.randint(1, 2))
        return names, MultiLock(*names, group="forge", **options)
    name = random.choice(NAMES)
    if kind == "semaphore":
        permits = random.randint(1, 2)
        return [name] * permits, Permits(name, permits, **options)
    if kind == "lock":
        return [name], Lock(name, **options)
    both = ReadWriteLock(name, **options)
    return [name], both.read() if random.random() < READERS else both.write()


def take_out(guard: str) -> None:
    """Take a guard out, to see that the history shows it."""
    if guard == "resource":
        board.FENCED_WRITE = board.FENCED_WRITE.replace("return 0", "")
    elif guard == "deadline":
        leases.Lease.has_expired = property(lambda lease: False)
    elif guard:
        for edit in GUARDS[guard]:
            break_script("semaphores" if guard == "permits" else "locks", *edit)

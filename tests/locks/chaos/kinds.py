"""The kinds of locks that a history is made of, and what holds their promises."""

from __future__ import annotations

import random
from typing import Any

from django_redis_components.core import leases
from django_redis_components.locks import Lock, MultiLock, ReadWriteLock
from django_redis_components.locks.holdable import Holdable
from tests.locks.chaos import board
from tests.locks.racers import break_script

NAMES = ("anvil", "bellows", "crucible", "file", "hammer", "tongs")
KINDS = ("lock", "group", "readwrite")
#: Share of those at a read-write lock who only read.
READERS = 0.7
#: What holds the promises in scripts: which, its text, and what it becomes when the guard is taken out.
GUARDS = {
    "acquire": [("ACQUIRE", "if not holder then\n  local", "if true then\n  local")],
    "release": [("RELEASE", 'if redis.call("GET", lock) ~= token then', "if false then")],
    "extend": [("EXTEND", 'if redis.call("GET", lock) ~= token then', "if false then")],
    "fence": [
        ("ACQUIRE", "local now_us = time[1] * 1000000 + time[2]", "local now_us = time[1] * 1000000"),
        ("ACQUIRE", "tonumber(last) < now_us", "true"),
    ],
    "acquire_all": [("ACQUIRE_ALL", "(holder and holder ~= token)", "(holder and names[2] and holder ~= token)")],
    "release_all": [("RELEASE_ALL", 'if redis.call("GET", held(name)) == token then', "if true then")],
    "extend_all": [("EXTEND_ALL", 'if redis.call("GET", held) ~= token then', "if false then")],
    "writers": [("ACQUIRE_RW", ' and (reads(token) or redis.call("EXISTS", readers) == 0)', "")],
    "readers": [
        ("ACQUIRE_RW", 'redis.call("EXISTS", writer) == 0 and', 'reads(token) or redis.call("EXISTS", writer) == 0 and')
    ],
}


def made(kind: str, **options: Any) -> tuple[list[str], Holdable]:
    """Which names somebody wants, and the lock on them."""
    if kind == "group":
        names = random.sample(NAMES, random.randint(1, 2))
        return names, MultiLock(*names, group="forge", **options)
    name = random.choice(NAMES)
    if kind == "lock":
        return [name], Lock(name, **options)
    both = ReadWriteLock(name, **options)
    return [name], both.read() if random.random() < READERS else both.write()


def take_out(guard: str) -> None:
    """Take a guard out, to see that the history shows it."""
    if guard == "resource":
        board.FENCED_WRITE = board.FENCED_WRITE.replace("return 0", "")
    elif guard == "deadline":
        leases.Lease.is_overdue = property(lambda lease: False)
    elif guard:
        for edit in GUARDS[guard]:
            break_script("locks", *edit)

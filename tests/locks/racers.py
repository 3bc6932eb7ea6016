"""Sixteen processes that fight for one lock or semaphore, through a proxy that loses replies.

What they do while they hold it goes straight to the server, and is counted there: how many are inside at
once, how often that was too many, and under which fencing tokens they came.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import redis
from django.conf import settings
from redis.exceptions import RedisError

from django_redis_components.locks import Lock, LockNotOwned
from django_redis_components.locks import scripts as lock_scripts
from django_redis_components.semaphores import Semaphore
from django_redis_components.semaphores import scripts as semaphore_scripts

#: Seconds of a lease: longer than any pause of a busy machine, for an expired lease would look like a fault.
LEASE_S = 20
#: Most seconds that a racer stays inside.
HOLD_S = 0.002
#: Grants that make a race.
LEAST_GRANTS = 100
#: Seconds by which a race may be longer to get there.
EXTRA_S = 30
SCRIPTS = {"locks": lock_scripts, "semaphores": semaphore_scripts}


def race(room: str, limit: int, processes: int, seconds: float, edits: list[list[str]]) -> None:
    """Run the race: so long, and on until there is something to judge by (a busy machine is slow).

    Each edit (script, old text, new text) takes a guard out of a script first. Then the race ends with the
    first fault.
    """
    for script, old, new in edits:
        break_script(room, script, old, new)
    enough = ("violations", 1) if edits else ("grants", LEAST_GRANTS)
    pids = [forked(lambda: _run(room, limit, seconds, enough)) for _ in range(processes)]
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError(f"a racer ended with {os.waitstatus_to_exitcode(status)}")


def forked(func: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            func()
            code = 0
        finally:
            os._exit(code)
    return pid


def _run(room: str, limit: int, seconds: float, enough: tuple[str, int]) -> None:
    random.seed(os.getpid())
    entries = settings.REDIS_COMPONENTS
    raw = redis.Redis.from_url(entries["CONNECTIONS"]["default"]["URL"])
    board = f"{entries['PREFIX']}:race"
    guard: Any
    if room == "locks":
        guard = Lock("prize", timeout=LEASE_S, blocking_timeout=0.5, using="proxied")
    else:
        guard = Semaphore("prize", limit, timeout=LEASE_S, blocking_timeout=0.5, using="proxied")
    began = time.monotonic()
    while _goes_on(time.monotonic() - began, seconds, lambda: int(raw.get(f"{board}:{enough[0]}") or 0) >= enough[1]):
        if not _patiently(guard.acquire, raw, board):
            continue
        inside = raw.incr(f"{board}:inside")
        raw.zadd(f"{board}:most", {"inside": inside}, gt=True)
        raw.incr(f"{board}:grants")
        if inside > limit:
            raw.incr(f"{board}:violations")
        raw.rpush(f"{board}:fences", getattr(guard, "fencing_token", 0))
        time.sleep(random.uniform(0, HOLD_S))
        raw.decr(f"{board}:inside")
        _patiently(guard.release, raw, board)
    raw.close()


def _goes_on(ran_s: float, seconds: float, is_enough: Callable[[], bool]) -> bool:
    return ran_s < seconds or (ran_s < seconds + EXTRA_S and not is_enough())


def _patiently(method: Callable[[], Any], raw: Any, board: str) -> Any:
    """Call it until it is answered: by its token it knows what it has already done."""
    while True:
        try:
            return method()
        except RedisError:
            raw.incr(f"{board}:errors")
        except LockNotOwned:
            raw.incr(f"{board}:not_owned")
            return False


def break_script(room: str, script: str, old: str, new: str) -> None:
    """Take a guard out of a script of this process."""
    broken = getattr(SCRIPTS[room], script)
    assert old in broken.source, f"{script} has no {old!r}"
    broken.__dict__["source"] = broken.source.replace(old, new)

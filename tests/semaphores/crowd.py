"""Processes that share a semaphore while half of their clocks are ahead."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable

import redis
from django.conf import settings

from django_redis_components.semaphores import PermitNotOwned, Semaphore, scripts
from tests.locks.racers import forked

LIMIT, PROCESSES = 3, 8
#: Seconds by which half of the clocks are ahead, and those of a lease, which is shorter.
AHEAD_S, LEASE_S = 11, 10
#: Most seconds that a permit is held.
HOLD_S = 0.001
#: The work: who enters counts those inside with it.
ENTER = """
local inside = redis.call("INCR", KEYS[1])
redis.call("HINCRBY", KEYS[2], "grants", 1)
if inside > tonumber(ARGV[1]) then
  redis.call("HINCRBY", KEYS[2], "overruns", 1)
end
return tonumber(redis.call("HGET", KEYS[2], "grants"))
"""


def crowd(grants: int, believes_clients: bool) -> None:
    """Let them take permits until so many were granted. A script that believes its client's clock is the fault."""
    pids = [
        forked(lambda number=number: _run(number % 2 == 1, grants, believes_clients)) for number in range(PROCESSES)
    ]
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError(f"a process ended with {os.waitstatus_to_exitcode(status)}")


def _run(is_ahead: bool, grants: int, believes_clients: bool) -> None:
    if is_ahead:
        _set_clocks(AHEAD_S)
    if is_ahead and believes_clients:
        _believe(AHEAD_S)
    entries = settings.REDIS_COMPONENTS
    raw = redis.Redis.from_url(entries["CONNECTIONS"]["default"]["URL"])
    inside, board = (f"{entries['PREFIX']}:crowd:{part}" for part in ("inside", "board"))
    semaphore = Semaphore("pool", LIMIT, timeout=LEASE_S)
    enough = False
    while not enough:
        with contextlib.suppress(PermitNotOwned), semaphore:  # its permit may have been granted to another
            enough = raw.eval(ENTER, 2, inside, board, LIMIT) >= grants
            time.sleep(random.uniform(0, HOLD_S))
            raw.decr(inside)


def _set_clocks(ahead_s: float) -> None:
    """Set the clocks of this process ahead, as far as Python can tell."""
    for name in ("time", "monotonic"):
        setattr(time, name, _ahead(getattr(time, name), ahead_s))


def _ahead(clock: Callable[[], float], ahead_s: float) -> Callable[[], float]:
    return lambda: clock() + ahead_s


def _believe(ahead_s: int) -> None:
    """Let what this process takes for expired be expired."""
    acquire = scripts.ACQUIRE
    purge = 'redis.call("ZREMRANGEBYSCORE", holders, "-inf", now_ms)'
    assert purge in acquire.source
    acquire.__dict__["source"] = acquire.source.replace(purge, purge.replace("now_ms", f"now_ms + {ahead_s * 1_000}"))

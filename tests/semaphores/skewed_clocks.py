"""Processes that share a semaphore while half of their clocks are ahead."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable

import redis
from django.conf import settings

from django_redis_components.semaphores import PermitNotOwned, Semaphore
from django_redis_components.semaphores.permits import PermitKind
from tests.locks.race_workers import forked

LIMIT, PROCESSES = 3, 8
#: Seconds by which half of the clocks are ahead, and seconds of a lease, which is shorter.
AHEAD_S, LEASE_S = 11, 10
#: Longest time in seconds that a permit is held.
HOLD_S = 0.001
#: Run by each holder: counts the holders.
ENTER = """
local inside = redis.call("INCR", KEYS[1])
redis.call("HINCRBY", KEYS[2], "grants", 1)
if inside > tonumber(ARGV[1]) then
  redis.call("HINCRBY", KEYS[2], "overruns", 1)
end
return tonumber(redis.call("HGET", KEYS[2], "grants"))
"""


def run_processes(grants: int, use_client_clocks: bool) -> None:
    """Acquire permits until `grants` were granted. `use_client_clocks` makes the script trust them: a fault."""
    pids = [
        forked(lambda number=number: _run(number % 2 == 1, grants, use_client_clocks)) for number in range(PROCESSES)
    ]
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError(f"a process ended with {os.waitstatus_to_exitcode(status)}")


def _run(is_ahead: bool, grants: int, use_client_clocks: bool) -> None:
    if is_ahead:
        _set_clocks(AHEAD_S)
    if is_ahead and use_client_clocks:
        _use_client_clock(AHEAD_S)
    entries = settings.REDIS_COMPONENTS
    raw = redis.Redis.from_url(entries["CONNECTIONS"]["default"]["URL"])
    inside, stats = (f"{entries['PREFIX']}:clocks:{part}" for part in ("inside", "stats"))
    semaphore = Semaphore("pool", LIMIT, timeout=LEASE_S)
    enough = False
    while not enough:
        with contextlib.suppress(PermitNotOwned), semaphore:  # its permit may have been granted to another
            enough = raw.eval(ENTER, 2, inside, stats, LIMIT) >= grants
            time.sleep(random.uniform(0, HOLD_S))
            raw.decr(inside)


def _set_clocks(ahead_s: float) -> None:
    """Set the clocks of this process ahead, as far as Python can tell."""
    for name in ("time", "monotonic"):
        setattr(time, name, _ahead(getattr(time, name), ahead_s))


def _ahead(clock: Callable[[], float], ahead_s: float) -> Callable[[], float]:
    return lambda: clock() + ahead_s


def _use_client_clock(ahead_s: int) -> None:
    """Make the script expire permits by the clock of this process."""
    acquire = PermitKind.scripts.acquire
    purge = 'redis.call("ZREMRANGEBYSCORE", key, "-inf", ctx.now_ms)'
    assert purge in acquire.source
    acquire.__dict__["source"] = acquire.source.replace(purge, purge.replace("now_ms", f"now_ms + {ahead_s * 1_000}"))

"""Sixteen processes that contend for one lock or semaphore, through a proxy that loses replies.

Each holder counts on the server, without the proxy: how many hold a lease at once, how often that exceeded the limit,
and the fencing tokens.
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
from django_redis_components.locks.group import GroupKind
from django_redis_components.locks.lock import PlainKind
from django_redis_components.locks.readwrite import ReadWriteKind
from django_redis_components.semaphores import Semaphore
from django_redis_components.semaphores.permits import PermitKind

#: Seconds of a lease: longer than any pause of a busy machine, for an expired lease would look like a fault.
LEASE_S = 20
#: Longest time in seconds that a process keeps a lease.
HOLD_S = 0.002
#: Fewest grants of a run.
MIN_GRANTS = 100
#: Seconds by which a run may be extended to reach them.
EXTRA_S = 30
KINDS = {"locks": PlainKind, "group": GroupKind, "readwrite": ReadWriteKind, "semaphores": PermitKind}
#: The text in the script that acquires a lock by which it has one holder, and the text without it.
WITHOUT_EXCLUSION = (
    'if not redis.call("SET", ctx.base, token, "NX", "GET", "PX", ttl_ms) then',
    'redis.call("SET", ctx.base, token, "PX", ttl_ms)\n  if true then',
)


def race(component: str, limit: int, processes: int, seconds: float, edits: list[list[str]]) -> None:
    """Run for `seconds`, and until `MIN_GRANTS` were granted (a busy machine is slow).

    Each edit (script, old text, new text) removes a guard from a script first. Then the run ends with the first
    violation.
    """
    for script, old, new in edits:
        break_script(component, script, old, new)
    enough = ("violations", 1) if edits else ("grants", MIN_GRANTS)
    pids = [forked(lambda: _run(component, limit, seconds, enough)) for _ in range(processes)]
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError(f"a process exited with {os.waitstatus_to_exitcode(status)}")


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


def _run(component: str, limit: int, seconds: float, enough: tuple[str, int]) -> None:
    random.seed(os.getpid())
    entries = settings.REDIS_COMPONENTS
    raw = redis.Redis.from_url(entries["CONNECTIONS"]["default"]["URL"])
    stats = f"{entries['PREFIX']}:race"
    guard: Any
    if component == "locks":
        guard = Lock("prize", timeout=LEASE_S, blocking_timeout=0.5, using="proxied")
    else:
        guard = Semaphore("prize", limit, timeout=LEASE_S, blocking_timeout=0.5, using="proxied")
    started_at = time.monotonic()
    while _should_continue(
        time.monotonic() - started_at, seconds, lambda: int(raw.get(f"{stats}:{enough[0]}") or 0) >= enough[1]
    ):
        if not _retry_until_answered(guard.acquire, raw, stats):
            continue
        inside = raw.incr(f"{stats}:inside")
        raw.zadd(f"{stats}:most", {"inside": inside}, gt=True)
        raw.incr(f"{stats}:grants")
        if inside > limit:
            raw.incr(f"{stats}:violations")
        raw.rpush(f"{stats}:fences", getattr(guard, "fencing_token", 0))
        time.sleep(random.uniform(0, HOLD_S))
        raw.decr(f"{stats}:inside")
        _retry_until_answered(guard.release, raw, stats)
    raw.close()


def _should_continue(ran_s: float, seconds: float, is_enough: Callable[[], bool]) -> bool:
    return ran_s < seconds or (ran_s < seconds + EXTRA_S and not is_enough())


def _retry_until_answered(method: Callable[[], Any], raw: Any, stats: str) -> Any:
    """Call it until the server replies: it is idempotent by its token."""
    while True:
        try:
            return method()
        except RedisError:
            raw.incr(f"{stats}:errors")
        except LockNotOwned:
            raw.incr(f"{stats}:not_owned")
            return False


def break_script(kind: str, script: str, old: str, new: str) -> None:
    """Remove a guard from a script of this process."""
    broken = getattr(KINDS[kind].scripts, script)
    assert old in broken.source, f"{script} has no {old!r}"
    broken.__dict__["source"] = broken.source.replace(old, new)

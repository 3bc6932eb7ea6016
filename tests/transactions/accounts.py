"""The account that is doubled: what the processes of the tests do."""

from __future__ import annotations

import os
import signal
from typing import Any

from django_redis_components.transactions import atomic_update


def double(key: str) -> Any:
    """Doubles the balance at `key`: the function that is tried again whenever somebody else was faster."""

    def attempt(pipe: Any) -> int:
        balance = int(pipe.get(key))
        pipe.multi()
        pipe.set(key, balance * 2)
        return balance * 2

    return attempt


def double_account(key: str, times: int, options: dict[str, Any]) -> int:
    """Double it so many times, and return the balance after the last one."""
    balance = 0
    for _ in range(times):
        balance = atomic_update(double(key), key, attempts=10_000, deadline=60, **options)
    return balance


def transfer(source: str, target: str, amount: int, times: int) -> int:
    """Move gold from one account to the other; returns how often there was enough."""

    def attempt(pipe: Any) -> bool:
        left = int(pipe.get(source) or 0)
        if left < amount:
            return False
        pipe.multi()
        pipe.decrby(source, amount)
        pipe.incrby(target, amount)
        return True

    return sum(atomic_update(attempt, source, target, attempts=10_000, deadline=60, lock_after=3) for _ in range(times))


def die_before_exec(key: str) -> None:
    """kill -9 of itself with the keys watched and a write queued."""

    def attempt(pipe: Any) -> None:
        pipe.get(key)
        pipe.multi()
        pipe.set(key, -1)
        os.kill(os.getpid(), signal.SIGKILL)

    atomic_update(attempt, key)

"""Functions that child processes of the tests run on accounts."""

from __future__ import annotations

import os
import signal
from typing import Any

from django_redis_components.transactions import atomic_update


def double(key: str) -> Any:
    """Return a function that doubles the balance at `key`."""

    def attempt(pipe: Any) -> int:
        balance = int(pipe.get(key))
        pipe.multi()
        pipe.set(key, balance * 2)
        return balance * 2

    return attempt


def double_account(key: str, times: int, options: dict[str, Any]) -> int:
    """Double the balance this many times; return the last balance."""
    balance = 0
    for _ in range(times):
        balance = atomic_update(double(key), key, max_attempts=10_000, timeout=60, **options)
    return balance


def transfer(source: str, target: str, amount: int, times: int) -> int:
    """Transfer between two accounts; return the number of transfers with sufficient funds."""

    def attempt(pipe: Any) -> bool:
        left = int(pipe.get(source) or 0)
        if left < amount:
            return False
        pipe.multi()
        pipe.decrby(source, amount)
        pipe.incrby(target, amount)
        return True

    return sum(
        atomic_update(attempt, source, target, max_attempts=10_000, timeout=60, lock_after=3) for _ in range(times)
    )


def die_before_exec(key: str) -> None:
    """Kill this process with SIGKILL while keys are watched and a write is queued."""

    def attempt(pipe: Any) -> None:
        pipe.get(key)
        pipe.multi()
        pipe.set(key, -1)
        os.kill(os.getpid(), signal.SIGKILL)

    atomic_update(attempt, key)

"""Semaphores."""

from __future__ import annotations

from typing import assert_type

from django_redis_components.semaphores import PermitHolder, Semaphore, semaphore


@semaphore("gateway", limit=3, on_conflict="delay")
async def charge(cents: int) -> bool:
    return cents > 0


async def right() -> None:
    assert_type(await charge(1), bool)
    assert_type(Semaphore("gateway", 3).acquire(2, blocking=False), bool)
    assert_type((await Semaphore("gateway", 3).ainspect()).holders, tuple[PermitHolder, ...])


def wrong() -> None:
    semaphore("gateway", limit=3, on_conflict="fail")  # type: ignore[arg-type]
    semaphore("gateway")  # type: ignore[call-arg]
    Semaphore("gateway")  # type: ignore[call-arg]
    Semaphore("gateway", "3")  # type: ignore[arg-type]

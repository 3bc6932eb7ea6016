"""Atomic updates."""

from __future__ import annotations

from typing import assert_type

from django_redis_components.transactions import Pipe, aatomic_update, atomic_update


def count(pipe: Pipe) -> int:
    return 1


async def right() -> None:
    assert_type(atomic_update(count, "key"), int)
    assert_type(await aatomic_update(lambda pipe: 1, "key"), int)


def wrong() -> None:
    atomic_update(count, 1)  # type: ignore[arg-type]
    atomic_update("count", "key")  # type: ignore[arg-type]
    atomic_update(count, "key", attempts=3)  # type: ignore[call-arg]

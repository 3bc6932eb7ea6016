"""Locks."""

from __future__ import annotations

from datetime import timedelta
from typing import assert_type

from django_redis_components.locks import Lock, LockState, MultiLock, ReadLock, ReadWriteLock, lock


@lock("order:{order}", timeout=timedelta(seconds=5), on_conflict="skip")
def pay(order: int) -> str:
    return str(order)


async def right() -> None:
    assert_type(pay(1), str)
    with Lock("stock", timeout=5) as held:
        assert_type(held.fencing_token, int | None)
    async with Lock("stock"):
        pass
    assert_type(Lock("stock").inspect(), LockState)
    assert_type(ReadWriteLock("file").read(), ReadLock)
    MultiLock("a", "b", group="stock", blocking=False).acquire()


def wrong() -> None:
    lock("order", on_conflict="return")  # type: ignore[arg-type]
    lock("order", timeout="5")  # type: ignore[arg-type]
    lock("order", blocking=False)  # type: ignore[call-arg]
    Lock(5)  # type: ignore[arg-type]
    Lock("stock", time_out=5)  # type: ignore[call-arg]
    Lock("stock", 5)  # type: ignore[call-arg]
    pay("one")  # type: ignore[arg-type]
    Lock("stock").acquire(False)  # type: ignore[call-arg]

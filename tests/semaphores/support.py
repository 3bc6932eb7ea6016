"""Helpers of the tests of semaphores: waiters, and what Redis stores of them."""

from __future__ import annotations

from django_redis_components.core.protocol import Wait
from django_redis_components.semaphores import Semaphore
from tests.locks.steps import acquisition
from tests.support import Store


def key_of(store: Store) -> str:
    return f"{store.prefix}:semaphores:{{pool}}"


def queue(store: Store) -> list[bytes]:
    return store.raw.zrange(f"{key_of(store)}:queue", 0, -1)


def held(limit: int = 1, permits: int = 1, **options: object) -> Semaphore:
    """Return a semaphore whose permits are taken."""
    semaphore = Semaphore("pool", limit, **options, blocking=False)
    assert semaphore.acquire(permits)
    return semaphore


class Waiter:
    """Return the steps of an `acquire` that is queued; its next request waits for the wakeup."""

    def __init__(self, limit: int = 1, permits: int = 1, **options: object) -> None:
        self.semaphore = Semaphore("pool", limit, **options)
        self.steps = acquisition(self.semaphore, permits)
        self.steps.perform()
        assert isinstance(self.steps.request, Wait)

    def is_served(self) -> bool:
        """Return whether the waiter gets its permits when it asks again, without its wakeup."""
        self.steps.send(None)
        self.steps.perform()
        return self.steps.value is True

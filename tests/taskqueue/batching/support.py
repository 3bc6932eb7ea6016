"""What the next fetches lease, batch by batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from django_redis_components.taskqueue.fields import Turn
from django_redis_components.taskqueue.store.job import Job
from tests.support import Store
from tests.taskqueue.support import new_fetcher, queue_key, server_ms

#: Request numbers of a slot start at 0, so each fetcher needs its own slot.
_slots = itertools.count()


def take(want: int = 100, *queues: str, worker: str = "here:1") -> list[list[Any]]:
    """Lease in one call; return the first arguments of each batch, or of a task without one."""
    return words_of(new_fetcher(*queues, worker=worker).fetch(f"take{next(_slots)}", want))


def words_of(jobs: Iterable[Job]) -> list[list[Any]]:
    return [[each.message()[0][0] for each in (job, *job.others)] for job in jobs]


def let_wait_pass(store: Store, queue: str = "default") -> None:
    """Let the batches that are not full have waited as long as they may."""
    key = queue_key(store, "turns", queue)
    for group, score in store.raw.zrangebyscore(key, Turn.filling, "+inf", withscores=True):
        store.raw.zadd(key, {group: Turn.filling + int(server_ms(store)) - 1})
        assert score >= Turn.filling


def starts_in_ms(store: Store, queue: str = "default") -> list[float]:
    """Return in how many milliseconds the batches that are not full start."""
    now_ms = server_ms(store)
    found = store.raw.zrangebyscore(queue_key(store, "turns", queue), Turn.filling, "+inf", withscores=True)
    return [score - Turn.filling - now_ms for _, score in found]

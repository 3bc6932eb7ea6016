"""RQ: results kept, by defaults. A started job of a dead worker fails after minutes, it is not run again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import redis
from rq import Queue

from benchmarks import bodies

queue = Queue(connection=redis.Redis.from_url(bodies.URL))


def send(name: str, *args: Any) -> None:
    queue.enqueue(getattr(bodies, name), *args)


def send_many(name: str, calls: Sequence[Sequence[Any]]) -> None:
    for start in range(0, len(calls), 500):
        queue.enqueue_many([Queue.prepare_data(getattr(bodies, name), args) for args in calls[start : start + 500]])


def send_at(name: str, due: float, *args: Any) -> None:
    queue.enqueue_at(datetime.fromtimestamp(due, UTC), getattr(bodies, name), *args)

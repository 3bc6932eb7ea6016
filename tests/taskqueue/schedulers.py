"""Helpers for tests of schedules: due times that are given, pollers in this thread, stored state."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

from django_redis_components.core.client import connections
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.schedules.schedule import Schedule
from django_redis_components.taskqueue.schedules.scheduler import Scheduler
from django_redis_components.taskqueue.shards import home
from tests.support import Store
from tests.taskqueue.support import base_key, queue_key
from tests.taskqueue.tasks import note

#: An hour in milliseconds.
HOUR = 3_600_000


@dataclasses.dataclass(frozen=True)
class Moments:
    """Recurrence at these times, in milliseconds since the epoch."""

    moments: tuple[int, ...]
    text: str = "at chosen moments"

    def following(self, after_ms: int) -> int | None:
        return min((moment for moment in self.moments if moment > after_ms), default=None)

    def latest(self, after_ms: int, until_ms: int) -> int | None:
        return max((moment for moment in self.moments if after_ms < moment <= until_ms), default=None)


def at(*moments: int, text: str = "at chosen moments", **options: Any) -> Schedule:
    """Return a schedule of `note`, named "s" by default."""
    given: dict[str, Any] = {"name": "s", "task": note, "args": ("s",), **options}
    return Schedule(recurrence=Moments(tuple(sorted(moments)), text), **given)


def poller_of(*schedules: Schedule, using: str = "default") -> Poller:
    return Poller(home(using), connections.client(using), schedules=schedules)


def scheduler_of(poller: Poller) -> Scheduler:
    return poller.scheduler


def seconds_to_next_round(poller: Poller) -> float:
    return poller.next_round_at - time.monotonic()


def run_next_round_by(poller: Poller, at_s: float) -> None:
    """Make the next round due at this monotonic time, if it is not due earlier."""
    poller.next_round_at = min(poller.next_round_at, at_s)


def next_round(poller: Poller) -> None:
    poller.next_round_at = 0.0
    poller.step()


def take_place_from(store: Store, poller: Poller) -> None:
    """End the lease of the active poller, as if it had expired."""
    assert store.raw.delete(base_key(store, "poller")) == 1
    poller.is_active = False


def announced(poller: Poller, store: Store, *names: str, last_ms: int) -> None:
    """Register the schedules of the poller, with `last_ms` as their last due time."""
    next_round(poller)
    for name in names or ("s",):
        assert store.raw.hexists(state_key(store, name), "last")
        store.raw.hset(state_key(store, name), "last", last_ms)
    scheduler_of(poller).invalidate()


def state_key(store: Store, name: str = "s") -> str:
    return base_key(store, "schedule", name)


def state(store: Store, name: str = "s") -> dict[str, Any]:
    found: dict[str, Any] = {
        key.decode(): value.decode() for key, value in store.raw.hgetall(state_key(store, name)).items()
    }
    return found | {"info": json.loads(found["info"])} if found else {}


def waiting(store: Store, queue: str = "default") -> list[str]:
    """Return the ids of ready tasks, in order."""
    return [task_id.decode() for task_id in store.raw.lrange(queue_key(store, "ready", queue), 0, -1)]

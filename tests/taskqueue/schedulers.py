"""What the tests of periodic tasks share: slots at chosen moments, pollers in this thread, looks at the state."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from django_redis_components.core.client import connections
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.schedules.schedule import Schedule
from tests.support import Store
from tests.taskqueue.support import base_key, queue_key
from tests.taskqueue.tasks import note

#: An hour in milliseconds.
HOUR = 3_600_000


@dataclasses.dataclass(frozen=True)
class Moments:
    """Slots at these moments, in milliseconds since the epoch."""

    moments: tuple[int, ...]
    text: str = "at chosen moments"

    def following(self, after_ms: int) -> int | None:
        return min((moment for moment in self.moments if moment > after_ms), default=None)

    def latest(self, after_ms: int, until_ms: int) -> int | None:
        return max((moment for moment in self.moments if after_ms < moment <= until_ms), default=None)


def at(*moments: int, text: str = "at chosen moments", **options: Any) -> Schedule:
    """A schedule of `note`, named "s" unless it says otherwise."""
    given: dict[str, Any] = {"name": "s", "task": note, "args": ("s",), **options}
    return Schedule(slots=Moments(tuple(sorted(moments)), text), **given)


def poller_of(*schedules: Schedule, using: str = "default") -> Poller:
    return Poller(connections.client(using), schedules=schedules)


def next_round(poller: Poller) -> None:
    poller._next_at = 0.0
    poller.step()


def take_place_from(store: Store, poller: Poller) -> None:
    """Let the poller have lost its place, as if it had been silent for too long."""
    assert store.raw.delete(base_key(store, "poller")) == 1
    poller.holds = False


def announced(poller: Poller, store: Store, *names: str, last_ms: int) -> None:
    """Have the poller announce its schedules, which were last seen to at that moment."""
    next_round(poller)
    for name in names or ("s",):
        assert store.raw.hexists(state_key(store, name), "last")
        store.raw.hset(state_key(store, name), "last", last_ms)
    poller._scheduler.invalidate()


def state_key(store: Store, name: str = "s") -> str:
    return base_key(store, "schedule", name)


def state(store: Store, name: str = "s") -> dict[str, Any]:
    found: dict[str, Any] = {
        key.decode(): value.decode() for key, value in store.raw.hgetall(state_key(store, name)).items()
    }
    return found | {"info": json.loads(found["info"])} if found else {}


def waiting(store: Store, queue: str = "default") -> list[str]:
    """Ids that are ready, in order."""
    return [task_id.decode() for task_id in store.raw.lrange(queue_key(store, "ready", queue), 0, -1)]

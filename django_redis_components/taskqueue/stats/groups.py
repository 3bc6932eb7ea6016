"""Groups of a queue that are served in turn (the option `fair`): their ready tasks and their pauses."""

from __future__ import annotations

import dataclasses

from django_redis_components.core.protocol import Flow
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.queue_stats import QueuePause, pause_of
from django_redis_components.taskqueue.store.scripts import LIST_GROUPS

#: Groups that one read looks at, and random tasks whose groups it looks at beside them.
BUDGET = 500
#: Most groups that one read returns.
MAX_GROUPS = 200


@dataclasses.dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group of a queue.

    Attributes:
        ready: tasks that wait for a turn of the group.
        oldest_age: how long its next task has waited, in seconds; None without one.
        paused: the pause, or None.
    """

    name: str
    ready: int
    oldest_age: float | None
    paused: QueuePause | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GroupList:
    """The groups with most ready tasks, and all paused ones.

    Attributes:
        count: groups that have turns.
        is_partial: whether the queue has more groups than one read looks at: small ones may be missing.
    """

    groups: list[GroupInfo]
    count: int
    is_partial: bool


def read_groups(shard: Shard, queue: str, limit: int) -> Flow[GroupList]:
    """Read the groups of a queue, in one round trip.

    Args:
        limit: most groups without a pause.
    """
    now_us, count, is_partial, rows = yield LIST_GROUPS(base=shard.base, queue=queue, limit=limit, budget=BUDGET)
    groups = [
        GroupInfo(
            name.decode(errors="replace"),
            ready,
            max(0.0, (moment_of(int(now_us)) - moment_of(int(since_us))).total_seconds()) if int(since_us) else None,
            pause_of(pause),
        )
        for name, ready, since_us, pause in rows
    ]
    return GroupList(groups, count, bool(is_partial))

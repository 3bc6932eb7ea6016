"""What each shard of the task queue holds, or since when it is away: for the overview and `manage.py redis shards`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.incidents import IncidentState
from django_redis_components.dashboard.problems.of_shards import FactsOrError, address_of, error_of, named, problems_of
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.server import memory_share
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, TaskQueueOverview, tasks_of


@dataclasses.dataclass(frozen=True, slots=True)
class ShardState:
    """The state of a shard.

    Attributes:
        address: of its server, without credentials.
        overview: its queues, workers, poller and server; None if it is away.
        outage: why it is away; None if it answers.
        away_since: when the watching process found that it is away; None if it answers, or it is not known.
    """

    shard: Shard
    address: str
    overview: TaskQueueOverview | None
    outage: Problem | None = None
    away_since: datetime | None = None

    @property
    def queues(self) -> Sequence[QueueInfo]:
        """Its queues that have tasks."""
        queues = self.overview.queues if self.overview else []
        return [queue for queue in queues if tasks_of(queue)]

    @property
    def memory(self) -> tuple[int, int]:
        """The used memory of its server and the maximum, in bytes; 0 if it is not known."""
        return memory_share(self.overview.server) if self.overview else (0, 0)

    @property
    def oldest_age(self) -> float | None:
        """The age of the oldest ready task in seconds."""
        return max((queue.oldest_age for queue in self.queues if queue.oldest_age is not None), default=None)

    def count(self, state: str) -> int:
        """Return the number of tasks in a state."""
        return sum(getattr(queue, state) for queue in self.queues)


def shard_states(found: Mapping[Shard, FactsOrError], incidents: IncidentState) -> list[ShardState]:
    """Return the states of shards.

    Args:
        incidents: those of the connection. They say since when a shard is away.
    """
    return [_state(shard, facts, incidents) for shard, facts in found.items()]


def _state(shard: Shard, facts: FactsOrError, incidents: IncidentState) -> ShardState:
    address = address_of(shard)
    if error_of(facts) is None and isinstance(facts, ProblemFacts):
        return ShardState(shard, address, facts.queues)
    outage = next(iter(problems_of(shard, facts)))
    incident = incidents.incidents.get(named(outage, shard).id)
    since = datetime.fromtimestamp(incident.started_at, UTC) if incident else None
    return ShardState(shard, address, None, outage, since)

"""How many failed tasks are kept, and how many workers are lost: what the pages show beside their tabs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.names import stored_name
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.scripts import COUNT_FAILURES

#: Most queues whose failed tasks are counted.
MAX_QUEUES = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class FailureCounts:
    """Counts of all queues and workers.

    Attributes:
        failed: number of failed tasks that are kept; a lower bound if `is_partial`.
        lost_workers: workers of the last ten minutes without a heartbeat for the duration of a lease.
        by_queue: failed tasks of the queues that have any; empty if they were not read.
    """

    failed: int
    lost_workers: int
    is_partial: bool = False
    by_queue: Mapping[str, int] = dataclasses.field(default_factory=dict, compare=False)


def read_failure_counts(shard: Shard, limit: int | None = None) -> Flow[FailureCounts]:
    """Read the counts in one round trip.

    Args:
        limit: most queues whose failed tasks are counted; None: `MAX_QUEUES`.
    """
    limit, lease_ms = limit or MAX_QUEUES, to_ms(conf.settings().taskqueue.lease_s, "lease")
    failed, queues, lost = yield COUNT_FAILURES(base=shard.base, lease_ms=lease_ms, limit=limit)
    counts = dict(pairs_of(failed))
    by_queue = {name: count for data, count in counts.items() if (name := stored_name(data))}
    return FailureCounts(sum(counts.values()), lost, queues > limit, by_queue)

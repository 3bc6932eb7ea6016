"""How many scheduled tasks are due in each of the next 24 hours."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from django_redis_components.core.protocol import Call, Flow
from django_redis_components.core.units import moment_of_ms
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.queue_stats import MAX_QUEUES
from django_redis_components.taskqueue.store.scripts import DUE_COUNTS

#: Length of an interval in milliseconds, and how many are read.
HOUR_MS, HOURS = 3_600_000, 24


@dataclasses.dataclass(frozen=True, slots=True)
class DueCounts:
    """Scheduled tasks of all queues by hour.

    Attributes:
        first_at: start of the first hour, the current one; its count has what is overdue, too.
        counts: tasks by hour.
    """

    first_at: datetime
    counts: list[int]


def read_due(shard: Shard) -> Flow[DueCounts]:
    """Read the counts, in one round trip for each 500 queues."""
    _, first_ms, counts, following = yield _request(shard, 0)
    while following and following < MAX_QUEUES:
        _, _, more, following = yield _request(shard, following)
        counts = [one + other for one, other in zip(counts, more, strict=True)]
    return DueCounts(moment_of_ms(first_ms), counts)


def merged_due(found: Sequence[DueCounts]) -> DueCounts:
    """Return the counts of several shards as those of one. The clock of one may be in the next hour already."""
    first_at = min(each.first_at for each in found)
    counts = [0] * HOURS
    for each in found:
        later = round((each.first_at - first_at).total_seconds() * 1_000) // HOUR_MS
        for hour, count in enumerate(each.counts[: HOURS - later]):
            counts[hour + later] += count
    return DueCounts(first_at, counts)


def _request(shard: Shard, first: int) -> Call:
    return DUE_COUNTS(base=shard.base, step_ms=HOUR_MS, count=HOURS, first=first)

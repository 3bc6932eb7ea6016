"""Totals of queues: counters that only grow, as monitoring systems expect them.

The poller adds each minute to the hour and to the total of its queue; the minutes since are added here. A total expires
14 days after the last task, and a counter that reaches 2**32 starts again at 0: monitoring systems detect both as
a reset.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from django_redis_components.core import keys
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.histogram import Histogram
from django_redis_components.taskqueue.stats.metrics import CounterSet, Counts
from django_redis_components.taskqueue.stats.queue_stats import MAX_QUEUES
from django_redis_components.taskqueue.store.scripts import READ_TOTALS


@dataclasses.dataclass(frozen=True, slots=True)
class QueueTotals:
    """What was counted for a queue since its first task."""

    name: str
    counts: Counts
    wait_time: Histogram
    run_time: Histogram


def read_totals(shard: Shard) -> Flow[list[QueueTotals]]:
    """Read the totals of all known queues (at most 5,000) and of those in the settings: 200 in a round trip."""
    following, rows = yield READ_TOTALS(base=shard.base, first=0, queues=conf.settings().taskqueue.queues or ())
    found = {row[0]: row for row in rows}
    while following and following < MAX_QUEUES:
        following, rows = yield READ_TOTALS(base=shard.base, first=following, queues=())
        found |= {row[0]: row for row in rows}
    return [_totals(row) for name, row in found.items() if _is_valid(name)]


def _is_valid(name: bytes) -> bool:
    """Return whether this can be the name of a queue: another client may have written to the index."""
    try:
        keys.validate_name(name.decode())
    except ValueError:
        return False
    return True


def _totals(row: list[Any]) -> QueueTotals:
    counters = CounterSet()
    for data in row[1:]:
        counters.add(data)
    return QueueTotals(row[0].decode(), counters.counts(), counters.wait_time(), counters.run_time())

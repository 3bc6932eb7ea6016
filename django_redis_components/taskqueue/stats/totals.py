"""Totals of queues: counters that only grow, as monitoring systems expect them.

The poller adds each minute to the hour and to the total of its queue; the minutes since are added here. A total expires
14 days after the last task, and a counter that reaches 2**32 starts again at 0: monitoring systems detect both as
a reset.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from django_redis_components.core.names import stored_name
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.histogram import Histogram
from django_redis_components.taskqueue.stats.metrics import CounterSet, Counts
from django_redis_components.taskqueue.stats.queue_stats import MAX_QUEUES
from django_redis_components.taskqueue.store.scripts import READ_TOTALS

#: The latest minutes that count as recent, with the one that has not ended.
RECENT_MINUTES = 6


@dataclasses.dataclass(frozen=True, slots=True)
class QueueTotals:
    """What was counted for a queue since its first task.

    Attributes:
        recent_run_time: of the runs that ended in the last `recent_s` seconds, up to six minutes: since the beginning
            of the first of these minutes in which one ended.
    """

    name: str
    counts: Counts
    wait_time: Histogram
    run_time: Histogram
    recent_run_time: Histogram
    recent_s: float


def read_totals(shard: Shard) -> Flow[list[QueueTotals]]:
    """Read the totals of all known queues (at most 5,000) and of those in the settings: 200 in a round trip."""
    following, rows, now_us, unadded = yield READ_TOTALS(
        base=shard.base, first=0, queues=conf.settings().taskqueue.queues or ()
    )
    found = {row[0]: _totals(row, now_us, unadded) for row in rows if stored_name(row[0])}
    while following and following < MAX_QUEUES:
        following, rows, now_us, unadded = yield READ_TOTALS(base=shard.base, first=following, queues=())
        found |= {row[0]: _totals(row, now_us, unadded) for row in rows if stored_name(row[0])}
    return list(found.values())


def _totals(row: list[Any], now_us: int, unadded: int) -> QueueTotals:
    """Return the totals of a row.

    Args:
        unadded: how many of the latest minutes are not in the total.
    """
    name, total, *rest = row
    minutes = dict(zip(rest[::2], rest[1::2], strict=True))
    counters, recent = CounterSet(), CounterSet()
    counters.add(total)
    for ago, data in minutes.items():
        if ago < unadded:
            counters.add(data)
        if ago < RECENT_MINUTES:
            recent.add(data)
    oldest = max((ago for ago in minutes if ago < RECENT_MINUTES), default=0)
    recent_s = oldest * 60 + now_us / 1e6 % 60
    totals = counters.counts(), counters.wait_time(), counters.run_time()
    return QueueTotals(name.decode(), *totals, recent.run_time(), recent_s)

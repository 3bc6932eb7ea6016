"""How many tasks queues have in states that can be listed."""

from __future__ import annotations

from collections.abc import Sequence

from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo
from django_redis_components.taskqueue.store.scan import Filters, scan_tasks

#: Most numbers that one call reads, of those that `QueueInfo` does not have.
MAX_READ = 150


def read_counts(shard: Shard, depths: Sequence[QueueInfo], states: Sequence[str]) -> Flow[list[tuple[str, str, int]]]:
    """Return state, queue and number of tasks, in the order of the states, without those that have none.

    Numbers that `QueueInfo` does not have are read in one round trip, those of the first queues.
    """
    known = [(state, depth.name, getattr(depth, state, None)) for state in states for depth in depths]
    missing = [(state, queue) for state, queue, count in known if count is None][:MAX_READ]
    pages = [scan_tasks(shard, queue, state, Filters(), limit=0, budget=0) for state, queue in missing]
    scans = (yield from gather_values(pages)) if pages else []
    totals = {part: scan.total for part, scan in zip(missing, scans, strict=True)}
    counts = [
        (state, queue, totals.get((state, queue), 0) if count is None else count) for state, queue, count in known
    ]
    return [each for each in counts if each[2]]

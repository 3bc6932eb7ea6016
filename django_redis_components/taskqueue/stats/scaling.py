"""How many tasks of a queue should run at once now, and how many worker processes that takes: for autoscalers.

The figures need no state and no worker, so that they also say when the first worker is needed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from django_redis_components.taskqueue.stats.histogram import runs_per_task
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, TaskQueueOverview
from django_redis_components.taskqueue.stats.totals import QueueTotals
from django_redis_components.taskqueue.store.workers import THREADS

#: Seconds in which the ready tasks should start.
DRAIN_S = 60.0
#: Seconds before a task is due at which a worker is wanted.
DUE_S = 60.0
#: Shortest time over which runs are averaged, in seconds.
MIN_AVERAGED_S = 30.0
#: Tasks that are leased run, if their runs take at least this many seconds. Workers prefetch shorter ones.
MIN_RUN_S = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class WantedCapacity:
    """What a queue needs.

    Attributes:
        slots: tasks that should run at once, in threads or as coroutines.
        workers: worker processes with these slots, if they serve this queue alone.
    """

    slots: float
    workers: int


def wanted_capacity(overview: TaskQueueOverview, totals: Sequence[QueueTotals]) -> dict[str, WantedCapacity]:
    """Return what each queue needs, by name."""
    by_name = {each.name: each for each in totals}
    threads = _threads_by_queue(overview)
    now = overview.at.timestamp()
    found = {}
    for queue in overview.queues:
        slots = wanted_slots(queue, by_name.get(queue.name), now)
        found[queue.name] = WantedCapacity(slots, math.ceil(slots / threads.get(queue.name, THREADS)))
    return found


def wanted_slots(queue: QueueInfo, totals: QueueTotals | None, now: float) -> float:
    """Return how many tasks of a queue should run at once.

    What arrives is what has run lately, or, if the oldest ready task has waited for long, what has become ready since:
    all of it is still there. On top comes what it takes to start the ready tasks within `DRAIN_S`. There are never
    more slots than tasks, and never fewer than runs that a stop would interrupt.

    Args:
        now: seconds since the epoch, by the server's clock.
    """
    share = 1.0 if totals is None else runs_per_task(totals.run_time, totals.wait_time)
    ready = 0.0 if queue.paused else share * max(0, queue.ready - queue.limited)
    mean_s = _mean_run_s(totals)
    running = share * queue.running if mean_s is None or mean_s >= MIN_RUN_S else 0
    is_due = not queue.paused and queue.next_due_at is not None and queue.next_due_at.timestamp() - now <= DUE_S
    at_least = 1.0 if queue.running or is_due or (queue.ready and not queue.paused) else 0.0
    if mean_s is None:
        return max(at_least, running)
    recent = _recent_slots(totals)
    arriving = max(recent, ready * mean_s / max(queue.oldest_age or 0.0, DRAIN_S))
    wanted = arriving + ready * min(1.0, mean_s / DRAIN_S)
    return max(at_least, running, min(wanted, max(recent, ready + share * queue.running)))


def _mean_run_s(totals: QueueTotals | None) -> float | None:
    """Return the mean of the latest runs, or else of all; None if nothing has run."""
    if totals is None:
        return None
    recent_s = totals.recent_run_time.mean_s
    return totals.run_time.mean_s if recent_s is None else recent_s


def _recent_slots(totals: QueueTotals | None) -> float:
    """Return how many tasks have run at once lately, on average. Of a long run only the recent part counts."""
    if totals is None:
        return 0.0
    averaged_s = max(totals.recent_s, MIN_AVERAGED_S)
    return totals.recent_run_time.total_within(averaged_s) / averaged_s


def _threads_by_queue(overview: TaskQueueOverview) -> dict[str, float]:
    """Return the mean number of threads of the live workers of each queue."""
    threads: dict[str, list[int]] = {}
    for worker in overview.workers:
        if worker.is_alive and worker.threads:
            for name in worker.queues:
                threads.setdefault(name, []).append(worker.threads)
    return {name: sum(each) / len(each) for name, each in threads.items()}

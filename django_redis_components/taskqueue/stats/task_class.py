"""The counters of one task name in all queues, in the last 3 hours: by minute, by queue and by deploy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Flow
from django_redis_components.core.text import encodable
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.deploys import Deploy
from django_redis_components.taskqueue.stats.histogram import Histogram
from django_redis_components.taskqueue.stats.metrics import MAX_MINUTES, CounterSet, Counts, Interval
from django_redis_components.taskqueue.stats.queue_stats import MAX_QUEUES
from django_redis_components.taskqueue.store.scripts import TASK_CLASS

#: Queues whose counters are read: about 75 KiB of each that runs the task in each minute.
MAX_ROWS = 10
#: Longest name that is counted; longer ones are cut.
MAX_NAME = 200


@dataclasses.dataclass(frozen=True, slots=True)
class RunCounts:
    """What was counted: outcomes, wait and run times."""

    totals: Counts
    wait_time: Histogram
    run_time: Histogram


@dataclasses.dataclass(frozen=True, slots=True)
class TaskClass:
    """The runs of one task name in the last 3 hours, by the server's clock.

    Attributes:
        at: when they were read.
        counts: of all queues that were read.
        intervals: minutes, oldest first, including empty ones; the last one is incomplete.
        by_queue: most finished first; at most 10 queues.
        more_queues: how many other queues ran it.
        uncounted_queues: queues with more than 30 task names in an hour, where it may have run without being counted.
        minutes: the minutes that have any counters, as minutes since the epoch.
    """

    name: str
    at: datetime
    counts: RunCounts
    intervals: list[Interval]
    by_queue: list[tuple[str, RunCounts]]
    more_queues: int
    uncounted_queues: int
    minutes: dict[int, CounterSet]


def read_task_class(shard: Shard, name: str) -> Flow[TaskClass]:
    """Read the runs of a task name, in one round trip for each 500 queues, at most 5,000."""
    now_us, following, others, uncounted, rows = yield _request(shard, name, 0, MAX_ROWS)
    while following and following < MAX_QUEUES:
        _, following, more, others_uncounted, some = yield _request(shard, name, following, MAX_ROWS - len(rows))
        others, uncounted, rows = others + more, uncounted + others_uncounted, rows + some
    return _task_class(name, now_us, others, uncounted, rows)


def split_by_deploy(
    counters: Mapping[int, CounterSet], step_s: int, deploys: Sequence[Deploy]
) -> list[tuple[Deploy | None, RunCounts]]:
    """Return what was counted from each deploy to the next one, newest first; None: before all that are known.

    The interval of a deploy counts for it. While a deploy replaces the workers one by one, both versions run.

    Args:
        counters: by the number of the interval since the epoch.
        step_s: length of an interval in seconds.
    """
    starts = [(int(deploy.at.timestamp()) // step_s, deploy) for deploy in deploys]
    sums: dict[Deploy | None, CounterSet] = {}
    for number, each in counters.items():
        deploy = next((deploy for start, deploy in reversed(starts) if start <= number), None)
        sums.setdefault(deploy, CounterSet()).merge(each)
    counts = {deploy: run_counts(sums[deploy]) for deploy in [*reversed(deploys), None] if deploy in sums}
    return [(deploy, each) for deploy, each in counts.items() if any(dataclasses.astuple(each.totals))]


def _request(shard: Shard, name: str, first: int, limit: int) -> Any:
    return TASK_CLASS(base=shard.base, name=encodable(name), first=first, limit=limit)


def _task_class(name: str, now_us: int, others: int, uncounted: int, rows: Sequence[Any]) -> TaskClass:
    latest = now_us // 60_000_000
    total, minutes, queues = CounterSet(), dict[int, CounterSet](), list[tuple[str, RunCounts]]()
    for queue, row in rows:
        own = CounterSet()
        for ago, data in pairs_of(row):
            own.add(data)
            minutes.setdefault(latest - ago, CounterSet()).add(data)
        total.merge(own)
        queues.append((queue.decode(errors="replace"), run_counts(own)))
    return TaskClass(
        name=name,
        at=moment_of(now_us),
        counts=run_counts(total),
        intervals=[
            Interval(moment_of(minute * 60_000_000), minutes[minute].counts() if minute in minutes else Counts())
            for minute in range(latest - MAX_MINUTES + 1, latest + 1)
        ],
        by_queue=sorted(queues, key=lambda each: (-each[1].totals.finished, each[0])),
        more_queues=others,
        uncounted_queues=uncounted,
        minutes=minutes,
    )


def run_counts(counters: CounterSet) -> RunCounts:
    """Return what a set has counted."""
    return RunCounts(counters.counts(), counters.wait_time(), counters.run_time())

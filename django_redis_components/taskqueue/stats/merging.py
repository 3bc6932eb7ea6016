"""Figures of a queue that are read from several shards, as those of one queue."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from datetime import datetime

from django_redis_components.taskqueue.stats.errors import ErrorGroup
from django_redis_components.taskqueue.stats.groups import GroupInfo, GroupList
from django_redis_components.taskqueue.stats.histogram import Histogram
from django_redis_components.taskqueue.stats.metrics import Counts, Interval, Metrics, TaskMetrics
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, TaskQueueOverview
from django_redis_components.taskqueue.stats.totals import QueueTotals

#: Fields of `QueueInfo` that add.
_SUMS = ("ready", "scheduled", "running", "failed", "unregistered", "limited", "waiting", "retrying")


def merged_info(found: Sequence[Sequence[QueueInfo]]) -> QueueInfo:
    """Return the state of a queue: sums, the oldest task, the next due time. It is paused if it is so in any shard.

    Each worker process is registered in all shards, so that the largest number of workers is that of all.
    """
    parts = [infos[0] for infos in found]
    if len(parts) == 1:
        return parts[0]
    rates = [part.arrival_rate for part in parts if part.arrival_rate is not None]
    return dataclasses.replace(
        parts[0],
        **{name: sum(getattr(part, name) for part in parts) for name in _SUMS},
        oldest_age=max((part.oldest_age for part in parts if part.oldest_age is not None), default=None),
        next_due_at=min((part.next_due_at for part in parts if part.next_due_at is not None), default=None),
        paused=next((part.paused for part in parts if part.paused is not None), None),
        arrival_rate=sum(rates) if rates else None,
        live_workers=max(part.live_workers for part in parts),
    )


def merged_overview(found: Sequence[TaskQueueOverview]) -> TaskQueueOverview:
    """Return the queues of several shards as those of one. Each worker process is registered in all of them."""
    first, *others = found
    if not others:
        return first
    infos: dict[str, list[list[QueueInfo]]] = {}
    metrics: dict[str, list[Metrics]] = {}
    errors: dict[str, list[list[ErrorGroup]]] = {}
    names: dict[str, set[str]] = {}
    for overview in found:
        for queue in overview.queues:
            infos.setdefault(queue.name, []).append([queue])
        for name, each in overview.metrics.items():
            metrics.setdefault(name, []).append(each)
        for name, groups in overview.main_errors.items():
            errors.setdefault(name, []).append(groups)
        for name, unknown in overview.unregistered.items():
            names.setdefault(name, set()).update(unknown)
    workers = {worker.id: worker for overview in found for worker in overview.workers}
    policies = [overview.eviction_policy for overview in found]
    return dataclasses.replace(
        first,
        queues=[merged_info(infos[name]) for name in sorted(infos)],
        workers=list(workers.values()),
        poller=next((overview.poller for overview in found if overview.poller), None),
        eviction_policy=next((policy for policy in policies if policy not in (None, "noeviction")), policies[0]),
        metrics={name: merged_metrics(each) for name, each in metrics.items()},
        main_errors={name: merged_errors(groups) for name, groups in errors.items()},
        unregistered={name: sorted(unknown) for name, unknown in names.items()},
        worker_count=max(overview.worker_count for overview in found),
        live_count=max(overview.live_count for overview in found),
    )


def merged_metrics(found: Sequence[Metrics]) -> Metrics:
    """Return the sums of metrics, by intervals of the first shard's clock."""
    first, *others = found
    if not others:
        return first
    by_start = [{interval.at: interval.counts for interval in each.intervals} for each in others]
    intervals = [
        Interval(each.at, _sum_of([each.counts, *(part[each.at] for part in by_start if each.at in part)]))
        for each in first.intervals
    ]
    tasks: dict[str, list[TaskMetrics]] = {}
    for metrics in found:
        for task in metrics.tasks:
            tasks.setdefault(task.name, []).append(task)
    return dataclasses.replace(
        first,
        intervals=intervals,
        totals=_sum_of([each.totals for each in found]),
        wait_time=_added([each.wait_time for each in found]),
        run_time=_added([each.run_time for each in found]),
        tasks=sorted(map(_merged_task, tasks.values()), key=lambda each: (not each.name, -each.totals.finished)),
    )


def merged_totals(found: Sequence[Sequence[QueueTotals]]) -> list[QueueTotals]:
    """Return the sums of what was counted, by queue."""
    if len(found) == 1:
        return list(found[0])
    by_name: dict[str, list[QueueTotals]] = {}
    for totals in (totals for some in found for totals in some):
        by_name.setdefault(totals.name, []).append(totals)
    return [
        QueueTotals(
            name,
            _sum_of([part.counts for part in parts]),
            _added([part.wait_time for part in parts]),
            _added([part.run_time for part in parts]),
            _added([part.recent_run_time for part in parts]),
            max(part.recent_s for part in parts),
        )
        for name, parts in by_name.items()
    ]


def merged_errors(found: Sequence[Sequence[ErrorGroup]]) -> list[ErrorGroup]:
    """Return error groups, newest first; those with the same fingerprint are one."""
    if len(found) == 1:
        return list(found[0])
    groups: dict[tuple[str, str], ErrorGroup] = {}
    for group in (group for some in found for group in some):
        name = group.queue, group.fingerprint
        groups[name] = _merged_error(groups[name], group) if name in groups else group
    return sorted(groups.values(), key=lambda group: group.last_at, reverse=True)


def merged_groups(found: Sequence[GroupList], limit: int) -> GroupList:
    """Return the groups with most ready tasks, and all paused ones."""
    if len(found) == 1:
        return found[0]
    by_name: dict[str, list[GroupInfo]] = {}
    for group in (group for some in found for group in some.groups):
        by_name.setdefault(group.name, []).append(group)
    groups = sorted(map(_merged_group, by_name.values()), key=lambda group: -group.ready)
    kept = [group for number, group in enumerate(groups) if number < limit or group.paused]
    return GroupList(kept, max(each.count for each in found), any(each.is_partial for each in found))


def _merged_group(parts: list[GroupInfo]) -> GroupInfo:
    ages = [part.oldest_age for part in parts if part.oldest_age is not None]
    paused = next((part.paused for part in parts if part.paused is not None), None)
    return GroupInfo(parts[0].name, sum(part.ready for part in parts), max(ages, default=None), paused)


def _merged_error(one: ErrorGroup, other: ErrorGroup) -> ErrorGroup:
    newer, older = (one, other) if one.last_at >= other.last_at else (other, one)
    minutes: dict[datetime, int] = {}
    for at, count in [*one.minutes, *other.minutes]:
        minutes[at] = minutes.get(at, 0) + count
    return dataclasses.replace(
        newer,
        count=one.count + other.count,
        final=one.final + other.final,
        first_at=min(one.first_at, other.first_at),
        task_ids=[*newer.task_ids, *older.task_ids][:10],
        minutes=sorted(minutes.items(), reverse=True),
    )


def _merged_task(parts: list[TaskMetrics]) -> TaskMetrics:
    return TaskMetrics(
        parts[0].name,
        _sum_of([part.totals for part in parts]),
        _added([part.wait_time for part in parts]),
        _added([part.run_time for part in parts]),
    )


def _sum_of(counts: Sequence[Counts]) -> Counts:
    return Counts(*map(sum, zip(*map(dataclasses.astuple, counts), strict=True)))


def _added(histograms: Sequence[Histogram]) -> Histogram:
    total = histograms[0].buckets
    for each in histograms[1:]:
        total = tuple(map(operator.add, total, each.buckets))
    return Histogram(total)

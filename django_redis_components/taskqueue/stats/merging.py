"""Figures of a queue that are read from several shards, as those of one queue."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from django_redis_components.taskqueue.shards import Shard, route_of, shards_of
from django_redis_components.taskqueue.stats.errors import ErrorGroup
from django_redis_components.taskqueue.stats.groups import GroupInfo, GroupList
from django_redis_components.taskqueue.stats.histogram import Histogram
from django_redis_components.taskqueue.stats.history import History, HistoryInterval
from django_redis_components.taskqueue.stats.metrics import Counts, Interval, Metrics, TaskMetrics
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, TaskQueueOverview, tasks_of
from django_redis_components.taskqueue.stats.totals import QueueTotals
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo
from django_redis_components.taskqueue.stats.workers import HeldTask, WorkerPage

Summed = TypeVar("Summed", History, Metrics, TaskMetrics)
#: State of a task without a record in a shard.
GONE = "gone"
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


def merged_depths(found: Sequence[Sequence[QueueInfo]]) -> list[QueueInfo]:
    """Return the queues of several shards as those of one, by name."""
    if len(found) == 1:
        return list(found[0])
    infos: dict[str, list[list[QueueInfo]]] = {}
    for queue in (queue for some in found for queue in some):
        infos.setdefault(queue.name, []).append([queue])
    return [merged_info(infos[name]) for name in sorted(infos)]


def merged_overview(found: Sequence[TaskQueueOverview]) -> TaskQueueOverview:
    """Return the queues of several shards as those of one. Each worker process is registered in all of them."""
    first, *others = found
    if not others:
        return first
    metrics: dict[str, list[Metrics]] = {}
    errors: dict[str, list[list[ErrorGroup]]] = {}
    names: dict[str, set[str]] = {}
    for overview in found:
        for name, each in overview.metrics.items():
            metrics.setdefault(name, []).append(each)
        for name, groups in overview.main_errors.items():
            errors.setdefault(name, []).append(groups)
        for name, unknown in overview.unregistered.items():
            names.setdefault(name, set()).update(unknown)
    policies = [overview.eviction_policy for overview in found]
    return dataclasses.replace(
        first,
        queues=merged_depths([overview.queues for overview in found]),
        workers=merged_workers([overview.workers for overview in found]),
        poller=next((overview.poller for overview in found if overview.poller), None),
        eviction_policy=next((policy for policy in policies if policy not in (None, "noeviction")), policies[0]),
        metrics={name: merged_metrics(each) for name, each in metrics.items()},
        main_errors={name: merged_errors(groups) for name, groups in errors.items()},
        unregistered={name: sorted(unknown) for name, unknown in names.items()},
        worker_count=max(overview.worker_count for overview in found),
        live_count=max(overview.live_count for overview in found),
    )


def merged_workers(found: Sequence[Sequence[WorkerInfo]]) -> list[WorkerInfo]:
    """Return the workers, each as the shard knows it that had its latest heartbeat."""
    workers: dict[str, WorkerInfo] = {}
    for worker in (worker for some in found for worker in some):
        known = workers.get(worker.id)
        if known is None or worker.heartbeat_age < known.heartbeat_age:
            workers[worker.id] = worker
    return list(workers.values())


def merged_workers_page(found: Mapping[Shard, WorkerPage], limit: int) -> WorkerPage:
    """Return a page of workers of several shards. Each worker process is registered in all of them."""
    first, *_others = pages = list(found.values())
    if len(shards_of(next(iter(found)).using)) == 1:
        return first
    workers = sorted(merged_workers([page.workers for page in pages]), key=lambda worker: worker.id.encode())
    kept = workers[:limit]
    has_more = len(workers) > limit or any(page.next for page in pages)
    held: dict[str, HeldTask] = {}
    for task_id, task in (each for page in pages for each in page.held.items()):
        if task_id not in held or held[task_id].state == GONE:  # its record is in one of the shards
            held[task_id] = task
    alive_in: dict[str, list[str]] = {worker.id: [] for worker in kept}
    for shard, page in found.items():
        for worker in page.workers:
            if worker.is_alive and worker.id in alive_in:
                alive_in[worker.id].append(shard.name)
    missing = tuple(shard.name for shard, page in found.items() if page.poller is None)
    return dataclasses.replace(
        first,
        poller=None if missing else first.poller,
        total=max(page.total for page in pages),
        live=max(page.live for page in pages),
        workers=kept,
        pending_commands={target: command for page in pages for target, command in page.pending_commands.items()},
        held=held,
        next=kept[-1].id if has_more and kept else "",
        missing_pollers=missing,
        alive_in=alive_in,
        matched=max(page.matched for page in pages),
        counts=max(pages, key=lambda page: page.total).counts,
    )


def shards_with_tasks(overviews: Mapping[Shard, TaskQueueOverview]) -> dict[str, list[str]]:
    """Return the names of the shards that have tasks of a queue, by queue."""
    found: dict[str, list[str]] = {}
    for shard, overview in overviews.items():
        for info in overview.queues:
            if tasks_of(info):
                found.setdefault(info.name, []).append(shard.name)
    return found


def shards_by_queue(overviews: Mapping[Shard, TaskQueueOverview]) -> dict[str, list[str]]:
    """Return the names of the shards that have tasks of a queue, and of those that new tasks go to, by queue."""
    using, found = next(iter(overviews)).using, shards_with_tasks(overviews)
    known = {info.name for overview in overviews.values() for info in overview.queues}
    chosen = {name: {*found.get(name, ()), *(shard.name for shard in route_of(name, using))} for name in known}
    return {name: [shard.name for shard in overviews if shard.name in names] for name, names in chosen.items()}


def merged_history(found: Sequence[History]) -> History:
    """Return the sums of the histories of several shards, by intervals of the first one's clock."""
    first, *others = found
    if not others:
        return first
    by_start = [{interval.at: interval for interval in each.intervals} for each in found]
    intervals = [_merged_interval([part[each.at] for part in by_start if each.at in part]) for each in first.intervals]
    missing = [each.missing for each in found if each.missing]
    return _summed(
        found,
        intervals=intervals,
        missing=(min(start for start, _ in missing), max(end for _, end in missing)) if missing else None,
    )


def merged_hours(found: Sequence[tuple[Counts, Counts] | None]) -> tuple[Counts, Counts] | None:
    """Return the sums of `read_last_hours`; None if it is not known of a shard."""
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    last, before = zip(*known, strict=True)
    return _sum_of(last), _sum_of(before)


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
    merged_tasks = sorted(map(_summed, tasks.values()), key=lambda each: (not each.name, -each.totals.finished))
    return _summed(found, intervals=intervals, tasks=merged_tasks, not_run=sum(each.not_run for each in found))


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


def _merged_interval(parts: list[HistoryInterval]) -> HistoryInterval:
    return HistoryInterval(
        parts[0].at,
        _sum_of([part.counts for part in parts]),
        _added([part.wait_time for part in parts]),
        _added([part.run_time for part in parts]),
    )


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


def _summed(found: Sequence[Summed], **changes: Any) -> Summed:
    """Return the first of several with the sums of all, and other values changed."""
    return dataclasses.replace(
        found[0],
        totals=_sum_of([each.totals for each in found]),
        wait_time=_added([each.wait_time for each in found]),
        run_time=_added([each.run_time for each in found]),
        **changes,
    )


def _sum_of(counts: Sequence[Counts]) -> Counts:
    return Counts(*map(sum, zip(*map(dataclasses.astuple, counts), strict=True)))


def _added(histograms: Sequence[Histogram]) -> Histogram:
    total = histograms[0].buckets
    for each in histograms[1:]:
        total = tuple(map(operator.add, total, each.buckets))
    return Histogram(total)

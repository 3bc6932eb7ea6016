"""The data of one queue's page, read in one round trip."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from redis.exceptions import RedisError

from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.queues.listing import TaskListing, listing_of, read_merged, scan_list
from django_redis_components.dashboard.queues.shard_rows import (
    ShardDepth,
    has_tasks,
    other_shards,
    read_in,
    total_depth,
)
from django_redis_components.dashboard.queues.task_query import TaskQuery
from django_redis_components.taskqueue import ErrorGroup, Metrics, registry
from django_redis_components.taskqueue.defaults import options_to_show
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats import errors, metrics
from django_redis_components.taskqueue.stats.deploys import Deploy, read_deploys
from django_redis_components.taskqueue.stats.groups import GroupList, read_groups
from django_redis_components.taskqueue.stats.merging import merged_metrics
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, read_depths
from django_redis_components.taskqueue.stats.workers import read_hosts
from django_redis_components.taskqueue.store import control
from django_redis_components.taskqueue.store.control import TrashEntry
from django_redis_components.taskqueue.store.finished import count_finished

#: States of which a queue's page shows the first that has tasks, unless the request names one.
BY_INTEREST = ("ready", "failed", "running", "scheduled", "unregistered", "waiting")
#: Minutes, hours, error groups and restorable purges that the page shows.
MINUTES, HOURS, ERRORS, TRASH = 60, 24, 50, 5
#: Groups without a pause that the page shows.
GROUPS = 20


@dataclasses.dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """The state and the metrics of a queue.

    Attributes:
        at: the server's time.
        listing: the list of tasks, of all shards unless the URL names one; None in a fragment, which has none.
        trash: what can be restored.
        finished: by state, how many finished tasks are listed.
        hosts: of the workers with the latest heartbeats; empty in a fragment.
        elsewhere: what the other shards have of the queue.
        total: what all shards have that answer, unless the URL names one; `minutes`, `hours` and `finished` are theirs,
            too.
        is_of_all: whether it is of several shards.
        missing: names of the shards whose figures it does not include, or not all of them.
        is_known: whether it has or had tasks lately, is paused, or is the queue of a task of this process.
    """

    at: datetime
    query: TaskQuery
    depth: QueueInfo
    listing: TaskListing | None
    trash: list[TrashEntry]
    minutes: Metrics
    hours: Metrics
    errors: list[ErrorGroup]
    finished: dict[str, int]
    is_known: bool
    deploys: list[Deploy]
    groups: GroupList
    hosts: list[str]
    total: QueueInfo
    is_of_all: bool = False
    missing: Sequence[str] = ()
    elsewhere: list[ShardDepth] = dataclasses.field(default_factory=list)


class _Figures(NamedTuple):
    """What the page of all shards adds of another one."""

    minutes: Metrics
    hours: Metrics
    finished: dict[str, int]


def read_queue(
    name: str, query: TaskQuery, *, with_list: bool = True, chooses_state: bool = False, of_all: bool = False
) -> Flow[QueueSnapshot]:
    """Read the snapshot of a queue in one round trip, two if there is trash. The list of several shards needs one more.

    Args:
        chooses_state: whether the state is the first of `BY_INTEREST` that has tasks. All their lists are read at once.
        of_all: whether the figures and the list are those of all shards.
    """
    here, others = queue_shard(), other_shards()
    is_of_all = of_all and bool(others)
    flows = _flows(here, name)
    flows += [read_hosts(here)] if with_list else []
    states = (BY_INTEREST if chooses_state else [query.state]) if with_list and not is_of_all else []
    flows += [scan_list(here, name, query, state) for state in states]
    depths = [read_in(shard, name) for shard in others]
    figures = [_read_figures(shard, name) for shard in others if of_all]
    replies = yield from gather_values([*flows, *depths, *figures])
    count = len(flows) + len(others)
    replies, elsewhere, found_there = replies[: len(flows)], replies[len(flows) : count], replies[count:]
    more = list(filter(None, found_there))
    [depth], minutes, hours, found, trash, is_indexed, deploys, finished, groups, *rest = replies
    hosts, *scans = rest or [[]]
    total = total_depth(depth, elsewhere) if of_all else depth
    if chooses_state:
        query = dataclasses.replace(query, state=_most_interesting(total))
    scan = dict(zip(states, scans, strict=True)).get(query.state)
    listing = listing_of(here, scan, query) if scan else None
    if with_list and is_of_all:
        listing = yield from read_merged([here, *_answering(elsewhere)], name, query)
    return QueueSnapshot(
        at=minutes.at,
        query=query,
        depth=depth,
        listing=listing,
        trash=trash,
        minutes=merged_metrics([minutes, *(each.minutes for each in more)]),
        hours=merged_metrics([hours, *(each.hours for each in more)]),
        errors=found,
        finished=_sums([finished, *(each.finished for each in more)]),
        is_known=bool(is_indexed or depth.paused or found or trash or groups.groups or has_tasks(elsewhere))
        or _has_task(name),
        deploys=deploys,
        groups=groups,
        hosts=hosts,
        elsewhere=elsewhere,
        total=total,
        is_of_all=is_of_all,
        missing=_missing(elsewhere, found_there),
    )


def _sums(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    """Return the sums of numbers by their names."""
    return {name: sum(each[name] for each in counts) for name in counts[0]}


def _answering(elsewhere: list[ShardDepth]) -> list[Shard]:
    """Return the other shards that have answered."""
    return [shard for shard, depth in elsewhere if not isinstance(depth, Exception)]


def _missing(elsewhere: list[ShardDepth], figures: Sequence[Any]) -> list[str]:
    """Return the names of the shards of which something could not be read."""
    found = zip(elsewhere, figures, strict=False)  # without figures if only one shard is shown
    return [shard.name for (shard, depth), read in found if read is None or isinstance(depth, Exception)]


def _flows(shard: Shard, name: str) -> list[Flow[Any]]:
    """Return what reads a queue besides its lists of tasks."""
    return [
        read_depths(shard, name),
        metrics.read_minutes(shard, name, MINUTES),
        metrics.read_hours(shard, name, HOURS),
        errors.read_errors(shard, name, ERRORS),
        control.read_trash(shard, name, TRASH),
        _read_index(shard, name),
        read_deploys(shard),
        count_finished(shard, name),
        read_groups(shard, name, GROUPS),
    ]


def _read_figures(shard: Shard, name: str) -> Flow[_Figures | None]:
    """Read the figures of a queue in another shard; None if they cannot be read."""
    try:
        found = yield from gather_values(
            [
                metrics.read_minutes(shard, name, MINUTES),
                metrics.read_hours(shard, name, HOURS),
                count_finished(shard, name),
            ]
        )
    except RedisError:  # the note of the figures names the shard, and the table of the shards says why
        return None
    return _Figures(*found)


def _most_interesting(depth: QueueInfo) -> str:
    """Return the state whose tasks the page shows first."""
    return next((state for state in BY_INTEREST if getattr(depth, state)), BY_INTEREST[0])


def _read_index(shard: Shard, name: str) -> Flow[bool]:
    """Return whether the queue is in the index, where it stays for a day after its last task."""
    score = yield Read("ZSCORE", shard.key(Key.queues), name)
    return score is not None


def _has_task(name: str) -> bool:
    """Return whether a task that this process has imported is enqueued there by default."""
    return any(options_to_show(task).queue_name == name for task in registry.all_tasks())

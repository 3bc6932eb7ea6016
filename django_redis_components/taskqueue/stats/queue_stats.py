"""Depths of queues, workers and the poller, in bounded reads: for the dashboard, `get_queue` and commands."""

from __future__ import annotations

import dataclasses
import json
import operator
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.chunks import chunks
from django_redis_components.core.client.server import parse_info
from django_redis_components.core.names import stored_name
from django_redis_components.core.protocol import Batch, Call, Command, Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.core.units import moment_of, moment_of_ms, to_ms
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats import errors, metrics, packed_minutes
from django_redis_components.taskqueue.stats.failure_counts import FailureCounts
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo, worker_info
from django_redis_components.taskqueue.store.scan import Filters
from django_redis_components.taskqueue.store.scripts import QUEUE_STATS, READ_ARRIVALS, SCAN_TASKS

#: Most queues that are read.
MAX_QUEUES = errors.MAX_QUEUES
#: Workers whose reports are read: those with the latest heartbeats, and of more those with the oldest, lost ones.
MAX_WORKERS, MAX_OLDEST = 200, 50
#: Most workers that are read.
MAX_ALL_WORKERS = 5_000
#: Most queues whose unregistered names the overview reads, and most tasks of each that are looked at.
NAMED_QUEUES, NAMED_TASKS = 5, 200
#: Most queues whose main error the overview reads: those with most failed tasks.
ERROR_QUEUES = 5
#: Sections of INFO in the overview.
INFO_SECTIONS = ("server", "clients", "memory", "persistence", "replication")
#: Minutes of metrics in the overview.
OVERVIEW_MINUTES = 60


#: The main errors by queue name.
ErrorsByQueue = dict[str, list[errors.ErrorGroup]]
#: Numbers in a row of QUEUE_STATS.
_RUNNING, _FAILED, _RETRYING = operator.itemgetter(3), operator.itemgetter(4), operator.itemgetter(14)


@dataclasses.dataclass(frozen=True, slots=True)
class QueuePause:
    """The pause of a queue. `ends_at` is None if the queue stays paused until it is resumed."""

    reason: str
    author: str
    at: datetime
    ends_at: datetime | None


@dataclasses.dataclass(frozen=True, slots=True)
class QueueInfo:
    """Numbers of tasks of a queue by state.

    Attributes:
        ready: tasks that a worker can fetch, including scheduled tasks that are due.
        scheduled: tasks with a future run time, including retries.
        running: tasks leased to a worker.
        failed: failed tasks that are kept.
        unregistered: tasks whose name no worker has registered.
        oldest_age: age of the oldest ready task in seconds; None if none is ready.
        next_due_at: run time of the next scheduled task; None if none is scheduled.
        paused: the pause, or None.
        limited: ready and scheduled tasks that a concurrency or rate limit holds back.
        waiting: tasks that depend on unfinished tasks of their flow.
        retrying: those of the scheduled tasks that have failed and wait for their next attempt.
        arrival_rate: tasks per minute that arrived lately, measured on the last 100 of the ready list; None if fewer
            than two are in it, or if more than 50 queues were read at once and this one has no metrics (see
            `TaskQueueOverview`). Prioritized and scheduled tasks are not measured.
        live_workers: worker processes that serve the queue and have sent a heartbeat within the duration of a lease.
    """

    name: str
    ready: int
    scheduled: int
    running: int
    failed: int
    unregistered: int
    oldest_age: float | None
    next_due_at: datetime | None
    paused: QueuePause | None = None
    limited: int = 0
    waiting: int = 0
    retrying: int = 0
    arrival_rate: float | None = dataclasses.field(default=None, compare=False)
    live_workers: int = dataclasses.field(default=0, compare=False)

    @property
    def is_unserved(self) -> bool:
        """Whether tasks are ready, and no live worker serves the queue, which is not paused."""
        return self.ready > 0 and not self.live_workers and not self.paused


def tasks_of(queue: QueueInfo) -> int:
    """Return how many tasks a queue has in any state."""
    return queue.ready + queue.scheduled + queue.running + queue.failed + queue.waiting + queue.unregistered


@dataclasses.dataclass(frozen=True, slots=True)
class TaskQueueOverview:
    """All queues, workers and the poller at one moment.

    Attributes:
        poller: id of the active poller, or None.
        eviction_policy: the server's maxmemory-policy; None if it may not be read.
        server: fields of INFO: server, clients, memory, persistence, replication; empty if it may not be read.
        unregistered: names of the newest unregistered tasks of the first 5 queues that have any, by queue name.
        workers: of more than 200 the 150 with the latest heartbeats and the 50 with the oldest; see `read_overview`.
        metrics: of the last hour, by queue name, of the 50 queues with most failed, retrying, running or other tasks.
        main_errors: the errors with most failures in the last hour, 5 at most, by queue name, of the 5 queues with
            most failed tasks.
        worker_count, live_count: how many workers have sent a heartbeat in the last ten minutes, and how many of them
            within the duration of a lease.
        using: alias of the connection.
    """

    at: datetime
    queues: list[QueueInfo]
    workers: list[WorkerInfo]
    poller: str | None
    eviction_policy: str | None
    metrics: dict[str, metrics.Metrics] = dataclasses.field(default_factory=dict)
    server: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unregistered: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    main_errors: ErrorsByQueue = dataclasses.field(default_factory=dict)
    worker_count: int = 0
    live_count: int = 0
    using: str = "default"

    @property
    def evicts(self) -> bool:
        """Whether the server may evict tasks when its memory is full."""
        return self.eviction_policy not in (None, "noeviction")

    @property
    def failure_counts(self) -> FailureCounts:
        """What `read_failure_counts` returns, without a request."""
        failed = sum(queue.failed for queue in self.queues)
        return FailureCounts(failed, self.worker_count - self.live_count, len(self.queues) >= MAX_QUEUES)


def read_depths(shard: Shard, *names: str) -> Flow[list[QueueInfo]]:
    """Read the depths of these queues, or of all known queues (at most 5,000) and those in the settings."""
    if names:
        now_us, rows, *_ = yield _stats_request(shard, "", names)
    else:
        reply = yield _first_request(shard)
        now_us, rows = reply[0], (yield from _all_rows(shard, reply))
    return [_depth(row, now_us) for row in _valid_rows(rows)]


def read_overview(
    shard: Shard, *, with_metrics: bool = True, with_all_workers: bool = False
) -> Flow[TaskQueueOverview]:
    """Read queues, workers and poller in two round trips, and in one more for each further 500 queues.

    Args:
        with_metrics: whether to read the metrics of 50 queues (see `TaskQueueOverview`), and what has failed in them.
        with_all_workers: whether to return up to 5,000 workers.
    """
    depths, heartbeats, poller, info, *packed = yield Batch(
        [
            _first_request(shard),
            Read("ZREVRANGE", shard.key(Key.workers), 0, MAX_ALL_WORKERS - 1, "WITHSCORES"),
            Read("GET", shard.key(Key.poller)),
            Command("INFO", *INFO_SECTIONS, key=shard.base, retry=True),
            *(packed_minutes.range_requests(shard) if with_metrics else []),
        ],
        return_exceptions=True,
    )
    for reply in (depths, heartbeats, poller):
        if isinstance(reply, RedisError):
            raise reply
    now_us, _, _, worker_count, live_count = depths
    rows = _valid_rows((yield from _all_rows(shard, depths)))
    seen_ms = {worker.decode(): float(ms) for worker, ms in zip(heartbeats[::2], heartbeats[1::2], strict=True)}
    if not with_all_workers:
        seen_ms = {worker: seen_ms[worker] for worker in _selected(list(seen_ms))}
    measured, unregistered, failing = _selected_queues(rows) if with_metrics else ([], [], [])
    packed_range = packed_minutes.parse_range(packed) if packed else packed_minutes.NONE
    details = yield from _read_details(shard, seen_ms, measured, unregistered, failing, packed_range)
    reports, recent, names, main_errors, arrivals = details
    rows = [[*row[:11], *arrivals.get(row[0], row[11:14]), *row[14:]] for row in rows]
    heartbeats_and_reports = zip(seen_ms.items(), reports, strict=True)
    workers = [worker_info(worker, at_ms, report, now_us) for (worker, at_ms), report in heartbeats_and_reports]
    return TaskQueueOverview(
        at=moment_of(now_us),
        queues=[_depth(row, now_us) for row in rows],
        workers=workers,
        poller=poller.decode() if poller else None,
        eviction_policy=eviction_policy_of(info),
        metrics=recent,
        unregistered=names,
        main_errors=main_errors,
        server=parse_info(info).fields if isinstance(info, bytes) else {},
        worker_count=worker_count,
        live_count=live_count,
        using=shard.using,
    )


def read_traffic(
    shard: Shard, queues: Sequence[str], packed: range = packed_minutes.NONE
) -> Flow[tuple[dict[str, metrics.Metrics], dict[str, float | None]]]:
    """Read the metrics of the last hour, and the arrivals per minute, of at most 50 queues.

    Args:
        packed: see `metrics.recent_requests`.
    """
    requests = metrics.recent_requests(shard, queues, OVERVIEW_MINUTES, packed)
    *recent, (now_us, rows) = yield Batch([*requests, READ_ARRIVALS(base=shard.base, queues=queues)])
    arrivals = {queue: _arrival_rate(row[0], row[1], row[2], now_us) for queue, row in zip(queues, rows, strict=True)}
    return metrics.parse_recent(recent, queues, OVERVIEW_MINUTES, packed), arrivals


def _selected(workers: list[str]) -> list[str]:
    """Return the workers that are shown, of these by heartbeat: of many the latest, and the oldest."""
    if len(workers) <= MAX_WORKERS:
        return workers
    return workers[: MAX_WORKERS - MAX_OLDEST] + workers[-MAX_OLDEST:]


def _selected_queues(rows: list[Any]) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Return the queues whose metrics, whose unregistered tasks, and whose main errors are read."""
    most_failed = sorted((row for row in rows if row[4]), key=lambda row: -row[4])
    return (
        _measured_queues(rows),
        [row[0] for row in rows if row[5]][:NAMED_QUEUES],
        [row[0] for row in most_failed[:ERROR_QUEUES]],
    )


def _measured_queues(rows: list[Any]) -> list[bytes]:
    """Return the queues whose metrics are read: in turn one with most failed, retrying, running and all tasks.

    Queues that have many tasks must not hide one in which each task fails.
    """
    orders = [sorted(rows, key=key, reverse=True) for key in (_FAILED, _RETRYING, _RUNNING, lambda row: sum(row[1:5]))]
    measured = dict.fromkeys(row[0] for rank in zip(*orders, strict=True) for row in rank)
    return list(measured)[: metrics.MAX_QUEUES]


def _first_request(shard: Shard) -> Call:
    """Return the request for the depths of the first queues of the index, the paused ones and those in the settings."""
    return _stats_request(shard, 0, conf.settings().taskqueue.queues or ())


def _stats_request(shard: Shard, first: int | str, queues: Collection[str | bytes] = ()) -> Call:
    lease_ms = to_ms(conf.settings().taskqueue.lease_s, "lease")
    return QUEUE_STATS(base=shard.base, first=first, lease_ms=lease_ms, queues=queues)


def _all_rows(shard: Shard, reply: Any) -> Flow[list[Any]]:
    """Return the rows of the reply to `_first_request`, and those of the further queues, each queue once."""
    _, rows, following, *_ = reply
    found = {row[0]: row for row in rows}
    while following and following < MAX_QUEUES:
        _, rows, following, *_ = yield _stats_request(shard, following)
        found |= {row[0]: row for row in rows}
    return list(found.values())


def _valid_rows(rows: list[Any]) -> list[Any]:
    """Return the rows with a valid queue name: another client may have written to the index."""
    valid = []
    for row in rows:
        if stored_name(row[0]) is None:
            logger.warning("Skipped a corrupt member of the index of queues: %r", row[0][:100])
        else:
            valid.append(row)
    return valid


def _read_details(
    shard: Shard,
    workers: Collection[str],
    queues: list[bytes],
    unregistered: list[bytes],
    failing: list[bytes],
    packed: range,
) -> Flow[tuple[list[bytes | None], dict[str, metrics.Metrics], dict[str, list[str]], ErrorsByQueue, dict[bytes, Any]]]:
    """Read the reports of workers, the recent metrics of queues, names of unregistered tasks, and main errors.

    If there are as many queues as have metrics, the first request has read no arrivals: read those of these queues.
    """
    requests: list[Call | Command] = [_names_request(shard, queue) for queue in unregistered]
    requests += [errors.main_errors_request(shard, queue) for queue in failing]
    parts = list(chunks(workers, MAX_WORKERS))
    requests += [Read("MGET", *[shard.key(Key.worker, worker) for worker in part]) for part in parts]
    of_queues = metrics.recent_requests(shard, queues, OVERVIEW_MINUTES, packed) if queues else []
    requests += of_queues
    if len(queues) == metrics.MAX_QUEUES:
        requests.append(READ_ARRIVALS(base=shard.base, queues=queues))
    replies = iter((yield Batch(requests)) if requests else [])
    names = {
        queue.decode(): sorted(name.decode(errors="replace") for name in next(replies)[9][::3])
        for queue in unregistered
    }
    main_errors = {queue.decode(): errors.parse_listing(next(replies)).groups for queue in failing}
    reports = [report for _ in parts for report in next(replies)]
    recent_replies = [next(replies) for _ in of_queues]
    recent = metrics.parse_recent(recent_replies, queues, OVERVIEW_MINUTES, packed) if queues else {}
    arrivals = dict(zip(queues, next(replies)[1], strict=True)) if len(queues) == metrics.MAX_QUEUES else {}
    return reports, recent, names, main_errors, arrivals


def _names_request(shard: Shard, queue: bytes) -> Call:
    """Return the request for the names of the newest unregistered tasks of a queue."""
    return SCAN_TASKS(
        base=shard.base,
        queue=queue,
        state="unregistered",
        cursor="",
        direction="after",
        limit=0,
        budget=NAMED_TASKS,
        mode="names",
        **Filters().arguments(),
    )


def eviction_policy_of(info: Any) -> str | None:
    """Return the maxmemory-policy from a reply to INFO memory, or None."""
    if not isinstance(info, bytes):
        return None
    for line in info.decode(errors="replace").splitlines():
        if line.startswith("maxmemory_policy:"):
            return line.partition(":")[2].strip()
    return None


def _depth(row: Any, now_us: int) -> QueueInfo:
    name, ready, scheduled, running, failed, unregistered, oldest_us, due_ms, paused, *rest = row
    limited, waiting, latest, first_us, newest_us, retrying, live = rest
    return QueueInfo(
        name.decode(),
        ready,
        scheduled,
        running,
        failed,
        unregistered,
        max(0.0, (now_us - oldest_us) / 1e6) if oldest_us else None,
        moment_of_ms(due_ms) if due_ms else None,
        pause_of(paused),
        limited,
        waiting,
        retrying,
        _arrival_rate(latest, first_us, newest_us, now_us),
        live,
    )


def _arrival_rate(latest: int, first_us: int, newest_us: int, now_us: int) -> float | None:
    """Return the arrivals per minute; see `QueueInfo`.

    A queue that was filled at once has none now: after a time without arrivals at most three were likely in it.
    """
    if not first_us:
        return None
    mean = latest * 60e6 / max(now_us - first_us, 1)
    return min(mean, 3 * 60e6 / max(now_us - newest_us, 1))


def pause_of(stored: bytes) -> QueuePause | None:
    """Parse a stored pause, ``until_ms|since_ms|JSON``; None for an empty one."""
    if not stored:
        return None
    until_ms, since_ms, text = stored.decode().split("|", 2)
    note = json.loads(text)
    until = moment_of_ms(until_ms) if int(until_ms) else None
    return QueuePause(note["reason"], note["author"], moment_of_ms(since_ms), until)

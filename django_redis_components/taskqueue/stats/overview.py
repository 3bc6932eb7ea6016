"""Depths of queues, workers and the poller, in bounded reads: for the dashboard, `get_queue` and `manage.py queues`."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core import conf, keys
from django_redis_components.core.client.server import parse_info
from django_redis_components.core.protocol import Batch, Call, Command, Flow, Read
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.fields import Key, base_key, tag_key
from django_redis_components.taskqueue.stats import errors, metrics
from django_redis_components.taskqueue.store.scan import Filters
from django_redis_components.taskqueue.store.scripts import QUEUE_STATS, SCAN_TASKS
from django_redis_components.taskqueue.store.workers import MAX_RUNS

logger = logging.getLogger("django_redis_components.taskqueue")

#: Most workers that one request reads.
MAX_WORKERS = 200
#: Characters of a text in a worker's report, and the largest number.
MAX_TEXT, MAX_FIGURE = 200, 1e15
#: Most queues whose unregistered names the overview reads, and most tasks of each that are looked at.
NAMED_QUEUES, NAMED_TASKS = 5, 200
#: Most queues whose main error the overview reads: those with most failed tasks.
ERROR_QUEUES = 5
#: Sections of INFO in the overview.
INFO_SECTIONS = ("server", "clients", "memory", "persistence", "replication")
#: Leases without a heartbeat after which a worker is silent: an open page shows its death within 15 s by default.
SILENT_LEASES = 2 / 3
#: Minutes of metrics in the overview.
OVERVIEW_MINUTES = 60


@dataclasses.dataclass(frozen=True, slots=True)
class QueuePause:
    """The pause of a queue. `ends_at` is None if the queue stays paused until it is resumed."""

    reason: str
    author: str
    at: datetime
    ends_at: datetime | None


@dataclasses.dataclass(frozen=True, slots=True)
class QueueDepth:
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
            than two are in it. Prioritized and scheduled tasks are not measured.
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


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerRun:
    """A task that a worker runs, as of its last heartbeat. `elapsed` is in seconds."""

    id: str
    name: str
    queue: str
    elapsed: float


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerCommand:
    """A command to a worker process or to its supervisor.

    Attributes:
        verb: quiet, resume, restart or stop.
        outcome: done, or why it could not be executed: gone, stopping, leaving, quiet, not_quiet; "" while it waits.
        target: id of the process or of the supervisor.
    """

    verb: str
    author: str
    at: datetime
    outcome: str
    target: str


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker process, as of its last heartbeat.

    Attributes:
        heartbeat_age: seconds since the last heartbeat.
        state: working, quiet (it fetches no more tasks), leaving (it is being replaced) or stopping.
        supervisor: id of its supervisor, which several processes share.
        version: of the site's code; "" if unknown.
        poller: of the supervisor: active, standby or none.
        memory: resident bytes; None if the system does not state them.
        per_minute: tasks finished per minute, between the last two heartbeats; None before the second.
        round_trip: of the supervisor's heartbeat before the last, in seconds.
        leases: leased tasks, running or not.
        runs: the running tasks, at most 25, the longest first.
        command: the latest command to it or to its supervisor that was executed.
    """

    id: str
    heartbeat_age: float
    host: str
    pid: int
    queues: tuple[str, ...]
    threads: int
    busy: int
    finished: int
    started_at: datetime | None
    state: str = "working"
    supervisor: str = ""
    supervisor_pid: int = 0
    version: str = ""
    poller: str = "none"
    memory: int | None = None
    per_minute: float | None = None
    round_trip: float | None = None
    leases: int = 0
    runs: tuple[WorkerRun, ...] = ()
    command: WorkerCommand | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it has sent a heartbeat within the duration of a lease."""
        return self.heartbeat_age <= conf.settings().taskqueue.lease_s

    @property
    def is_silent(self) -> bool:
        """Whether it has missed two heartbeats in a row. It sends three in the duration of a lease."""
        return self.heartbeat_age > conf.settings().taskqueue.lease_s * SILENT_LEASES


@dataclasses.dataclass(frozen=True, slots=True)
class TaskQueueOverview:
    """All queues, workers and the poller at one moment.

    Attributes:
        poller: id of the active poller, or None.
        eviction_policy: the server's maxmemory-policy; None if it may not be read.
        server: fields of INFO: server, clients, memory, persistence, replication; empty if it may not be read.
        unregistered: names of the newest unregistered tasks of the first 5 queues that have any, by queue name.
        metrics: of the first 50 queues in the last hour, by queue name.
        main_errors: the error with most failures in the last hour, by queue name, of the 5 queues with most failed
            tasks.
    """

    at: datetime
    queues: list[QueueDepth]
    workers: list[WorkerInfo]
    poller: str | None
    eviction_policy: str | None
    metrics: dict[str, metrics.Metrics] = dataclasses.field(default_factory=dict)
    server: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unregistered: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    main_errors: dict[str, errors.ErrorGroup] = dataclasses.field(default_factory=dict)

    @property
    def evicts(self) -> bool:
        """Whether the server may evict tasks when its memory is full."""
        return self.eviction_policy not in (None, "noeviction")


def read_depths(*names: str) -> Flow[list[QueueDepth]]:
    """Read the depths of these queues, or of all known queues (at most 200) and those in the settings."""
    now_us, rows = yield QUEUE_STATS(base=base_key(), known=0, queues=names) if names else _all_depths_request()
    return [_depth(row, now_us) for row in _valid_rows(rows)]


def read_overview(*, with_metrics: bool = True) -> Flow[TaskQueueOverview]:
    """Read queues, workers and poller in two round trips, and the metrics of the first 50 queues."""
    base = base_key()
    depths, heartbeats, poller, info = yield Batch(
        [
            _all_depths_request(),
            Read("ZREVRANGE", tag_key(Key.workers), 0, MAX_WORKERS - 1, "WITHSCORES"),
            Read("GET", tag_key(Key.poller)),
            Command("INFO", *INFO_SECTIONS, key=base, retry=True),
        ],
        return_exceptions=True,
    )
    for reply in (depths, heartbeats, poller):
        if isinstance(reply, RedisError):
            raise reply
    now_us, rows = depths[0], _valid_rows(depths[1])
    seen_ms = {worker.decode(): float(ms) for worker, ms in zip(heartbeats[::2], heartbeats[1::2], strict=True)}
    measured = [row[0] for row in rows[: metrics.MAX_QUEUES]] if with_metrics else []
    unregistered = [row[0] for row in rows if row[5]][:NAMED_QUEUES] if with_metrics else []
    most_failed = sorted((row for row in rows if row[4]), key=lambda row: -row[4])
    failing = [row[0] for row in most_failed[:ERROR_QUEUES]] if with_metrics else []
    reports, recent, names, main_errors = yield from _read_details(seen_ms, measured, unregistered, failing)
    found = zip(seen_ms.items(), reports, strict=True)
    return TaskQueueOverview(
        at=moment_of(now_us),
        queues=[_depth(row, now_us) for row in rows],
        workers=[worker_info(worker, at_ms, report, now_us) for (worker, at_ms), report in found],
        poller=poller.decode() if poller else None,
        eviction_policy=eviction_policy_of(info),
        metrics=recent,
        unregistered=names,
        main_errors=main_errors,
        server=parse_info(info).fields if isinstance(info, bytes) else {},
    )


def _valid_rows(rows: list[Any]) -> list[Any]:
    """Return the rows with a valid queue name: another client may have written to the index."""
    found = []
    for row in rows:
        try:
            keys.validate_name(row[0].decode())
        except ValueError:
            logger.warning("Skipped a corrupt member of the index of queues: %r", row[0][:100])
        else:
            found.append(row)
    return found


def _all_depths_request() -> Call:
    """Return the request for the depths of all queues, including those in the settings without tasks."""
    return QUEUE_STATS(base=base_key(), known=1, queues=conf.settings().taskqueue.queues or ())


def _read_details(
    workers: Collection[str], queues: list[bytes], unregistered: list[bytes], failing: list[bytes]
) -> Flow[tuple[list[bytes | None], dict[str, metrics.Metrics], dict[str, list[str]], dict[str, errors.ErrorGroup]]]:
    """Read the reports of workers, the recent metrics of queues, names of unregistered tasks, and main errors."""
    requests: list[Call | Command] = [_names_request(queue) for queue in unregistered]
    requests += [errors.main_error_request(queue) for queue in failing]
    if workers:
        requests.append(Read("MGET", *[tag_key(Key.worker, worker) for worker in workers]))
    if queues:
        requests.append(metrics.recent_request(queues, OVERVIEW_MINUTES))
    replies = iter((yield Batch(requests)) if requests else [])
    names = {
        queue.decode(): sorted(name.decode(errors="replace") for name in next(replies)[9][::3])
        for queue in unregistered
    }
    groups = {queue.decode(): errors.parse_listing(next(replies)).groups for queue in failing}
    main_errors = {queue: found[0] for queue, found in groups.items() if found}
    reports = next(replies) if workers else []
    return reports, metrics.parse_recent(next(replies), OVERVIEW_MINUTES) if queues else {}, names, main_errors


def _names_request(queue: bytes) -> Call:
    """Return the request for the names of the newest unregistered tasks of a queue."""
    return SCAN_TASKS(
        base=base_key(),
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
    for line in info.decode().splitlines():
        if line.startswith("maxmemory_policy:"):
            return line.partition(":")[2].strip()
    return None


def _depth(row: Any, now_us: int) -> QueueDepth:
    name, ready, scheduled, running, failed, unregistered, oldest_us, due_ms, paused, *rest = row
    limited, waiting, latest, first_us, newest_us, retrying = rest
    return QueueDepth(
        name.decode(),
        ready,
        scheduled,
        running,
        failed,
        unregistered,
        max(0.0, (now_us - oldest_us) / 1e6) if oldest_us else None,
        moment_of(due_ms * 1_000) if due_ms else None,
        pause_of(paused),
        limited,
        waiting,
        retrying,
        _arrival_rate(latest, first_us, newest_us, now_us),
    )


def _arrival_rate(latest: int, first_us: int, newest_us: int, now_us: int) -> float | None:
    """Return the arrivals per minute; see `QueueDepth`.

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
    until = moment_of(int(until_ms) * 1_000) if int(until_ms) else None
    return QueuePause(note["reason"], note["author"], moment_of(int(since_ms) * 1_000), until)


def worker_info(worker: str, seen_ms: float, report: bytes | None, now_us: int) -> WorkerInfo:
    """Parse the report of a worker. One that another client wrote counts as empty."""
    heartbeat_age = min(max(0.0, now_us / 1e6 - seen_ms / 1e3), MAX_FIGURE)
    try:
        return _worker_info(worker, heartbeat_age, json.loads(report or "{}"))
    except (ValueError, TypeError, AttributeError, OverflowError, OSError, RecursionError, LookupError):
        return _worker_info(worker, heartbeat_age, {})


def _worker_info(worker: str, heartbeat_age: float, report: dict[str, Any]) -> WorkerInfo:
    started = report.get("started_at")
    return WorkerInfo(
        id=worker,
        heartbeat_age=heartbeat_age,
        host=str(report.get("host") or worker.partition(":")[0]),
        pid=int(report.get("pid", 0)),
        queues=tuple(map(str, report.get("queues", ()))),
        threads=int(report.get("threads", 0)),
        busy=int(report.get("busy", 0)),
        finished=int(report.get("finished", 0)),
        started_at=moment_of(round(started * 1_000_000)) if started else None,
        state=str(report.get("state") or "working"),
        supervisor=worker.rpartition(".")[0] or worker,
        supervisor_pid=int(report.get("supervisor_pid", 0)),
        version=str(report.get("version") or "")[:MAX_TEXT],
        poller=str(report.get("poller") or "none"),
        memory=None if (memory := _figure(report.get("memory"))) is None else int(memory),
        per_minute=_figure(report.get("per_minute")),
        round_trip=None if (trip_ms := _figure(report.get("round_trip_ms"))) is None else trip_ms / 1_000,
        leases=int(report.get("leases", 0)),
        runs=tuple(
            WorkerRun(str(task)[:MAX_TEXT], str(name)[:MAX_TEXT], str(queue)[:MAX_TEXT], _figure(elapsed) or 0.0)
            for task, name, queue, elapsed in report.get("runs", ())[:MAX_RUNS]
        ),
        command=_command(report.get("command")),
    )


def _command(reported: Any) -> WorkerCommand | None:
    if not reported:
        return None
    verb, author, at_ms, outcome, target = reported
    verb, author, outcome, target = (str(text)[:MAX_TEXT] for text in (verb, author, outcome, target))
    return WorkerCommand(verb, author, moment_of(int(at_ms) * 1_000), outcome, target)


def _figure(value: Any) -> float | None:
    """Return a reported number; None without one.

    Raises:
        ValueError: it is negative, or too large to be one.
    """
    if value is None:
        return None
    if not 0 <= (figure := float(value)) < MAX_FIGURE:
        raise ValueError(f"{figure!r}: expected a number from 0 to {MAX_FIGURE:g}.")
    return figure

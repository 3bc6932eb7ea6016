"""What worker processes report in their heartbeats."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from typing import Any, NamedTuple

from django_redis_components.core.settings import conf
from django_redis_components.core.units import aware, moment_of, moment_of_ms
from django_redis_components.taskqueue.pool import Pool
from django_redis_components.taskqueue.store.workers import MAX_RUNS

#: Characters of a text in a worker's report, and the largest number.
MAX_TEXT, MAX_FIGURE = 200, 1e15
#: Changed values of a report, and characters of one.
MAX_CHANGES, MAX_QUEUES_TEXT = 3, 4_000
#: Leases without a heartbeat after which a worker is silent: an open page shows its death within 15 s by default.
SILENT_LEASES = 2 / 3


class WorkerRun(NamedTuple):
    """A task that a worker runs, as of its last heartbeat. A list in JSON.

    Attributes:
        elapsed: seconds since the start of the run.
        limit: the hard time limit of the run in seconds; 0 without one.
    """

    id: str
    name: str
    queue: str
    elapsed: float
    limit: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerCommand:
    """A command to a worker process or to its supervisor.

    Attributes:
        verb: quiet, resume, restart, stop, pool or reset.
        outcome: done, or why it could not be executed: gone, stopping, restarting, quiet, not_quiet, threads (the
            system has too few), queue (the worker does not know it), unknown (the command), unavailable (Redis); ""
            while it waits.
        target: id of the process or of the supervisor.
    """

    verb: str
    author: str
    at: datetime
    outcome: str
    target: str


class ChangedValue(NamedTuple):
    """A value of a worker's pool that was changed. A list in JSON, with the time in milliseconds.

    Attributes:
        name: threads, coroutines or queues.
        configured: the value by the command line.
        author, at: author and time of the change.
        is_kept: whether processes that start later take it, too; otherwise it lasts until the restart of the process.
    """

    name: str
    configured: str
    author: str
    at: datetime
    is_kept: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What a supervisor reports about a worker process with each heartbeat.

    Attributes:
        threads, async_concurrency: tasks that it runs at once in threads, and on its event loop, as changed last.
        busy, busy_coroutines: running tasks, and how many of them are on its event loop.
        queues, weights: that it serves, as changed last; no weights: in strict order.
        command_line: the arguments of its pool; "" if its release cannot change the pool while it runs.
        changes: the values of the pool that differ from these.
        state: working, quiet (it fetches no more tasks), restarting (its successor takes over) or stopping.
        version: of the site's code; "" if unknown.
        poller: of the supervisor: active, standby or none.
        memory: resident bytes; None if the system does not state them.
        per_minute: tasks finished per minute, between the last two heartbeats; None before the second.
        round_trip: of the supervisor's heartbeat before the last, in seconds.
        leases, lost_threads: leased tasks, running or not; threads that have died.
        runs: the running tasks, at most 25, the longest first.
        command: the latest command to it or to its supervisor that was executed.
    """

    host: str = ""
    pid: int = 0
    queues: tuple[str, ...] = ()
    threads: int = 0
    async_concurrency: int = 0
    busy: int = 0
    busy_coroutines: int = 0
    finished: int = 0
    started_at: datetime | None = None
    state: str = "working"
    supervisor_pid: int = 0
    version: str = ""
    poller: str = "none"
    memory: int | None = None
    per_minute: float | None = None
    round_trip: float | None = None
    leases: int = 0
    lost_threads: int = 0
    runs: tuple[WorkerRun, ...] = ()
    command: WorkerCommand | None = None
    weights: tuple[int, ...] = ()
    command_line: str = ""
    changes: tuple[ChangedValue, ...] = ()

    @property
    def busy_threads(self) -> int:
        """Threads that run a task. More than `threads` for a while after their number was reduced."""
        return max(0, self.busy - self.busy_coroutines)

    def encode(self) -> str:
        """Return it as JSON, without what is as by default: about 400 bytes, and 140 for each running task."""
        report = {
            field.name: value
            for field in dataclasses.fields(WorkerReport)
            if (value := getattr(self, field.name)) != field.default or field.name == "queues"
        }
        if self.started_at is not None:
            report["started_at"] = round(aware(self.started_at).timestamp(), 3)
        if self.command is not None:
            verb, author, at, outcome, target = dataclasses.astuple(self.command)
            report["command"] = [verb, author, round(aware(at).timestamp() * 1_000), outcome, target]
        if self.changes:
            report["changes"] = [
                [*each[:3], round(aware(each.at).timestamp() * 1_000), int(each.is_kept)] for each in self.changes
            ]
        text = json.dumps(report, separators=(",", ":"), ensure_ascii=False)
        return text.encode(errors="replace").decode()  # the server refuses a lone surrogate, with all leases

    @classmethod
    def parse(cls, data: bytes) -> WorkerReport:
        """Parse what `encode` returned. A report that another client wrote counts as empty."""
        try:
            return _parse(json.loads(data))
        except (ValueError, TypeError, AttributeError, OverflowError, OSError, RecursionError, LookupError):
            return cls()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo(WorkerReport):
    """A worker process, as of its last heartbeat.

    Attributes:
        heartbeat_age: seconds since the last heartbeat.
        supervisor: id of its supervisor, which several processes share.
    """

    id: str
    heartbeat_age: float
    supervisor: str = ""

    @property
    def pool(self) -> Pool:
        """Its threads, coroutines and queues."""
        weights = self.weights if len(self.weights) == len(self.queues) else ()
        return Pool(self.threads, self.async_concurrency, self.queues, weights)

    @property
    def is_alive(self) -> bool:
        """Whether it has sent a heartbeat within the duration of a lease."""
        return self.heartbeat_age <= conf.settings().taskqueue.lease_s

    @property
    def is_silent(self) -> bool:
        """Whether it has missed two heartbeats in a row. It sends three in the duration of a lease."""
        return self.heartbeat_age > conf.settings().taskqueue.lease_s * SILENT_LEASES


def worker_info(worker: str, seen_ms: float, report: bytes | None, now_us: int) -> WorkerInfo:
    """Return a worker from its report and its latest heartbeat."""
    stated = WorkerReport.parse(report or b"{}")
    fields = {field.name: getattr(stated, field.name) for field in dataclasses.fields(WorkerReport)}
    return WorkerInfo(
        id=worker,
        heartbeat_age=min(max(0.0, now_us / 1e6 - seen_ms / 1e3), MAX_FIGURE),
        supervisor=worker.rpartition(".")[0] or worker,
        **(fields | {"host": stated.host or worker.partition(":")[0]}),
    )


def _parse(report: dict[str, Any]) -> WorkerReport:
    started = report.get("started_at")
    return WorkerReport(
        host=str(report.get("host") or ""),
        pid=int(report.get("pid", 0)),
        queues=tuple(map(str, report.get("queues", ()))),
        threads=int(report.get("threads", 0)),
        async_concurrency=int(report.get("async_concurrency", 0)),
        busy=int(report.get("busy", 0)),
        busy_coroutines=int(report.get("busy_coroutines", 0)),
        finished=int(report.get("finished", 0)),
        started_at=moment_of(round(started * 1_000_000)) if started else None,
        state=str(report.get("state") or "working"),
        supervisor_pid=int(report.get("supervisor_pid", 0)),
        version=str(report.get("version") or "")[:MAX_TEXT],
        poller=str(report.get("poller") or "none"),
        memory=None if (memory := _figure(report.get("memory"))) is None else int(memory),
        per_minute=_figure(report.get("per_minute")),
        round_trip=_figure(report.get("round_trip")),
        leases=int(report.get("leases", 0)),
        lost_threads=int(report.get("lost_threads", 0)),
        runs=tuple(_run(*run) for run in report.get("runs", ())[:MAX_RUNS]),
        command=_command(report.get("command")),
        weights=tuple(map(int, report.get("weights", ()))),
        command_line=str(report.get("command_line") or "")[:MAX_TEXT],
        changes=tuple(_changed(*each) for each in report.get("changes", ())[:MAX_CHANGES]),
    )


def _changed(name: Any, configured: Any, author: Any, at_ms: Any, is_kept: Any) -> ChangedValue:
    name, author = (str(text)[:MAX_TEXT] for text in (name, author))
    return ChangedValue(name, str(configured)[:MAX_QUEUES_TEXT], author, moment_of_ms(at_ms), bool(is_kept))


def _run(task: Any, name: Any, queue: Any, elapsed: Any, limit: Any = 0.0) -> WorkerRun:
    task, name, queue = (str(text)[:MAX_TEXT] for text in (task, name, queue))
    return WorkerRun(task, name, queue, _figure(elapsed) or 0.0, _figure(limit) or 0.0)


def _command(reported: Any) -> WorkerCommand | None:
    if not reported:
        return None
    verb, author, at_ms, outcome, target = reported
    verb, author, outcome, target = (str(text)[:MAX_TEXT] for text in (verb, author, outcome, target))
    return WorkerCommand(verb, author, moment_of_ms(at_ms), outcome, target)


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

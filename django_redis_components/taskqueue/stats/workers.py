"""Worker processes by supervisor, a page at a time, and what becomes of the tasks of lost ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable
from django_redis_components.core.units import moment_of, to_ms
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.queue_stats import MAX_WORKERS
from django_redis_components.taskqueue.stats.worker_reports import WorkerCommand, WorkerInfo, worker_info
from django_redis_components.taskqueue.store.scripts import LIST_WORKERS, TASK_LEASES
from django_redis_components.taskqueue.store.workers import RemoteCommand

#: Workers among which a page is selected, those with the latest heartbeats.
MAX_LISTED = 5_000
#: Tasks of lost workers whose leases one read states.
MAX_HELD = 500


@dataclasses.dataclass(frozen=True, slots=True)
class HeldTask:
    """A task that a lost worker ran.

    Attributes:
        state: of the task now; "gone" if its record has expired.
        is_held: whether the lost worker still has its lease.
        lease_ends_in: seconds until the lease expires and the poller recovers the task; 0 if it has expired.
    """

    state: str
    is_held: bool
    lease_ends_in: float


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerFilter:
    """Which workers are listed; "" for any.

    Attributes:
        state: "alive" or "lost".
        version: of the site's code, as its supervisor reported it first.
    """

    state: str = ""
    version: str = ""
    host: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerPage:
    """A page of workers, by id: those of one supervisor follow each other.

    Attributes:
        poller: id of the active poller, or None.
        total, live: of all workers that were looked at, `MAX_LISTED` at most.
        pending_commands: commands that were not executed yet, by target.
        held: by id, the tasks that lost workers ran.
        next: cursor of the next page; "" on the last.
        missing_pollers: names of the shards without an active poller, if there are several.
        alive_in: names of the shards in which each worker is alive, by its id; empty if there is one shard.
        matched: how many of the workers that were looked at pass the filter.
        counts: by field of the filter and value, how many pass the other two.
        after: the cursor of this page; "" for the first.
    """

    at: datetime
    poller: str | None
    total: int
    live: int
    workers: list[WorkerInfo]
    pending_commands: dict[str, WorkerCommand]
    held: dict[str, HeldTask]
    next: str = ""
    missing_pollers: tuple[str, ...] = ()
    alive_in: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    matched: int = 0
    counts: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    after: str = ""


def read_workers(
    shard: Shard,
    after: str = "",
    supervisor: str = "",
    *,
    limit: int = MAX_WORKERS,
    wanted: WorkerFilter = WorkerFilter(),
) -> Flow[WorkerPage]:
    """Read a page of workers in one round trip; in two if any of them is lost.

    Args:
        after: the cursor; "" for the first page.
        supervisor: only the workers of this one; "" for all.
    """
    lease_ms = to_ms(conf.settings().taskqueue.lease_s, "lease")
    now_us, poller, total, live, has_more, rows, commands, matched, counts = yield LIST_WORKERS(
        base=shard.base,
        after=encodable(after),
        supervisor=encodable(supervisor),
        limit=limit,
        lease_ms=lease_ms,
        **{name: encodable(value) for name, value in dataclasses.asdict(wanted).items()},
    )
    workers = [
        worker_info(worker.decode(errors="replace"), float(seen_ms), report, now_us) for worker, seen_ms, report in rows
    ]
    return WorkerPage(
        at=moment_of(now_us),
        poller=poller.decode(errors="replace") or None,
        total=total,
        live=live,
        workers=workers,
        pending_commands=_commands_by_target(commands),
        held=(yield from _read_held(shard, workers, now_us)),
        next=rows[-1][0].decode(errors="replace") if has_more else "",
        matched=matched,
        counts=dict(zip(("state", "version", "host"), map(_counts, counts), strict=True)),
        after=after,
    )


def _counts(pairs: list[Any]) -> dict[str, int]:
    """Return the workers by value, by name."""
    return dict(sorted((value.decode(errors="replace"), n) for value, n in pairs_of(pairs)))


def read_hosts(shard: Shard) -> Flow[list[str]]:
    """Read the hosts of the workers with the latest heartbeats, by name."""
    ids = yield Read("ZREVRANGE", shard.key(Key.workers), 0, MAX_WORKERS - 1)
    return sorted({host_of(worker.decode(errors="replace")) for worker in ids} - {""})


def host_of(worker: str) -> str:
    """Return the host of a worker, from its id; "" without one."""
    return (worker.rpartition(".")[0] or worker).rpartition(":")[0]


def find_workers(shard: Shard, target: str) -> Flow[WorkerPage]:
    """Read a worker, or all workers of a supervisor. The page has no workers if there is none with this id."""
    page = yield from read_workers(shard, supervisor=target)
    if page.workers:
        return page
    page = yield from read_workers(shard, supervisor=target.rpartition(".")[0] or target)
    return dataclasses.replace(page, workers=[worker for worker in page.workers if worker.id == target])


def _commands_by_target(entries: Iterable[bytes]) -> dict[str, WorkerCommand]:
    latest = {}
    for entry in entries:
        try:
            command = RemoteCommand.parse(entry)
        except ValueError:  # another client wrote it
            continue
        latest[command.target] = WorkerCommand(command.verb, command.author, command.at, "", command.target)
    return latest


def _read_held(shard: Shard, workers: Iterable[WorkerInfo], now_us: int) -> Flow[dict[str, HeldTask]]:
    """Read the leases of the tasks that lost workers ran."""
    runs = [(run.id, worker.id) for worker in workers if not worker.is_alive for run in worker.runs][:MAX_HELD]
    if not runs:
        return {}
    rows = yield TASK_LEASES(base=shard.base, ids=[task_id for task_id, _ in runs])
    held = {}
    for (task_id, worker), (state, lease, ends_ms) in zip(runs, rows, strict=True):
        is_held = state == b"running" and lease.decode(errors="replace").partition("/")[0] == worker
        ends_in = max(0.0, float(ends_ms) / 1_000 - now_us / 1e6) if ends_ms else 0.0
        held[task_id] = HeldTask(state.decode(errors="replace"), is_held, ends_in)
    return held

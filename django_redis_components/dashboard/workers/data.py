"""The page of workers as JSON."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_redis_components.dashboard.json_data import fields_of
from django_redis_components.dashboard.list_counts import ListCount
from django_redis_components.dashboard.snapshot import Snapshot
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo, WorkerRun
from django_redis_components.taskqueue.stats.workers import MAX_LISTED, WorkerPage

#: Longest run that is shown, in seconds: thirty years. Another client may have written a longer one.
MAX_ELAPSED_S = 1e9


def worker_data(snapshot: Snapshot[WorkerPage]) -> dict[str, Any]:
    """Return a snapshot."""
    listed = snapshot.value
    return {
        "poller": listed.poller,
        "total": listed.total,
        "live": listed.live,
        "matched": listed.matched,
        "count": ListCount(len(listed.workers), listed.matched, None if listed.after else 0).data(),
        "is_cut_off": listed.total >= MAX_LISTED,
        "workers": [_worker(worker, listed) for worker in listed.workers],
        "waiting_commands": listed.pending_commands,
        "next": listed.next or None,
    }


def _worker(worker: WorkerInfo, listed: WorkerPage) -> dict[str, Any]:
    return {
        **fields_of(worker),
        "is_lost": not worker.is_alive,
        **({"alive_in": listed.alive_in[worker.id]} if worker.id in listed.alive_in else {}),
        "runs": [_run(run, worker, listed) for run in worker.runs],
        "changes": [each._asdict() for each in worker.changes],
    }


def _run(run: WorkerRun, worker: WorkerInfo, listed: WorkerPage) -> dict[str, Any]:
    """Return a running task; of a lost worker with its state now."""
    held = None if worker.is_alive else listed.held.get(run.id)
    elapsed = min(run.elapsed + worker.heartbeat_age, MAX_ELAPSED_S)
    return {
        **run._asdict(),
        "elapsed": round(elapsed, 1),
        "started_at": listed.at - timedelta(seconds=elapsed),
        "now": held,
    }

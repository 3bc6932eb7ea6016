"""The page of workers as JSON."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

from django_redis_components.core import conf
from django_redis_components.dashboard.json_data import cost_data, time_data
from django_redis_components.dashboard.workers.snapshot import WorkerSnapshot
from django_redis_components.taskqueue.stats.worker_reports import WorkerCommand, WorkerInfo, WorkerRun
from django_redis_components.taskqueue.stats.workers import MAX_LISTED

#: Longest run that is shown, in seconds: thirty years. Another client may have written a longer one.
MAX_ELAPSED_S = 1e9


def worker_data(snapshot: WorkerSnapshot) -> dict[str, Any]:
    """Return a snapshot."""
    listed = snapshot.listed
    return {
        "at": time_data(snapshot.at),
        "environment": conf.settings().dashboard.environment,
        "address": snapshot.address,
        "poller": listed.poller,
        "total": listed.total,
        "live": listed.live,
        "is_cut_off": listed.total >= MAX_LISTED,
        "workers": [_worker(worker, snapshot) for worker in listed.workers],
        "waiting_commands": {target: _command(command) for target, command in listed.waiting.items()},
        "next": listed.next or None,
        "cost": cost_data(snapshot.cost),
    }


def _worker(worker: WorkerInfo, snapshot: WorkerSnapshot) -> dict[str, Any]:
    return {
        **dataclasses.asdict(worker),
        "is_lost": not worker.is_alive,
        "started_at": time_data(worker.started_at),
        "command": _command(worker.command) if worker.command else None,
        "runs": [_run(run, worker, snapshot) for run in worker.runs],
    }


def _run(run: WorkerRun, worker: WorkerInfo, snapshot: WorkerSnapshot) -> dict[str, Any]:
    """Return a running task; of a lost worker with its state now."""
    held = None if worker.is_alive else snapshot.listed.held.get(run.id)
    elapsed = min(run.elapsed + worker.heartbeat_age, MAX_ELAPSED_S)
    return {
        **run._asdict(),
        "elapsed": round(elapsed, 1),
        "started_at": time_data(snapshot.at - timedelta(seconds=elapsed)),
        "now": dataclasses.asdict(held) if held else None,
    }


def _command(command: WorkerCommand) -> dict[str, Any]:
    return {**dataclasses.asdict(command), "at": time_data(command.at)}

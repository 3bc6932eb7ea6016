"""What runs in processes of its own, besides the commands."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NoReturn

from django_redis_components.management.logs import show_logs
from django_redis_components.taskqueue.startup import run_worker
from django_redis_components.taskqueue.supervisor import health, supervisor
from django_redis_components.taskqueue.worker import process
from django_redis_components.taskqueue.worker.worker import WorkerOptions


def impatient_worker() -> int:
    """`runworker` that gives a process only a moment beyond the grace; the value is the exit code."""
    supervisor.KILL_AFTER_S = 0.1
    return run_worker(WorkerOptions(("default",)), print, poller=False)


def attentive_worker() -> int:
    """`runworker` that looks at the unregistered tasks often."""
    supervisor.REQUEUE_UNREGISTERED_S = 0.2
    return run_worker(WorkerOptions(("default",)), print)


def broken_worker() -> int:
    """`runworker` whose processes cannot start."""

    def cannot_start(*_: object, **__: object) -> NoReturn:
        raise LookupError("no worker today")

    process.Worker = cannot_start  # type: ignore[assignment,misc]
    return run_worker(WorkerOptions(("default",)), print, poller=False)


def worker_stopped_before_its_time() -> int:
    """A supervisor that learns at its start that it shall stop."""
    return supervisor.Supervisor(WorkerOptions(("default",)), 1).run([signal.SIGTERM])


def worker_quiet_before_its_time() -> int:
    """A supervisor that learns at its start that it shall be quiet."""
    show_logs("django_redis_components", 1)
    return supervisor.Supervisor(WorkerOptions(("default",)), 1).run(quiets=[signal.SIGUSR1])


def worker_that_tells(port: int, file: str) -> int:
    """`runworker` that takes short silence for trouble, and tells it."""
    show_logs("django_redis_components", 1)
    health.MAX_NO_REPLY_S = 1.0
    return run_worker(WorkerOptions(("default",)), print, health_address=("", port), health_file=Path(file))

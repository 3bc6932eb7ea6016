"""Functions that run in child processes, besides the commands."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

from django_redis_components.management.logs import show_logs
from django_redis_components.taskqueue.startup import run_worker
from django_redis_components.taskqueue.supervisor import child, health, shard_keeper, supervisor
from django_redis_components.taskqueue.worker import process
from django_redis_components.taskqueue.worker.options import WorkerOptions


def impatient_worker() -> int:
    """Run a worker that kills its processes soon after the grace; return the exit code."""
    supervisor.KILL_AFTER_S = 0.1
    return run_worker(WorkerOptions(("default",)), print, poller=False)


def attentive_worker() -> int:
    """Run a worker that checks unregistered tasks often."""
    supervisor.REQUEUE_UNREGISTERED_S = 0.2
    return run_worker(WorkerOptions(("default",)), print)


def broken_worker() -> int:
    """Run a worker whose processes cannot start."""

    def cannot_start(*_: object, **__: object) -> NoReturn:
        raise LookupError("no worker today")

    process.Worker = cannot_start  # type: ignore[assignment,misc]
    return run_worker(WorkerOptions(("default",)), print, poller=False)


def worker_that_is_stopped_as_a_whole(resumed: str) -> int:
    """Run a worker; when a file "stop" is there, it and its process are stopped for 600 s by the supervisor's clock.

    Args:
        resumed: path of a file that is created when both are running again.
    """
    file, clock = Path(resumed), SimpleNamespace(monotonic=time.monotonic, time=time.time)
    supervisor.time = child.time = clock  # type: ignore[attr-defined]
    found: set[child.Child] = set()
    read, step = child.Child.read_heartbeats, shard_keeper.ShardKeeper.step

    def read_and_note(process: child.Child) -> None:
        found.add(process)
        read(process)

    def step_and_stop(keeper: shard_keeper.ShardKeeper) -> None:
        step(keeper)
        if file.with_name("stop").exists():
            file.with_name("stop").unlink()
            for process in found:
                process.signal(signal.SIGSTOP)
                read(process)
            clock.monotonic = lambda: time.monotonic() + 600
        elif clock.monotonic is not time.monotonic and not file.exists():
            for process in found:
                process.signal(signal.SIGCONT)
            file.touch()

    child.Child.read_heartbeats = read_and_note  # type: ignore[method-assign]
    shard_keeper.ShardKeeper.step = step_and_stop  # type: ignore[method-assign]
    return run_worker(WorkerOptions(("default",), threads=2), print)


def worker_without_memory() -> int:
    """Run a worker that cannot fork from its second process to its fourth."""
    show_logs("django_redis_components", 1)
    fork, calls = os.fork, itertools.count(1)

    def fork_sometimes() -> int:
        if 1 < next(calls) < 5:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return fork()

    os.fork = fork_sometimes
    return run_worker(WorkerOptions(("default",)), print)


def worker_stopped_before_its_time() -> int:
    """Run a supervisor that is stopped before it starts."""
    return supervisor.Supervisor(WorkerOptions(("default",)), 1).run([signal.SIGTERM])


def worker_quiet_before_its_time() -> int:
    """Run a supervisor that is made quiet before it starts."""
    show_logs("django_redis_components", 1)
    return supervisor.Supervisor(WorkerOptions(("default",)), 1).run(quiets=[signal.SIGUSR1])


def worker_that_tells(port: int, file: str) -> int:
    """Run a worker that reports its health, and is unhealthy soon after the last reply."""
    show_logs("django_redis_components", 1)
    health.MAX_NO_REPLY_S = 1.0
    return run_worker(WorkerOptions(("default",)), print, health_address=("", port), health_file=Path(file))


def worker_as_subreaper() -> int:
    """Run a worker that adopts orphans, as process 1 of a container does."""
    show_logs("django_redis_components", 1)
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    return run_worker(WorkerOptions(("default",)), print)


def worker_of_a_site_with_a_process() -> int:
    """Run a worker of a site that has started a process before, and waits for it afterwards."""
    own = subprocess.Popen(["sleep", "600"])
    print("own process", own.pid, flush=True)
    code = run_worker(WorkerOptions(("default",)), print)
    print("own process ended with", own.wait(), flush=True)
    return code


def worker_as_subreaper_of_a_site_with_a_process() -> int:
    """Run that worker, and let it adopt orphans."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    return worker_of_a_site_with_a_process()

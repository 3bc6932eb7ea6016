"""`drain()`: run what stands in a real Redis, in this thread."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
from collections.abc import Sequence

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Flow, Read, run
from django_redis_components.core.units import Seconds, to_seconds
from django_redis_components.taskqueue import NotScheduled, TaskResult, registry
from django_redis_components.taskqueue.stats import overview as stats
from django_redis_components.taskqueue.store import queues as control
from django_redis_components.taskqueue.store import tasks as store
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.testing.failures import Failures

#: Tasks after which `drain` gives up, unless it is told otherwise.
LIMIT = 1_000


def drain(
    *queues: str,
    advance: Seconds | bool = False,
    raise_errors: bool = True,
    limit: int = LIMIT,
    using: str = "default",
) -> list[TaskResult]:
    """Run all that is ready in these queues (without names: in all), and what that sends, in this thread.

    Args:
        queues: in strict order, as for `runworker`.
        advance: run scheduled tasks and further attempts too, in order of their time: those that fall due in so
            many seconds, or with True all.
        raise_errors: whether to raise what a task raised as soon as one has finally failed.
        limit: runs after which something seems to send itself without end.

    Returns:
        The results of the tasks that ran, in the order in which they first began; without those that have expired.

    Raises:
        RuntimeError: the limit is reached.
        redis.exceptions.RedisError: Redis did not answer.
    """
    client = connections.client(using)
    names = [keys.validate_name(queue, "queue name") for queue in queues] or [
        depth.name for depth in run(client, stats.read_depths())
    ]
    until_ms = run(client, _horizon(advance))
    worker = Fetcher(client, f"drain:{os.getpid()}:{secrets.token_hex(4)}", names)
    ran: dict[str, Job] = {}
    for _ in range(limit):
        jobs = worker.fetch("0", 1)
        if not jobs:
            if run(client, _let_next_begin(names, until_ms)):
                continue
            return run(client, _results(list(ran.values()), using))
        ran.setdefault(jobs[0].id, jobs[0])
        _run(worker, jobs[0], raise_errors)
    worker.fetch("acks", 0)
    raise RuntimeError(f"drain() has run {limit:,} tasks, and there are more: does one send itself? See limit=….")


def _run(worker: Fetcher, job: Job, raise_errors: bool) -> None:
    with Failures() as failures:
        worker.settle(execute(job))
    raised = failures.of(job.id)
    if raised is not None and raise_errors:
        worker.fetch("acks", 0)
        raise raised


def _horizon(advance: Seconds | bool) -> Flow[float]:
    """Until when tasks count as due, in milliseconds since the epoch; 0: as the server says."""
    if advance is False:
        return 0.0
    if advance is True:
        return float("inf")
    seconds, micros = yield Read("TIME", key=base_key())
    return int(seconds) * 1_000 + int(micros) / 1_000 + to_seconds(advance, "advance", zero=True) * 1_000


def _let_next_begin(queues: Sequence[str], until_ms: float) -> Flow[bool]:
    """Let the scheduled task begin that is the first to fall due until then; whether there is one."""
    if not until_ms or not queues:
        return False
    heads = yield Batch([Read("ZRANGE", f"{base_key()}:q:{queue}:sched", 0, 0, "WITHSCORES") for queue in queues])
    due = sorted((float(head[1]), head[0].decode()) for head in heads if head)
    if not due or math.ceil(due[0][0]) > until_ms:
        return False
    with contextlib.suppress(NotScheduled):  # another worker has it
        yield from control.reschedule(due[0][1], "")
    return True


def _results(jobs: Sequence[Job], using: str) -> Flow[list[TaskResult]]:
    found = yield from store.read_many([job.id for job in jobs])
    return [
        TaskResult(registry.find(job.name), job.name, job.id, using, *read)
        for job, read in zip(jobs, found, strict=True)
        if read is not None
    ]

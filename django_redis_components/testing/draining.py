"""`drain()`: run the ready tasks of a real Redis server in this thread."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
from collections.abc import Sequence

from django_redis_components.core import keys
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.units import Seconds, to_seconds
from django_redis_components.taskqueue import NotScheduled, TaskResult, registry
from django_redis_components.taskqueue.fields import Part, Turn
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.stats import queue_stats
from django_redis_components.taskqueue.store import task_control, task_records
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker.batch_execution import execute_leased
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.sharded_fetcher import ShardedFetcher
from django_redis_components.testing.failures import FailureRecorder

#: Default number of runs after which `drain` raises. Without a limit, a task that enqueues itself would never end.
DEFAULT_LIMIT = 1_000


def drain(
    *queues: str,
    advance: Seconds | bool = False,
    raise_errors: bool = True,
    limit: int = DEFAULT_LIMIT,
    using: str = "default",
) -> list[TaskResult]:
    """Run all ready tasks of the queues, and the tasks that these enqueue, in this thread.

    Args:
        queues: names in strict order, as for `runworker`; without names, all queues.
        advance: also run scheduled tasks and retries that are due within this many seconds, in order of due time;
            True runs all of them.
        raise_errors: whether to raise the exception of the first task that fails for good.
        limit: maximum number of runs.

    Returns:
        The results of the tasks that ran, in the order of their first start, without those that have expired.

    Raises:
        RuntimeError: the limit was reached and tasks are still ready.
        redis.exceptions.RedisError: Redis did not answer.
    """
    shards = shards_of(using)
    names = [keys.validate_name(queue, "queue name") for queue in queues] or list(
        dict.fromkeys(depth.name for shard in shards for depth in shard.run(queue_stats.read_depths(shard)))
    )
    until_ms = shards[0].run(_advance_until(shards[0], advance))
    fetcher = _new_fetcher(shards, names)
    ran: dict[str, Job] = {}
    for _ in range(limit):
        jobs = _fetch(fetcher, shards)
        if not jobs:
            if any(shard.run(_start_batches(shard, names)) for shard in shards) or any(
                shard.run(_release_next_scheduled(shard, names, until_ms)) for shard in shards
            ):
                continue
            return _results(shards, list(ran.values()))
        for job in (jobs[0], *jobs[0].others):
            ran.setdefault(job.id, job)
        _run(fetcher, jobs[0], raise_errors)
    fetcher.fetch("acks", 0)
    raise RuntimeError(
        f"drain() ran {limit:,} tasks and more are ready. A task may enqueue itself; otherwise pass a higher limit."
    )


def _new_fetcher(shards: Sequence[Shard], queues: Sequence[str]) -> Fetcher | ShardedFetcher:
    worker = f"drain:{os.getpid()}:{secrets.token_hex(4)}"
    if len(shards) == 1:
        return Fetcher(shards[0], shards[0].client(), worker, queues)
    return ShardedFetcher(shards, worker, queues)


def _fetch(fetcher: Fetcher | ShardedFetcher, shards: Sequence[Shard]) -> list[Job]:
    """Fetch a job. A task that has just run may have enqueued others, in any shard."""
    if isinstance(fetcher, ShardedFetcher):
        for shard in shards:
            fetcher.note_wakeup(shard)
    return fetcher.fetch("0", 1)


def _run(fetcher: Fetcher | ShardedFetcher, job: Job, raise_errors: bool) -> None:
    with FailureRecorder() as failures:
        outcomes = execute_leased(job)
        for each, ack in outcomes:
            fetcher.settle_run(each, ack)
    raised = next(filter(None, [failures.of(each.id) for each, _ in outcomes]), None)
    if raised is not None and raise_errors:
        fetcher.fetch("acks", 0)
        raise raised


def _advance_until(shard: Shard, advance: Seconds | bool) -> Flow[float]:
    """Return the time until which tasks count as due, in milliseconds since the epoch; 0 means the server's time."""
    if advance is False:
        return 0.0
    if advance is True:
        return float("inf")
    seconds, micros = yield Read("TIME", key=shard.base)
    return int(seconds) * 1_000 + int(micros) / 1_000 + to_seconds(advance, "advance", zero=True) * 1_000


def _start_batches(shard: Shard, queues: Sequence[str]) -> Flow[bool]:
    """Start the batches that wait for further calls: these are ready; return whether there was one."""
    found = yield Batch(
        [Read("ZRANGEBYSCORE", shard.queue(queue, Part.turns), Turn.filling, "+inf") for queue in queues]
    )
    started = False
    for queue, groups in zip(queues, found, strict=True):
        for group in groups:
            yield Command("ZADD", shard.queue(queue, Part.turns), "XX", 0, group, retry=True)
            started = True
    return started


def _release_next_scheduled(shard: Shard, queues: Sequence[str], until_ms: float) -> Flow[bool]:
    """Make the first scheduled task that is due by `until_ms` ready; return whether there was one."""
    if not until_ms or not queues:
        return False
    heads = yield Batch([Read("ZRANGE", shard.queue(queue, Part.scheduled), 0, 0, "WITHSCORES") for queue in queues])
    due = sorted((float(head[1]), head[0].decode()) for head in heads if head)
    if not due or math.ceil(due[0][0]) > until_ms:
        return False
    with contextlib.suppress(NotScheduled):  # another worker has fetched it
        yield from task_control.reschedule(shard, due[0][1], "")
    return True


def _results(shards: Sequence[Shard], jobs: Sequence[Job]) -> list[TaskResult]:
    """Return the results, in the order of the jobs."""
    found: dict[str, TaskResult] = {}
    for shard in shards:
        mine = [job for job in jobs if job.shard in (None, shard)]
        found |= {result.id: result for result in shard.run(_results_in(shard, mine))}
    return [found[job.id] for job in jobs if job.id in found]


def _results_in(shard: Shard, jobs: Sequence[Job]) -> Flow[list[TaskResult]]:
    found = yield from task_records.read_many(shard, [job.id for job in jobs])
    return [
        TaskResult(registry.find(job.name), job.name, job.id, shard, *read)
        for job, read in zip(jobs, found, strict=True)
        if read is not None
    ]

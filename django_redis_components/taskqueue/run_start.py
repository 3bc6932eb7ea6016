"""The result of a task whose run is about to start, and its context."""

from __future__ import annotations

from typing import Any

from redis.exceptions import RedisError

from django_redis_components.taskqueue import logs
from django_redis_components.taskqueue.context import TaskContext
from django_redis_components.taskqueue.exceptions import TaskQueueError
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store import task_records
from django_redis_components.taskqueue.store.job import Job

#: The fields of a record, and its errors.
Record = tuple[task_records.Fields, list[bytes]]


def result_of_run(task: Any, job: Job, using: str) -> tuple[TaskResult, TaskContext | None]:
    """Return the result of a task whose run is about to start, and the context if its function takes one."""
    found = read_record(job, using) if _needs_record(task, job) else None
    return _result_of(task, job, using, found)


async def aresult_of_run(task: Any, job: Job, using: str) -> tuple[TaskResult, TaskContext | None]:
    """See `result_of_run`."""
    found = await aread_record(job, using) if _needs_record(task, job) else None
    return _result_of(task, job, using, found)


def _has_context(task: Any) -> bool:
    return task.takes_context and task.own_middleware is None


def _needs_record(task: Any, job: Job) -> bool:
    return _has_context(task) or job.runs > 0


def _result_of(task: Any, job: Job, using: str, found: Record | None) -> tuple[TaskResult, TaskContext | None]:
    fields, failures = found or (record_from_job(job), [])
    result: TaskResult = TaskResult(task, job.name, job.id, job.shard or home(using), fields, failures)
    if not _has_context(task):
        return result, None
    return result, TaskContext(result, job, result.metadata if found else None)


def read_record(job: Job, using: str) -> Record | None:
    """The record and the failures of a job that is about to run; None if Redis cannot be read."""
    try:
        shard = job.shard or home(using)
        return shard.run(task_records.read(shard, job.id))
    except (RedisError, TaskQueueError) as exc:
        _log_unread(job, exc)
        return None


async def aread_record(job: Job, using: str) -> Record | None:
    """See `read_record`."""
    try:
        shard = job.shard or home(using)
        return await shard.arun(task_records.read(shard, job.id))
    # Tested; but Python 3.11 stops tracing a frame that an error reaches through nested generators.
    except (RedisError, TaskQueueError) as exc:  # pragma: no cover
        _log_unread(job, exc)
        return None


def _log_unread(job: Job, exc: BaseException) -> None:
    text = "The earlier runs of task %s of %s cannot be read (%s)."
    logger.warning(text, job.id, job.name, exc, extra=logs.facts(job))


def record_from_job(job: Job) -> task_records.Fields:
    """A record made from the job alone: the number of earlier runs is known, their workers are not."""
    return {
        Field.queue: job.queue.encode(),
        Field.body: job.body,
        Field.state: b"running",
        Field.enqueued_at_us: str(job.enqueued_us).encode(),
        Field.first_leased_at_us: str(job.started_us).encode(),
        Field.leased_at_us: str(job.leased_us).encode(),
        Field.lease: job.token.encode(),
        Field.worker_ids: b",".join([b"unknown"] * job.runs),
        Field.attempts: str(job.attempts).encode(),
        Field.runs: str(job.runs).encode(),
    }

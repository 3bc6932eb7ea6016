"""The context of a run: what a task reports while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.protocol import Flow
from django_redis_components.core.slot_waits import slot_wait_limit
from django_redis_components.taskqueue import logs
from django_redis_components.taskqueue.exceptions import LeaseLost, TaskQueueError, TaskResultDoesNotExist
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.flows.member_flow import MemberFlow
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.record import Progress, check_metadata, check_progress, encode_metadata
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.shards import Shard, home
from django_redis_components.taskqueue.store import task_records
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.store.scripts import SAVE_METADATA

#: Progress writes that may follow each other without a pause.
BURST = 3
#: Seconds in which one more write is allowed.
REFILL_S = 0.5
#: Seconds that a progress write waits for a Cluster slot that is being migrated; the next write includes it.
SLOT_WAIT_S = 1.0


class TaskContext:
    """One run of a task.

    Attributes:
        task_result: the result, as it was when the run began.
        attempt: the number of this attempt, from 1; runs that raised an exception count, as for `max_attempts`.
        run: the number of this run, from 1; all runs count, also those that were delayed or lost their worker.
    """

    def __init__(self, task_result: TaskResult, job: Job, metadata: dict[str, Any] | None) -> None:
        """
        Args:
            job: the leased task.
            metadata: the stored metadata; None if it could not be read.
        """
        self.task_result = task_result
        self._shard = task_result._shard
        self.attempt, self.run = job.attempts + 1, job.runs + 1
        self._token = job.token
        self._metadata = metadata
        self._saved = dict(metadata or {})
        self._progress = task_result.progress
        self._limiter = WriteLimiter()
        self._is_pending = False
        self._is_lost = False
        self._flow: MemberFlow | None = None

    @property
    def flow(self) -> MemberFlow:
        """The flow of the task; `flow.add(…)` adds tasks to its group."""
        if self._flow is None:
            self._flow = MemberFlow(self._shard, self.task_result.id, self._token, self._read_flow_ref)
        return self._flow

    @property
    def metadata(self) -> dict[str, Any]:
        """The task's metadata. Change it and call `save_metadata()`; the next run receives it."""
        if self._metadata is None:
            self._load(self._shard.run(task_records.read(self._shard, self.task_result.id)))
        found: dict[str, Any] = self._metadata or {}
        self._metadata = found
        return found

    def save_metadata(self) -> None:
        """Save `metadata`; `TaskResult.metadata` returns it.

        Raises:
            TypeError, ValueError: it is not JSON, or larger than 64 KiB.
            LeaseLost: the run has lost its lease; the task may be running on another worker.
            redis.exceptions.RedisError: Redis did not answer.
        """
        plain = check_metadata(self.metadata)
        self._set_saved(plain, is_leased=self._shard.run(self._save(plain)))

    async def asave_metadata(self) -> None:
        """See `save_metadata`."""
        plain = check_metadata(self.metadata)
        is_leased = await self._shard.arun(self._save(plain))
        self._set_saved(plain, is_leased=is_leased)

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Report progress; `TaskResult.progress` returns it.

        It may be called any number of times: about two calls per second are written, and the last one at the latest
        when the run finishes. Errors of Redis are logged and never fail the task.

        Raises:
            TypeError, ValueError: an argument is not accepted.
        """
        if self._set_progress(check_progress(done, total, note)):
            self._flush()

    async def aprogress(self, done: float, total: float | None = None, note: str = "") -> None:
        """See `progress`."""
        if self._set_progress(check_progress(done, total, note)):
            try:
                with slot_wait_limit(SLOT_WAIT_S):
                    is_leased = await self._shard.arun(self._save())
            # Tested; but Python 3.11 stops tracing a frame that an error reaches through nested generators.
            except RedisError as exc:  # pragma: no cover
                self._log_failed_write(exc)
            else:
                self._set_written(is_leased=is_leased)

    def is_cancelled(self) -> bool:
        """Whether cancellation was requested. Must be called in the function's own thread, or in its coroutine."""
        current = logs.current_run.get(None)
        return current is not None and current.cancel_asked

    def _flush(self) -> None:
        """Write pending progress."""
        if not self._is_pending or self._is_lost:
            return
        try:
            with slot_wait_limit(SLOT_WAIT_S):
                is_leased = self._shard.run(self._save())
        except RedisError as exc:
            self._log_failed_write(exc)
        else:
            self._set_written(is_leased=is_leased)

    def _set_progress(self, progress: Progress) -> bool:
        """Set the progress; whether it should be written now."""
        self._progress, self._is_pending = progress, True
        return not self._is_lost and self._limiter.allows()

    def _save(self, metadata: dict[str, Any] | None = None) -> Flow[bool]:
        """Write progress with this metadata, or with the metadata saved last; whether the run still has its lease."""
        if self._metadata is None:  # it could not be read when the run began
            try:
                self._load((yield from task_records.read(self._shard, self.task_result.id)))
            except TaskResultDoesNotExist:  # deleted meanwhile, and the lease with it
                return False
        encoded = encode_metadata(self._saved if metadata is None else metadata, self._progress)
        return (yield from _save(self._shard, self.task_result.id, self._token, encoded))

    def _read_flow_ref(self) -> Flow[str]:
        """Return "flow/number" of the task; "" if it is in no flow."""
        if self._metadata is None:  # the record could not be read when the run began
            self._load((yield from task_records.read(self._shard, self.task_result.id)))
        return self.task_result._fields.get(Field.flow_ref, b"").decode()

    def _set_saved(self, metadata: dict[str, Any], *, is_leased: bool) -> None:
        if not is_leased:
            self._is_lost = True
            raise LeaseLost(self.task_result.id)
        self._saved, self._is_pending = metadata, False

    def _set_written(self, *, is_leased: bool) -> None:
        self._is_pending = False
        if not is_leased:
            self._is_lost = True
            logger.warning("The progress of task %s was discarded: the run has lost its lease.", self.task_result.id)

    def _log_failed_write(self, exc: RedisError) -> None:
        logger.warning("The progress of task %s could not be written (%s).", self.task_result.id, exc)

    def _load(self, record: tuple[task_records.Fields, list[bytes]]) -> None:
        self.task_result._load(*record)
        self._metadata = self.task_result.metadata
        self._saved = dict(self._metadata)


class WriteLimiter:
    """A token bucket for writes."""

    def __init__(self) -> None:
        self._tokens = float(BURST)
        self._refilled_at = time.monotonic()

    def allows(self) -> bool:
        """Take a token; whether there was one."""
        now = time.monotonic()
        self._tokens = min(float(BURST), self._tokens + (now - self._refilled_at) / REFILL_S)
        self._refilled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


@lru_cache(maxsize=1_024)
def without_context(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function without its first parameter, the context."""
    without = partial(func, None)
    without.__qualname__ = func.__qualname__  # type: ignore[attr-defined]
    return without


def result_of_run(task: Any, job: Job, using: str) -> tuple[TaskResult, TaskContext | None]:
    """Return the result of a task whose run is about to start, and the context if its function takes one."""
    takes_context = task.takes_context and task.own_middleware is None
    found = read_record(job, using) if takes_context or job.runs else None
    fields, failures = found or (record_from_job(job), [])
    result: TaskResult = TaskResult(task, job.name, job.id, home(using), fields, failures)
    if not takes_context:
        return result, None
    return result, TaskContext(result, job, result.metadata if found else None)


def read_record(job: Job, using: str) -> tuple[task_records.Fields, list[bytes]] | None:
    """The record and the failures of a job that is about to run; None if Redis cannot be read."""
    try:
        shard = home(using)
        return shard.run(task_records.read(shard, job.id))
    except (RedisError, TaskQueueError) as exc:
        text = "The earlier runs of task %s of %s cannot be read (%s)."
        logger.warning(text, job.id, job.name, exc, extra=logs.facts(job))
        return None


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


def _save(shard: Shard, task_id: str, token: str, encoded: bytes) -> Flow[bool]:
    """Write the metadata field if the task is still leased under this token; whether it was."""
    is_leased = yield SAVE_METADATA(record=shard.record(task_id), token=token, metadata=encoded)
    return bool(is_leased)

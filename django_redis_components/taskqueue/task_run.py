"""One run of a task in a worker, as context and signals see it."""

from __future__ import annotations

import logging
import time
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core import serialization as arguments
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import logs, signals
from django_redis_components.taskqueue.context import TaskContext
from django_redis_components.taskqueue.exceptions import TaskQueueError
from django_redis_components.taskqueue.failure import describe
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.store import tasks as store
from django_redis_components.taskqueue.store.job import Job

logger = logging.getLogger("django_redis_components.taskqueue")


class ObservedAttempt:
    """A run that has a context, or that somebody listens to.

    Attributes:
        args: what the function is called with.
    """

    __slots__ = ("_context", "_job", "_payload", "_result", "args")
    logs_failure = False

    def __init__(self, task: Any, job: Job, args: list[Any]) -> None:
        """Args: task: the registered `task.Task`."""
        ran_before = job.attempts or job.deliveries
        found = recorded(job, task.connection) if task.takes_context or ran_before else None
        fields, failures = found or (guessed(job), [])
        self._result = TaskResult(task, job.name, job.id, task.connection, fields, failures)
        self._job = job
        self._payload = b""
        self._context: TaskContext | None = None
        self.args = args
        if task.takes_context:
            metadata = self._result.metadata if found else None
            self._context = TaskContext(self._result, job.attempts + job.deliveries + 1, job.token, metadata)
            self.args = [self._context, *args]
        with logs.about(job):
            signals.tell(signals.task_started, self._result)

    def returned(self, value: Any) -> Any:
        """The value as it is; what receivers will read of it is made now, and may be refused."""
        if signals.task_finished.receivers:
            self._payload = arguments.encode(arguments.normalise(value, "the return value"))
        return value

    def ended(self, outcome: str, exc: BaseException | None) -> None:
        """Write what progress waits, and tell receivers."""
        with logs.about(self._job):
            if self._context is not None:
                self._context.flush()
            self._tell(outcome, exc)

    def _tell(self, outcome: str, exc: BaseException | None) -> None:
        if outcome == "ok":
            self._tell_end(b"successful", self._payload)
        elif outcome == "fail" and exc is not None:
            self._tell_end(b"failed", b"", exc)
        elif outcome == "retry" and signals.task_retrying.receivers:
            self._result._add_run({"s": b"retrying"}, _failure(exc))
            signals.tell(signals.task_retrying, self._result, exception=exc)

    def _tell_end(self, state: bytes, payload: bytes, exc: BaseException | None = None) -> None:
        if signals.task_finished.receivers:
            self._result._add_run({"s": state, "r": payload, "F": str(time.time_ns() // 1_000).encode()}, _failure(exc))
            signals.tell(signals.task_finished, self._result)


def recorded(job: Job, connection: str) -> tuple[store.Fields, list[bytes]] | None:
    """What Redis knows of a job that is about to run; None if it cannot be read."""
    try:
        return run(connections.client(connection), store.read(job.id))
    except (RedisError, TaskQueueError) as exc:
        said = "The earlier attempts of task %s of %s cannot be read (%s)."
        logger.warning(said, job.id, job.name, exc, extra=logs.facts(job))
        return None


def guessed(job: Job) -> store.Fields:
    """A record as far as the job itself tells: who ran it before is unknown, but how often is not."""
    return {
        "q": job.queue.encode(),
        "b": job.body,
        "s": b"running",
        "e": str(job.enqueued_us).encode(),
        "f": str(job.started_us).encode(),
        "l": str(job.leased_us).encode(),
        "L": job.token.encode(),
        "w": b",".join([b"unknown"] * (job.attempts + job.deliveries)),
    }


def _failure(exc: BaseException | None) -> list[bytes]:
    return [] if exc is None else [arguments.encode(describe(exc))]

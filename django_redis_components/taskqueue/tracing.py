"""The interface of distributed tracing: the context of a trace travels with the arguments of a task.

Nothing is imported and no context is sent unless `tracer` is set; see `contrib.opentelemetry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Protocol

from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.store.messages import TRACE_KEY

#: Shared by all runs while tracing is off.
NO_SPAN: AbstractContextManager[None] = nullcontext()


class Tracer(Protocol):
    """Creates spans."""

    def create(self, name: str, queue: str, task_id: str) -> dict[str, str]:
        """Record that a task is created; return the context that travels with it."""
        ...

    def process(self, job: Job, carrier: Mapping[str, str]) -> AbstractContextManager[None]:
        """Return the span of a run, given the context that traveled with the task."""
        ...

    def flush(self) -> None:
        """Export the spans that have ended."""
        ...


#: The tracer of this process, or None.
tracer: Tracer | None = None


def created(name: str, queue: str, task_id: str) -> dict[str, Any]:
    """Return the options that carry the trace context. An error of the tracer is logged."""
    try:
        carrier = tracer.create(name, queue, task_id) if tracer is not None else {}
    except Exception:
        logger.exception("The creation of task %s could not be traced.", task_id)
        carrier = {}
    return {TRACE_KEY: carrier} if carrier else {}


def span_of(job: Job, options: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return the span of a run. Errors of the tracer and of the span are logged, and change nothing."""
    carrier = options.get(TRACE_KEY)
    try:
        if tracer is not None:
            return _GuardedSpan(tracer.process(job, carrier if isinstance(carrier, dict) else {}), job.id)
    except BaseException:
        logger.exception("The run of task %s could not be traced.", job.id)
    return NO_SPAN


class _GuardedSpan(AbstractContextManager[None]):
    """A span whose errors are logged: the outcome of the run is that of the task's function."""

    def __init__(self, span: AbstractContextManager[None], task_id: str) -> None:
        self._span = span
        self._task_id = task_id

    def __enter__(self) -> None:
        try:
            self._span.__enter__()
        except BaseException:
            self._span = NO_SPAN
            logger.exception("The run of task %s could not be traced.", self._task_id)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._span.__exit__(kind, exc, trace)
        except BaseException as error:
            if error is not exc:
                logger.exception("The run of task %s could not be traced.", self._task_id)


def flush() -> None:
    """Export the spans that have ended, before this process exits without exit handlers. An error is logged."""
    try:
        if tracer is not None:
            tracer.flush()
    except BaseException:
        logger.exception("The last spans could not be exported.")

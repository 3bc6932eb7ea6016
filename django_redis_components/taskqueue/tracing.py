"""The interface of distributed tracing: the context of a trace travels with the arguments of a task.

Nothing is imported and no context is sent unless `tracer` is set; see `contrib.opentelemetry`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.store.messages import TRACE_KEY

logger = logging.getLogger("django_redis_components.taskqueue")

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
    """Return the span of a run. An error of the tracer is logged."""
    carrier = options.get(TRACE_KEY)
    try:
        if tracer is not None:
            return tracer.process(job, carrier if isinstance(carrier, dict) else {})
    except Exception:
        logger.exception("The run of task %s could not be traced.", job.id)
    return NO_SPAN


def flush() -> None:
    """Export the spans that have ended, before this process exits without exit handlers. An error is logged."""
    try:
        if tracer is not None:
            tracer.flush()
    except Exception:
        logger.exception("The last spans could not be exported.")

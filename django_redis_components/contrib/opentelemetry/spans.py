"""Spans by the semantic conventions for messaging (in development): "create" for a task, "process" for a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

import django_redis_components
from django_redis_components.core.exception_text import safe_text
from django_redis_components.core.exceptions import TaskDelayed
from django_redis_components.taskqueue.exceptions import TaskCancelled
from django_redis_components.taskqueue.states import Outcome
from django_redis_components.taskqueue.store.job import Job

#: `messaging.system` of all spans.
SYSTEM = "django_redis_components"
#: Longest wait for the exporter when a worker process exits, in milliseconds.
FLUSH_MS = 5_000
#: Exceptions that end a run and are no errors, with their value of `redis_components.task.outcome`.
_NO_ERRORS: dict[type[BaseException], str] = {
    TaskDelayed: Outcome.delayed.value,
    TaskCancelled: Outcome.cancelled.value,
}


class SpanTracer:
    """Creates the spans; see `taskqueue.tracing.Tracer`."""

    def __init__(self, tracer_provider: Any = None) -> None:
        version = django_redis_components.__version__
        self._provider = tracer_provider
        self._tracer = trace.get_tracer("django_redis_components", version, tracer_provider)

    def create(self, name: str, queue: str, task_id: str) -> dict[str, str]:
        """Record a span of kind PRODUCER; return its context, as the propagators of the site encode it."""
        carrier: dict[str, str] = {}
        attributes = _attributes("create", name, queue, task_id)
        with self._tracer.start_as_current_span(f"create {queue}", kind=SpanKind.PRODUCER, attributes=attributes):
            inject(carrier)
        return carrier

    def process(self, job: Job, carrier: Mapping[str, str]) -> AbstractContextManager[None]:
        """Start a span of kind CONSUMER: a child of the "create" span with a link to it, one for each run."""
        parent = extract(carrier)
        created = trace.get_current_span(parent).get_span_context()
        attributes = _attributes("process", job.name, job.queue, job.id)
        attributes |= {"redis_components.task.attempt": job.attempts + 1, "redis_components.task.run": job.runs + 1}
        links = [Link(created)] if created.is_valid else []
        span = self._tracer.start_span(
            f"process {job.queue}", context=parent, kind=SpanKind.CONSUMER, attributes=attributes, links=links
        )
        return _running(span)

    def flush(self) -> None:
        """Export the spans that have ended, within some seconds."""
        flush = getattr(self._provider or trace.get_tracer_provider(), "force_flush", None)
        if flush is not None:
            flush(FLUSH_MS)


@contextmanager
def _running(span: Span) -> Iterator[None]:
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except BaseException as exc:
            _record(span, exc)
            raise


def _attributes(operation: str, name: str, queue: str, task_id: str) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": queue,
        "messaging.message.id": task_id,
        "redis_components.task.name": name,
    }


def _record(span: Span, exc: BaseException) -> None:
    for kind, outcome in _NO_ERRORS.items():
        if isinstance(exc, kind):
            span.set_attribute("redis_components.task.outcome", outcome)
            return
    span.set_attribute("error.type", _name_of(type(exc)))
    span.set_status(Status(StatusCode.ERROR, f"{type(exc).__name__}: {safe_text(exc)}"))
    span.record_exception(exc)  # last: it formats the exception, which may raise


def _name_of(kind: type[BaseException]) -> str:
    """Return the name as OpenTelemetry writes it into the event of an exception."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"

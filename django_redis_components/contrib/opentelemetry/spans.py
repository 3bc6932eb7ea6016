"""Spans by the semantic conventions for messaging (in development): "create" for a task, "process" for a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any

from opentelemetry import trace
from opentelemetry.propagate import extract, inject
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

import django_redis_components
from django_redis_components.core.exception_text import class_module, class_name, class_path, safe_text
from django_redis_components.core.exceptions import TaskDelayed
from django_redis_components.taskqueue.exceptions import TaskCancelled, TaskInterrupted
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.middleware import Middleware, NewTask, RunContext, WorkerDescription
from django_redis_components.taskqueue.sealing import without_text
from django_redis_components.taskqueue.states import Outcome

#: Header with the context of the trace, as the propagators of the site encode it.
TRACE_KEY = "trace"
#: `messaging.system` of all spans.
SYSTEM = "django_redis_components"
#: Longest wait for the exporter when a worker process exits, in milliseconds.
FLUSH_MS = 5_000
#: Exceptions that end a run and are no errors, with their value of `redis_components.task.outcome`.
_NO_ERRORS: dict[type[BaseException], str] = {
    TaskDelayed: Outcome.delayed.value,
    TaskCancelled: Outcome.cancelled.value,
    TaskInterrupted: Outcome.interrupted.value,
}


class TraceTasks(Middleware):
    """Creates the spans. Errors of OpenTelemetry are logged, and change neither a task nor its run."""

    def __init__(self, tracer_provider: Any = None) -> None:
        version = django_redis_components.__version__
        self._provider = tracer_provider
        self._tracer = trace.get_tracer("django_redis_components", version, tracer_provider)

    def before_enqueue(self, task: NewTask) -> None:
        """Record a span of kind PRODUCER, whose context travels with the task."""
        try:
            carrier: dict[str, str] = {}
            attributes = _attributes("create", task.name, task.queue_name, task.id)
            name = f"create {task.queue_name}"
            with self._tracer.start_as_current_span(name, kind=SpanKind.PRODUCER, attributes=attributes):
                inject(carrier)
            if carrier:
                task.headers[TRACE_KEY] = carrier
        except Exception:
            logger.exception("The creation of task %s could not be traced.", task.id)

    def around_run(self, run: RunContext, call_next: Callable[[], Any]) -> Any:
        """Surround the run with a span of kind CONSUMER, a child of the "create" span with a link to it."""
        with self._span_of(run):
            return call_next()

    async def aaround_run(self, run: RunContext, call_next: Callable[[], Awaitable[Any]]) -> Any:
        """See `around_run`."""
        with self._span_of(run):
            return await call_next()

    def on_process_stop(self, process: WorkerDescription) -> None:
        """Export the spans that have ended, within some seconds."""
        flush = getattr(self._provider or trace.get_tracer_provider(), "force_flush", None)
        if flush is not None:
            flush(FLUSH_MS)

    def _span_of(self, run: RunContext) -> AbstractContextManager[None]:
        try:
            return _GuardedSpan(self._start_span(run), run.id)
        except BaseException:
            logger.exception("The run of task %s could not be traced.", run.id)
            return nullcontext()

    def _start_span(self, run: RunContext) -> AbstractContextManager[None]:
        carrier = run.headers.get(TRACE_KEY)
        parent = extract(carrier if isinstance(carrier, dict) else {})
        created = trace.get_current_span(parent).get_span_context()
        attributes = _attributes("process", run.name, run.queue_name, run.id)
        attributes |= {"redis_components.task.attempt": run.attempt, "redis_components.task.run": run.number}
        links = [Link(created)] if created.is_valid else []
        span = self._tracer.start_span(
            f"process {run.queue_name}", context=parent, kind=SpanKind.CONSUMER, attributes=attributes, links=links
        )
        return _running(span, is_sealed=run._job.is_sealed)


class _GuardedSpan(AbstractContextManager[None]):
    """A span whose errors are logged: the outcome of the run is that of the task's function."""

    def __init__(self, span: AbstractContextManager[None], task_id: str) -> None:
        self._span = span
        self._task_id = task_id

    def __enter__(self) -> None:
        try:
            self._span.__enter__()
        except BaseException:
            self._span = nullcontext()
            logger.exception("The run of task %s could not be traced.", self._task_id)

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._span.__exit__(kind, exc, trace)
        except BaseException as error:
            if error is not exc:
                error.__suppress_context__ = True  # the exception of the run, which is logged by itself
                logger.exception("The run of task %s could not be traced.", self._task_id)


@contextmanager
def _running(span: Span, *, is_sealed: bool) -> Iterator[None]:
    with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except BaseException as exc:
            _record(span, exc, is_sealed=is_sealed)
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


def _record(span: Span, exc: BaseException, *, is_sealed: bool) -> None:
    for kind, outcome in _NO_ERRORS.items():
        if isinstance(exc, kind):
            span.set_attribute("redis_components.task.outcome", outcome)
            return
    if is_sealed:
        exc = without_text(exc)
    span.set_attribute("error.type", _name_of(type(exc)))
    span.set_status(Status(StatusCode.ERROR, f"{class_name(type(exc)).rpartition('.')[2]}: {safe_text(exc)}"))
    span.record_exception(exc)  # last: it formats the exception, which may raise


def _name_of(kind: type[BaseException]) -> str:
    """Return the name as OpenTelemetry writes it into the event of an exception."""
    return class_name(kind) if class_module(kind) == "builtins" else class_path(kind)

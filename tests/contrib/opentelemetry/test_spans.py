"""Spans continue from the code that enqueues a task to its runs, by the semantic conventions for messaging."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from django_redis_components.contrib.opentelemetry import instrument, uninstrument
from django_redis_components.taskqueue import chain
from django_redis_components.taskqueue.exceptions import TaskIdConflict
from django_redis_components.taskqueue.middleware import WorkerDescription, pipeline
from django_redis_components.taskqueue.sealing import HIDDEN_TEXT
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.taskqueue.worker.interruption import ThreadRun
from tests.architecture.sources import ROOT
from tests.support import Store, eventually, run_async, skip_missing
from tests.taskqueue.iterating.tasks import go_through
from tests.taskqueue.support import (
    base_key,
    new_fetcher,
    running_worker,
    taskqueue_settings,
    work_off,
    work_until_finished,
)
from tests.taskqueue.tasks import add, add_async, come_back, fail, fail_thrice

try:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import SpanKind, StatusCode
except ImportError:
    trace = None


class Traces:
    """The spans that have ended, and a tracer of the site."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.site = provider.get_tracer("site")
        instrument(provider)

    def named(self, name: str) -> list[Any]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def traces() -> Iterator[Traces]:
    if trace is None:
        skip_missing("opentelemetry-sdk is not installed")
    try:
        yield Traces()
    finally:
        uninstrument()


def body_of(store: Store, task_id: str) -> list[Any]:
    return json.loads(store.raw.hget(base_key(store, "t", task_id), "b"))


def test_run_is_in_the_trace_of_the_code_that_enqueued_it(redis_server: Store, traces: Traces) -> None:
    with traces.site.start_as_current_span("GET /checkout") as request:
        result = add.using(queue_name="mail").enqueue(1, 2)
    work_off("mail")

    [created], [run] = traces.named("create mail"), traces.named("process mail")
    assert created.parent.span_id == request.get_span_context().span_id
    assert run.parent.span_id == created.context.span_id
    assert run.context.trace_id == request.get_span_context().trace_id
    assert [link.context.span_id for link in run.links] == [created.context.span_id]
    assert (created.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert dict(run.attributes) == {
        "messaging.system": "django_redis_components",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": result.id,
        "redis_components.task.name": add.name,
        "redis_components.task.attempt": 1,
        "redis_components.task.run": 1,
    }
    assert created.attributes["messaging.operation.type"] == "create"
    assert run.status.status_code is StatusCode.UNSET


def test_each_retry_is_a_span_with_a_link_and_its_error(redis_server: Store, traces: Traces) -> None:
    result = fail_thrice.enqueue("out of stock")
    work_until_finished(result)

    [created], runs = traces.named("create default"), traces.named("process default")
    assert [run.attributes["redis_components.task.attempt"] for run in runs] == [1, 2, 3]
    assert len({run.context.span_id for run in runs}) == 3
    for run in runs:
        assert [link.context.span_id for link in run.links] == [created.context.span_id]
        assert run.status.status_code is StatusCode.ERROR
        [event] = run.events
        assert (event.name, event.attributes["exception.message"]) == ("exception", "out of stock")
        assert run.attributes["error.type"] == event.attributes["exception.type"]


def test_error_of_a_sealed_task_has_no_text(
    redis_server: Store,
    traces: Traces,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fernet = pytest.importorskip("cryptography.fernet")
    taskqueue_settings(settings, SEAL_KEYS=[fernet.Fernet.generate_key().decode()])
    fail.using(sealed=True).enqueue("4111-1111")
    come_back.using(sealed=True).enqueue(60)
    work_off()

    failed, delayed = traces.named("process default")
    [event] = failed.events
    assert event.attributes["exception.message"] == HIDDEN_TEXT
    assert "in fail" in event.attributes["exception.stacktrace"]
    assert failed.attributes["error.type"] == event.attributes["exception.type"] == "LookupError"
    assert "4111-1111" not in failed.to_json()
    assert delayed.attributes["redis_components.task.outcome"] == "delayed"
    monkeypatch.setattr("opentelemetry.sdk.trace.Span.record_exception", lambda *_: 1 / 0)
    fail.using(sealed=True).enqueue("4111-1111")
    work_off()
    assert "ZeroDivisionError" in caplog.text
    assert "4111-1111" not in caplog.text


def test_a_delayed_run_is_no_error(redis_server: Store, traces: Traces) -> None:
    come_back.enqueue(60)
    work_off()

    [run] = traces.named("process default")
    assert (run.status.status_code, run.events) == (StatusCode.UNSET, ())
    assert run.attributes["redis_components.task.outcome"] == "delayed"


def test_a_run_that_its_worker_has_interrupted_is_no_error(redis_server: Store, traces: Traces) -> None:
    go_through.enqueue("a", 3)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    stopped = ThreadRun(job)
    stopped.stop_asked = True

    execute(job, stopped)

    [run] = traces.named("process default")
    assert (run.status.status_code, run.events) == (StatusCode.UNSET, ())
    assert run.attributes["redis_components.task.outcome"] == "interrupted"


def test_many_tasks_a_flow_and_asynchronous_code_are_traced(redis_server: Store, traces: Traces) -> None:
    add.enqueue_many([((1, 2), {}), ((3, 4), {})])
    chain(add.s(1, 2), add.s(3)).enqueue()
    run_async(add_async.aenqueue, 1, 2)
    with running_worker():
        eventually(lambda: len(traces.named("process default")) == 5)

    created, runs = traces.named("create default"), traces.named("process default")
    assert len(created) == 5
    assert {run.parent.span_id for run in runs} == {each.context.span_id for each in created}
    assert len({run.attributes["messaging.message.id"] for run in runs}) == 5


def test_calls_with_the_same_id_are_the_same_in_different_traces(redis_server: Store, traces: Traces) -> None:
    with traces.site.start_as_current_span("first"):
        first = add.using(id="order-1").enqueue(1, 2)
    with traces.site.start_as_current_span("second"):
        again = add.using(id="order-1").enqueue(1, 2)

        with pytest.raises(TaskIdConflict):
            add.using(id="order-1").enqueue(3, 4)

    assert (again.id, again.is_duplicate) == (first.id, True)


def test_a_task_carries_a_context_only_while_tracing_is_on(redis_server: Store, traces: Traces) -> None:
    traced = body_of(redis_server, add.enqueue(1, 2).id)
    uninstrument()
    plain = body_of(redis_server, add.enqueue(1, 2).id)

    assert list(traced[2]) == ["headers"]
    assert list(traced[2]["headers"]) == ["trace"]
    assert set(traced[2]["headers"]["trace"]) == {"traceparent"}
    assert plain == [[1, 2], {}]
    work_off()
    assert traces.named("process default") == []


def test_an_error_of_the_tracer_is_logged_and_the_task_runs(
    redis_server: Store, traces: Traces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the exporter is broken")

    monkeypatch.setattr("opentelemetry.sdk.trace.Tracer.start_span", refuse)
    monkeypatch.setattr("opentelemetry.sdk.trace.Tracer.start_as_current_span", refuse)

    result = add.enqueue(1, 2)
    failed = fail.enqueue()
    work_off()

    result.refresh()
    failed.refresh()
    assert (result.state, failed.state) == ("successful", "failed")
    assert "could not be traced" in caplog.text


@pytest.mark.parametrize("at", ["begin", "end"])
def test_span_that_raises_changes_no_outcome(
    redis_server: Store, traces: Traces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, at: str
) -> None:
    @contextmanager
    def broken(span: Any, **_: Any) -> Iterator[None]:
        if at == "begin":
            raise SystemExit("begin")
        try:
            yield
        finally:
            raise SystemExit("end")

    result, failed = add.enqueue(1, 2), fail.enqueue("mine")
    monkeypatch.setattr("opentelemetry.trace.use_span", broken)
    work_off()

    failed.refresh()
    assert (result.get(0), failed.errors[0].message) == (3, "mine")
    assert f"The run of task {result.id} could not be traced." in caplog.text


def test_spans_that_wait_for_export_are_exported_when_a_worker_process_exits(redis_server: Store) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=600_000))
    instrument(provider)
    try:
        add.enqueue(1, 2)
        pipeline.notify("on_process_stop", WorkerDescription("host:1", ("default",), "default"))
    finally:
        uninstrument()
        provider.shutdown()

    assert [span.name for span in exporter.get_finished_spans()] == ["create default"]


def test_opentelemetry_is_imported_by_instrument_only() -> None:
    code = (
        "import sys, django_redis_components.taskqueue.startup, django_redis_components.contrib.opentelemetry;"
        "print('django_redis_components.contrib.opentelemetry.spans' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"

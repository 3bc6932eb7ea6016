"""One task as text and as JSON, for `manage.py redis tasks show`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from django_redis_components.core.text import one_line
from django_redis_components.dashboard.json_data import fields_of
from django_redis_components.dashboard.task.reasons import reason_text
from django_redis_components.dashboard.task_class.options import option_lines
from django_redis_components.management.listings.task_listing import age, arguments_of, clock, data_of
from django_redis_components.management.tables import table
from django_redis_components.taskqueue.record import TaskRun
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.stats.explain import Explanation
from django_redis_components.taskqueue.stats.histogram import Histogram


def details(result: TaskResult, why: Explanation, *, with_arguments: bool = False) -> dict[str, Any]:
    """Return a task as JSON, with its runs, its errors and why it does not run.

    Args:
        with_arguments: whether to add arguments and return value, which may be confidential.
    """
    progress = result.progress
    data = data_of(result, with_arguments=with_arguments) | {
        "is_registered": result.task is not None,
        "expires_at": result.expires_at,
        "enqueued_by": result.origin._asdict() if result.origin else None,
        "reasons": [fields_of(reason) for reason in why.reasons],
        "versions": dict(why.versions),
        "progress": dataclasses.asdict(progress) if progress else None,
        "cursor": result.cursor._asdict() if result.cursor else None,
        "batch_size": result.batch_size,
        "metadata": result.metadata,
        "runs": [dataclasses.asdict(run) for run in result.timeline],
        "errors": [dataclasses.asdict(error) for error in result.errors],
    }
    if with_arguments:
        data["return_value"] = result.return_value if result.state == "successful" else None
    return data


def describe(result: TaskResult, why: Explanation, *, with_arguments: bool = False) -> str:
    """Return a task as lines: its facts, why it does not run, its runs, and the traceback of its last error."""
    facts = [(label, value) for label, value in _facts(result, why, with_arguments) if value]
    width = max(len(label) for label, _ in facts)
    lines = [f"{label.ljust(width)}  {value}" for label, value in facts]
    if runs := result.timeline:
        rows = [_run_row(run) for run in runs]
        lines += ["", *table(("RUN", "STARTED", "DURATION", "WORKER"), rows).splitlines()]
    if errors := result.errors:
        lines += ["", *errors[-1].traceback.rstrip().splitlines()]
    return "\n".join(lines)


def options_data(task: Any) -> dict[str, Any]:
    """Return a registered task as JSON: its names, and its options with where they are from."""
    return {
        "name": task.name,
        "aliases": list(task.aliases),
        "function": task.module_path,
        "using": task.connection,
        "options": [dataclasses.asdict(line) for line in option_lines(task.name) or []],
    }


def describe_options(task: Any) -> str:
    """Return a registered task as lines: its names, and its options with where they are from."""
    facts = [("Task", task.name), ("Aliases", ", ".join(task.aliases)), ("Function", task.module_path)]
    lines = [f"{label.ljust(10)}  {value}" for label, value in [*facts, ("Connection", task.connection)] if value]
    rows = [(line.name, line.source, line.value) for line in option_lines(task.name) or []]
    return "\n".join([*lines, "", *table(("OPTION", "FROM", "VALUE"), rows).splitlines()])


def _facts(result: TaskResult, why: Explanation, with_arguments: bool) -> Iterator[tuple[str, str]]:
    yield "Task", result.name + ("" if result.task is not None else " (not registered in this process)")
    yield "ID", result.id
    yield "Queue", result.queue_name
    yield "State", result.state
    for index, reason in enumerate(why.reasons):
        yield "Also" if index else "Not running", one_line(reason_text(why, reason))
    yield "Attempts", f"{result.attempts:,}"
    yield "Enqueued", clock(result.enqueued_at)
    if origin := result.origin:
        yield "Enqueued by", one_line(f"{origin.kind} {origin.name}{f', user {origin.user}' if origin.user else ''}")
    yield "Usually", _usual(why.run_time)
    yield "Due", clock(result.run_after)
    yield "Expires", clock(result.expires_at)
    yield "Calls in its batch", f"{result.batch_size:,}" if result.batch_size else ""
    yield "Finished", clock(result.finished_at)
    yield "Flow", result.flow_id or ""
    if progress := result.progress:
        share = f" ({progress.fraction:.0%})" if progress.fraction is not None else ""
        yield "Progress", f"{progress.done:g}{share} {progress.note}".rstrip()
    if (cursor := result.cursor) and result.state != "successful" and cursor.after is not None:
        what = f"{cursor.key} {cursor.after}" if cursor.key else f"item {cursor.after:,}"
        yield "Continues after", one_line(what)
    if with_arguments:
        yield "Arguments", arguments_of(result)


def _usual(run_time: Histogram) -> str:
    """Return p50 and p99 of the tasks of the name in the last 3 hours; "" without any."""
    if run_time.p50 is None or run_time.p99 is None:
        return ""
    return f"{run_time.p50:.3g} s (p50), {run_time.p99:.3g} s (p99)"


def _run_row(run: TaskRun) -> tuple[str, ...]:
    duration = age((run.finished_at - run.started_at).total_seconds()) if run.finished_at else ""
    return run.outcome, clock(run.started_at), duration, run.worker_id

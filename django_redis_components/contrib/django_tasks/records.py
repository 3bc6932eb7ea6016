"""Converts between records of the queue and the framework's tasks and results.

The task's body has, after the arguments, headers under `HEADERS_KEY`: the backend unless it is "default", the priority
unless it is 0, the exact `run_after`, and the options that the task sets. The worker therefore needs no extra round
trip to rebuild the framework's task.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from django_redis_components.contrib.django_tasks import options
from django_redis_components.contrib.django_tasks.framework import DEFAULT_ALIAS, Framework
from django_redis_components.core import serialization
from django_redis_components.core.units import moment_of
from django_redis_components.taskqueue.failure import TaskError
from django_redis_components.taskqueue.record import TaskResultStatus
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.store.job import Job

#: Key of the headers in the body's options. Only tasks that a backend enqueued have it.
HEADERS_KEY = "django"

Headers = dict[str, Any]


def headers_of(task: Any) -> Headers:
    """Return the headers of a task of the framework."""
    headers = options.dump(task)
    if task.backend != DEFAULT_ALIAS:
        headers["backend"] = task.backend
    if task.priority:
        headers["priority"] = int(task.priority)
    if task.run_after is not None:
        headers["run_after"] = task.run_after.isoformat()
    return headers


def headers_in(body: bytes, alias: str) -> Headers:
    """Return the headers in a body. A task of the native `@task` has none and counts as enqueued by `alias`."""
    _, _, *rest = serialization.decode(body)
    headers: Headers = (rest[0] if rest else {}).get(HEADERS_KEY, {"backend": alias})
    return headers


def task_of(source: Any, queue_name: str, headers: Headers) -> Any:
    """Rebuild the task as it was enqueued.

    It is not validated again, so that a result stays readable when its queue is no longer in QUEUES.

    Args:
        source: the registered task of that name.
    """
    run_after = headers.get("run_after")
    values = {field.name: getattr(source, field.name) for field in dataclasses.fields(source)}
    values |= options.load(source, headers)
    values["queue_name"] = queue_name
    values["backend"] = headers.get("backend", DEFAULT_ALIAS)
    values["priority"] = headers.get("priority", 0)
    values["run_after"] = run_after and datetime.fromisoformat(run_after)
    made = object.__new__(type(source))
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def running(framework: Framework, task: Any, job: Job, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return the RUNNING result of a job's first run, without a request to Redis. The times are the server's."""
    return framework.result(
        task=task,
        id=job.id,
        status=framework.status.RUNNING,
        enqueued_at=moment_of(job.enqueued_us),
        started_at=moment_of(job.started_us),
        finished_at=None,
        last_attempted_at=moment_of(job.leased_us),
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=[],
        worker_ids=[job.token.partition("/")[0]],
    )


def result_of(framework: Framework, task: Any, result: TaskResult) -> Any:
    """Convert a task result to the framework's.

    The framework counts attempts by worker ids. Ids that the record no longer has become "unknown".
    """
    converted = framework.result(
        task=task,
        id=result.id,
        status=framework.status[result.status],
        enqueued_at=result.enqueued_at,
        started_at=result.started_at,
        finished_at=result.finished_at,
        last_attempted_at=result.last_attempted_at,
        args=result.args,
        kwargs=result.kwargs,
        backend=task.backend,
        errors=errors_of(framework, result.errors),
        worker_ids=[*["unknown"] * result.dropped_worker_ids, *result.worker_ids],
    )
    if result.status is TaskResultStatus.SUCCESSFUL:
        object.__setattr__(converted, "_return_value", result.return_value)
    return converted


def errors_of(framework: Framework, errors: list[TaskError]) -> list[Any]:
    """Convert task errors to the framework's."""
    return [
        framework.error(exception_class_path=error.exception_class_path, traceback=error.traceback) for error in errors
    ]

"""What a record in Redis says, as the framework's tasks and results; and back.

What the queue itself has no place for stands in the body behind the arguments, under `MARK`: the
backend unless it is "default", the priority unless it is 0, the exact `run_after`, and the options
that the task sets. So a worker has it without another round trip.
"""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.utils.timezone import make_naive

from django_redis_components.contrib.django_tasks import options
from django_redis_components.contrib.django_tasks.framework import DEFAULT_ALIAS, Framework
from django_redis_components.core import serialization as arguments
from django_redis_components.taskqueue import result as ours
from django_redis_components.taskqueue.failure import TaskError
from django_redis_components.taskqueue.record import TaskResultStatus
from django_redis_components.taskqueue.store.job import Job

#: Key of our part among what travels behind the arguments; also the sign of a task that was sent by a backend.
MARK = "django"

Carried = dict[str, Any]


def carried_of(task: Any) -> Carried:
    """What travels with a task of the framework."""
    carried = options.own(task)
    if task.backend != DEFAULT_ALIAS:
        carried["backend"] = task.backend
    if task.priority:
        carried["priority"] = int(task.priority)
    if task.run_after is not None:
        carried["run_after"] = task.run_after.isoformat()
    return carried


def carried_in(body: bytes, alias: str) -> Carried:
    """What travelled in a body. One that our own `@task` sent has nothing: it counts as sent by `alias`."""
    _, _, *rest = arguments.decode(body)
    carried: Carried = (rest[0] if rest else {}).get(MARK, {"backend": alias})
    return carried


def task_of(source: Any, queue_name: str, carried: Carried) -> Any:
    """The task as it was sent.

    It is not validated again: a result stays readable when its queue is no longer in QUEUES.

    Args:
        source: the registered task of that name.
    """
    run_after = carried.get("run_after")
    values = {field.name: getattr(source, field.name) for field in dataclasses.fields(source)}
    values |= options.restored(source, carried)
    values["queue_name"] = queue_name
    values["backend"] = carried.get("backend", DEFAULT_ALIAS)
    values["priority"] = carried.get("priority", 0)
    values["run_after"] = run_after and datetime.fromisoformat(run_after)
    made = object.__new__(type(source))
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def running(framework: Framework, task: Any, job: Job, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a job that runs for the first time, made without asking Redis; the times are the server's."""
    return framework.result(
        task=task,
        id=job.id,
        status=framework.status.RUNNING,
        enqueued_at=_moment(job.enqueued_us),
        started_at=_moment(job.started_us),
        finished_at=None,
        last_attempted_at=_moment(job.leased_us),
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=[],
        worker_ids=[job.token.partition("/")[0]],
    )


def result_of(framework: Framework, task: Any, found: ours.TaskResult) -> Any:
    """The framework's result for a task of ours. It counts attempts by workers: those forgotten are "unknown"."""
    ids = found.worker_ids
    made = framework.result(
        task=task,
        id=found.id,
        status=framework.status[found.status],
        enqueued_at=found.enqueued_at,
        started_at=found.started_at,
        finished_at=found.finished_at,
        last_attempted_at=found.last_attempted_at,
        args=found.args,
        kwargs=found.kwargs,
        backend=task.backend,
        errors=errors_of(framework, found.errors),
        worker_ids=[*["unknown"] * (found.attempts - len(ids)), *ids],
    )
    if found.status is TaskResultStatus.SUCCESSFUL:
        object.__setattr__(made, "_return_value", found.return_value)
    return made


def _moment(us: int) -> datetime:
    moment = datetime.fromtimestamp(us // 1_000_000, UTC).replace(microsecond=us % 1_000_000)
    return moment if settings.USE_TZ else make_naive(moment)


def errors_of(framework: Framework, errors: list[TaskError]) -> list[Any]:
    """The framework's errors for ours."""
    return [
        framework.error(exception_class_path=error.exception_class_path, traceback=error.traceback) for error in errors
    ]

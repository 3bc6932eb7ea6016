"""The adapter to `django_tasks`, the backport for Django before 6.0 (0.12 and later)."""

from __future__ import annotations

import dataclasses
from typing import Any

from django_tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
from django_tasks.backends.base import BaseTaskBackend
from django_tasks.base import Task, TaskError
from django_tasks.exceptions import InvalidTaskError, TaskResultDoesNotExist
from django_tasks.signals import task_enqueued, task_finished, task_started
from django_tasks.utils import normalize_json

from django_redis_components.contrib.django_tasks.backend import QueueBackend
from django_redis_components.contrib.django_tasks.decorator import decorator_of
from django_redis_components.contrib.django_tasks.framework import Framework
from django_redis_components.contrib.django_tasks.options import QueueOptions
from django_redis_components.taskqueue.tasks.errors import StoredError


@dataclasses.dataclass(frozen=True, kw_only=True)
class RedisTask(QueueOptions, Task):  # type: ignore[type-arg]
    """A task with our options; what `@task` makes for this backend."""


class RedisTaskError(StoredError, TaskError):
    """An error whose class is never imported."""

    __slots__ = ()


class RedisBackend(QueueBackend, BaseTaskBackend):
    """Tasks of the backport on our queue."""

    task_class = RedisTask
    framework = Framework(
        handler=task_backends,
        task=Task,
        result=TaskResult,
        status=TaskResultStatus,
        error=RedisTaskError,
        context=TaskContext,
        invalid_task=InvalidTaskError,
        no_result=TaskResultDoesNotExist,
        enqueued=task_enqueued,
        started=task_started,
        finished=task_finished,
        normalise=normalize_json,
    )

    def validate_task(self, task: Any) -> None:
        """Refuse a task that cannot be run, and register one that can."""
        super().validate_task(task)
        self.adopt(task)


task = decorator_of(RedisBackend.framework)

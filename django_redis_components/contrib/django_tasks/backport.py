"""The adapter to `django_tasks`, the backport for Django before 6.0 (0.12 and later)."""

from __future__ import annotations

import dataclasses

import django_tasks
from django_tasks import signals
from django_tasks.backends.base import BaseTaskBackend
from django_tasks.base import Task, TaskError
from django_tasks.exceptions import InvalidTaskError, TaskResultDoesNotExist
from django_tasks.utils import normalize_json

from django_redis_components.contrib.django_tasks.backend import QueueBackend
from django_redis_components.contrib.django_tasks.decorator import decorator_of
from django_redis_components.contrib.django_tasks.framework import Framework
from django_redis_components.contrib.django_tasks.options import QueueOptions
from django_redis_components.taskqueue.failure import StoredError


@dataclasses.dataclass(frozen=True, kw_only=True)
class RedisTask(QueueOptions, Task):  # type: ignore[type-arg]
    """A task with the queue's options; `@task` creates it for this backend."""


class RedisTaskError(StoredError, TaskError):
    """A task error. Its exception class is never imported by name."""

    __slots__ = ()


class RedisBackend(QueueBackend, BaseTaskBackend):
    """Tasks of the backport on our queue."""

    task_class = RedisTask
    framework = Framework.of(
        django_tasks,
        signals,
        error=RedisTaskError,
        invalid_task=InvalidTaskError,
        no_result=TaskResultDoesNotExist,
        normalize=normalize_json,
    )


task = decorator_of(RedisBackend.framework)

"""The adapter to `django.tasks`, Django 6.0 and later."""

from __future__ import annotations

import dataclasses

from django import tasks
from django.tasks import signals
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import Task, TaskError
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.utils.json import normalize_json

from django_redis_components.contrib.django_tasks.backend import QueueBackend
from django_redis_components.contrib.django_tasks.decorator import decorator_of
from django_redis_components.contrib.django_tasks.framework import Framework
from django_redis_components.contrib.django_tasks.options import QueueOptions
from django_redis_components.taskqueue.failure import StoredError


@dataclasses.dataclass(frozen=True, kw_only=True)
class RedisTask(QueueOptions, Task):  # type: ignore[type-arg]  # generic for type checkers alone
    """A task with the queue's options; `@task` creates it for this backend."""


class RedisTaskError(StoredError, TaskError):
    """A task error. Its exception class is never imported by name."""

    __slots__ = ()


class RedisBackend(QueueBackend, BaseTaskBackend):
    """Tasks of `django.tasks` on our queue."""

    task_class = RedisTask
    framework = Framework.of(
        tasks,
        signals,
        error=RedisTaskError,
        invalid_task=InvalidTask,
        no_result=TaskResultDoesNotExist,
        normalize=normalize_json,
    )


task = decorator_of(RedisBackend.framework)

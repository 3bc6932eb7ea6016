"""The Tasks framework of the Django under test, by one set of names: its own, or the backport on 5.2."""

from __future__ import annotations

import django

if django.VERSION >= (6, 0):
    from django.tasks import TaskContext, TaskResultStatus, default_task_backend, signals, task, task_backends
    from django.tasks.backends.immediate import ImmediateBackend
    from django.tasks.base import Task, TaskResult
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist, TaskResultMismatch

    NAME = "django.tasks"
else:
    from django_tasks import TaskContext, TaskResultStatus, default_task_backend, signals, task, task_backends
    from django_tasks.backends.immediate import ImmediateBackend
    from django_tasks.base import Task, TaskResult
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch

    NAME = "django_tasks"

#: Dotted path of the framework's backend that runs tasks at once.
IMMEDIATE = f"{NAME}.backends.immediate.ImmediateBackend"
#: Dotted path of ours.
REDIS = "django_redis_components.contrib.django_tasks.RedisBackend"

__all__ = [
    "IMMEDIATE",
    "NAME",
    "REDIS",
    "ImmediateBackend",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskResultStatus",
    "default_task_backend",
    "signals",
    "task",
    "task_backends",
]

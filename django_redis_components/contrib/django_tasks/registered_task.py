"""The registry's entry for a task of the framework."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured

from django_redis_components.contrib.django_tasks import options, records
from django_redis_components.contrib.django_tasks.framework import DEFAULT_ALIAS, Framework
from django_redis_components.contrib.django_tasks.framework_signals import SendFrameworkSignals
from django_redis_components.taskqueue import TaskResult
from django_redis_components.taskqueue.enqueue import prepare
from django_redis_components.taskqueue.middleware import Middleware
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.store.messages import TaskMessage
from django_redis_components.taskqueue.task import Task


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RegisteredTask(Task[..., Any, Any]):
    """Enqueued and run as any task of the queue; `SendFrameworkSignals` sends the framework's signals.

    Attributes:
        source: the framework's task as it was defined.
        framework: the framework of the task.
        sender: class of the backend that registered it.
        headers: headers of the task's body when `source` is enqueued unchanged.
        defaults: OPTIONS of the backend that `source` was defined for; None if that is another backend.
    """

    source: Any
    framework: Framework
    sender: type[Any]
    headers: records.Headers = dataclasses.field(default_factory=dict, compare=False)
    defaults: Any = dataclasses.field(default=None, compare=False)

    own_middleware: ClassVar[tuple[Middleware, ...]] = (SendFrameworkSignals(),)

    @property
    def options(self) -> TaskOptions:
        """Its options: those of the framework's task, and OPTIONS of its backend."""
        return self.declared_options

    @property
    def _enqueue_func(self) -> Callable[..., Any]:
        return options.function_without_context(self.source)

    @property
    def _body_options(self) -> Mapping[str, Any]:
        return {records.HEADERS_KEY: self.headers}

    def _connection_of(self, options: Mapping[str, Any]) -> str:
        return self.backend(options.get(records.HEADERS_KEY, {}).get("backend", DEFAULT_ALIAS))[1]

    def matches(self, task: Any, defaults: Any) -> bool:
        """Return whether `task` is the defined task with the same OPTIONS, so that this entry can enqueue it."""
        return self.source is task and self.defaults == defaults

    def sending(self, task: Any, task_options: TaskOptions, connection: str) -> RegisteredTask:
        """Return a copy that enqueues another task of the same function.

        Args:
            task_options: the options of that task.
        """
        return dataclasses.replace(
            self,
            declared_options=task_options,
            overrides=self.changed_options(task_options),
            connection=connection,
            headers=records.headers_of(task),
        )

    def prepared(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[TaskResult, TaskMessage]:
        """Return the result of a task before it is enqueued, and its message."""
        return prepare(self, args, kwargs)

    def changed_options(self, task_options: TaskOptions) -> frozenset[str]:
        """Return the names of the options that differ from the registered ones and must be sent with the task."""
        return frozenset(name for name in options.NAMES if getattr(task_options, name) != getattr(self.options, name))

    def sent(self, queue_name: str, headers: records.Headers) -> Any:
        """Return the framework's task as it was enqueued."""
        if headers == self.headers and queue_name == self.source.queue_name:
            return self.source
        return records.task_of(self.source, queue_name, headers)

    def backend(self, alias: str) -> tuple[type[Any], str]:
        """Return class and connection of the backend that enqueued the task; by default those of this entry."""
        try:
            backend = self.framework.handler[alias]
        except ImproperlyConfigured:
            return self.sender, self.connection
        return type(backend), getattr(backend, "connection", self.connection)

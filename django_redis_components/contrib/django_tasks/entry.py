"""A task of the framework as our queue knows it: what stands in the registry under its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_redis_components.contrib.django_tasks import options, records
from django_redis_components.contrib.django_tasks.attempts import SignalledAttempt
from django_redis_components.contrib.django_tasks.framework import DEFAULT_ALIAS, Framework
from django_redis_components.taskqueue import TaskResult
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.store.messages import Message
from django_redis_components.taskqueue.task import Task
from django_redis_components.taskqueue.task_run import guessed, recorded


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entry(Task[..., Any]):
    """Sent and run as any task of ours; its runs are `SignalledAttempt`s.

    Attributes:
        source: the framework's task, as it was made.
        framework: the one that it belongs to.
        sender: class of the backend that registered it.
        carried: what travels beside the arguments; here, when `source` is sent as it is.
        defaults: OPTIONS of the backend that `source` was made for; None if that is not one of ours.
    """

    source: Any
    framework: Framework
    sender: type[Any]
    carried: records.Carried = dataclasses.field(default_factory=dict, compare=False)
    defaults: Any = dataclasses.field(default=None, compare=False)

    @property
    def called(self) -> Callable[..., Any]:
        """See `Task.called`."""
        return options.called(self.source)

    def holds_for(self, task: Any, defaults: Any) -> bool:
        """Whether a task can be sent with this as it is: it is the one that was made, and OPTIONS are the same."""
        return self.source is task and self.defaults == defaults

    def sending(self, task: Any, chosen: TaskOptions, connection: str) -> Entry:
        """A copy that sends a task of the same function.

        Args:
            chosen: the options that hold for the task.
        """
        return dataclasses.replace(
            self,
            options=chosen,
            changed=self.differences(chosen),
            connection=connection,
            carried=records.carried_of(task),
        )

    def prepared(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[TaskResult, Message]:
        """The result of the task that is about to be sent, and the message that sends it."""
        return self._prepared(args, kwargs, {records.MARK: self.carried})

    def message(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Message:
        """See `Task.message`."""
        return self.prepared(list(args), kwargs)[1]

    def differences(self, chosen: TaskOptions) -> frozenset[str]:
        """Names of our options whose values a worker would not know by itself."""
        return frozenset(name for name in options.NAMES if getattr(chosen, name) != getattr(self.options, name))

    def begin(self, job: Job, args: list[Any], kwargs: dict[str, Any], travelled: dict[str, Any]) -> SignalledAttempt:
        """The run of a job: its result is RUNNING, and `task_started` is sent."""
        carried = travelled.get(records.MARK, {})
        sender, connection = self._backend(carried.get("backend", DEFAULT_ALIAS))
        task = self._sent(job.queue, carried)
        if job.attempts or job.deliveries:
            fields, failures = recorded(job, connection) or (guessed(job), [])
            found = TaskResult(self, job.name, job.id, connection, fields, failures)
            result = records.result_of(self.framework, task, found)
        else:
            result = records.running(self.framework, task, job, args, kwargs)
        return SignalledAttempt(self.framework, sender, job, result, args)

    def _sent(self, queue_name: str, carried: records.Carried) -> Any:
        """The framework's task as it was sent; the one that was made, if it was sent as it is."""
        if carried == self.carried and queue_name == self.source.queue_name:
            return self.source
        return records.task_of(self.source, queue_name, carried)

    def _backend(self, alias: str) -> tuple[type[Any], str]:
        """Class and connection of the backend that it was sent by; our own if TASKS has no such backend here."""
        try:
            backend = self.framework.handler[alias]
        except ImproperlyConfigured:
            return self.sender, self.connection
        return type(backend), getattr(backend, "connection", self.connection)

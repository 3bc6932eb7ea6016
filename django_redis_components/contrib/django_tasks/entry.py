"""A task of the framework as our queue knows it: what stands in the registry under its name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.core.exceptions import ImproperlyConfigured

from django_redis_components.contrib.django_tasks import options, records
from django_redis_components.contrib.django_tasks.attempts import SignalObserver
from django_redis_components.contrib.django_tasks.framework import DEFAULT_ALIAS, Framework
from django_redis_components.taskqueue import TaskResult
from django_redis_components.taskqueue.context import read_record, record_from_job
from django_redis_components.taskqueue.enqueue import prepare
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.store.messages import Message
from django_redis_components.taskqueue.task import Task


def _observer_of(
    entry: Entry, job: Job, args: list[Any], kwargs: dict[str, Any], travelled: dict[str, Any]
) -> SignalObserver:
    """The observer of a run: its result is RUNNING, and `task_started` is sent."""
    carried = travelled.get(records.MARK, {})
    sender, connection = entry._backend(carried.get("backend", DEFAULT_ALIAS))
    task = entry._sent(job.queue, carried)
    if job.attempts or job.deliveries:
        fields, failures = read_record(job, connection) or (record_from_job(job), [])
        found = TaskResult(entry, job.name, job.id, connection, fields, failures)
        result = records.result_of(entry.framework, task, found)
    else:
        result = records.running(entry.framework, task, job, args, kwargs)
    return SignalObserver(entry.framework, sender, job, result, args)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Entry(Task[..., Any, Any]):
    """Sent and run as any task of ours; its runs are observed by `SignalObserver`.

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

    run_observer: ClassVar[Callable[..., SignalObserver]] = staticmethod(_observer_of)

    @property
    def _enqueue_func(self) -> Callable[..., Any]:
        return options.called(self.source)

    @property
    def _body_options(self) -> Mapping[str, Any]:
        return {records.MARK: self.carried}

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
            overrides=self.differences(chosen),
            connection=connection,
            carried=records.carried_of(task),
        )

    def prepared(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[TaskResult, Message]:
        """The result of the task that is about to be sent, and the message that sends it."""
        return prepare(self, args, kwargs)

    def differences(self, chosen: TaskOptions) -> frozenset[str]:
        """Names of our options whose values a worker would not know by itself."""
        return frozenset(name for name in options.NAMES if getattr(chosen, name) != getattr(self.options, name))

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

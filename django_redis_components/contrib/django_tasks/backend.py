"""The backend, whatever the framework: `native` and `backport` make it theirs."""

from __future__ import annotations

from datetime import datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.checks import CheckMessage

from django_redis_components.contrib.django_tasks import checks, json_values, options, records
from django_redis_components.contrib.django_tasks.entry import Entry
from django_redis_components.contrib.django_tasks.framework import Framework
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import arun, run
from django_redis_components.taskqueue import InvalidTask, TaskQueueError, TaskResult, registry
from django_redis_components.taskqueue import TaskResultDoesNotExist as NoResult
from django_redis_components.taskqueue import enqueue as sending
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.store import tasks as store
from django_redis_components.taskqueue.store.fields import Field
from django_redis_components.taskqueue.store.messages import Message


class QueueBackend:
    """Mixin for `BaseTaskBackend`. Making one costs nothing: frameworks make one for each thread and asyncio task."""

    framework: ClassVar[Framework]
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    if TYPE_CHECKING:  # what `BaseTaskBackend` brings
        alias: str
        queues: set[str]
        options: dict[str, Any]

    @property
    def connection(self) -> str:
        """Our alias of the connection: OPTIONS["USING"]."""
        alias: str = self.options.get("USING", "default")
        return alias

    def validate_task(self, task: Any) -> None:
        """Refuse a task that cannot be run, and register one that can."""
        if not isinstance(task.run_after, datetime | None):
            raise self.framework.invalid_task(f"run_after={task.run_after!r}: expected a datetime.")
        super().validate_task(task)  # type: ignore[misc]
        self.adopt(task)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Send it, at once: no commit is waited for.

        If another task has its unique key, the result is that of the other, and no signal is sent.

        Raises:
            InvalidTask: the task cannot be sent by this backend (the framework's exception).
            TypeError, ValueError: the function does not take these arguments, or one is not JSON; the message names the
                parameter or the place.
            redis.exceptions.RedisError: Redis did not answer.
        """
        found, message = self._message(task, args, kwargs)
        reply = run(connections.client(self.connection), store.send(message))
        result = self._accepted(task, found, reply)
        if not found.is_duplicate:
            self.framework.enqueued.send(type(self), task_result=result)
        sending.run_test_hook()
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """See `enqueue`."""
        found, message = self._message(task, args, kwargs)
        reply = await arun(connections.aclient(self.connection), store.send(message))
        result = self._accepted(task, found, reply)
        if not found.is_duplicate:
            await self.framework.enqueued.asend(type(self), task_result=result)
        await sending.arun_test_hook()
        return result

    def get_result(self, result_id: str) -> Any:
        """What became of a task, whichever process sent or ran it.

        Raises:
            TaskResultDoesNotExist: there is no such task, its result has expired, or its name belongs to no
                task of the framework in this process (the framework's exception).
            redis.exceptions.RedisError: Redis did not answer.
        """
        try:
            fields, failures = run(connections.client(self.connection), store.read(result_id))
        except NoResult as exc:
            raise self.framework.no_result(str(exc)) from None
        return self._found(result_id, fields, failures)

    async def aget_result(self, result_id: str) -> Any:
        """See `get_result`."""
        try:
            fields, failures = await arun(connections.aclient(self.connection), store.read(result_id))
        except NoResult as exc:
            raise self.framework.no_result(str(exc)) from None
        return self._found(result_id, fields, failures)

    def check(self, **_: Any) -> list[CheckMessage]:
        """What is wrong in TASKS[alias]; asks nothing of Redis."""
        return checks.check(self.alias, self.queues, self.options)

    def adopt(self, task: Any) -> None:
        """Register a task of the framework, so that workers find it by its name.

        Raises:
            InvalidTask: an option has a value that is not accepted, or another function has the name.
        """
        self._sending(task)

    def sender(self, task: Any) -> Entry:
        """What sends a task of the framework, with its options; for schedules.

        Raises:
            InvalidTask: see `adopt`.
        """
        return self._sending(task)

    def adopt_from(self, module: ModuleType) -> None:
        """Register the tasks of a module that were made for other backends: `using(backend=…)` may send them here."""
        for value in vars(module).values():
            kind = type(value)  # isinstance() would wake lazy objects
            if issubclass(kind, self.framework.task) and registry.find(value.module_path) is None:
                self._register(value, TaskOptions(), None)

    def _message(self, task: Any, args: Any, kwargs: Any) -> tuple[TaskResult, Message]:
        self.validate_task(task)  # the settings may have changed since it was made
        sent = json_values.normalised(args, kwargs, self.framework.normalise)
        try:
            return self._sending(task).prepared(*sent)
        except TaskQueueError as exc:
            raise self.framework.invalid_task(str(exc)) from exc

    def _accepted(self, task: Any, found: TaskResult, reply: store.Reply) -> Any:
        found._set_accepted(reply, found.task.options)
        if isinstance(reply, int):
            return records.result_of(self.framework, task, found)
        return self._found(found.id, store.fields_of(reply[1]), [])

    def _found(self, result_id: str, fields: store.Fields, failures: list[bytes]) -> Any:
        name = fields[Field.task_name].decode()
        entry = registry.find(name)
        if entry is None:
            registry.autodiscover()  # a web process may not have imported the module of this task yet
            entry = registry.find(name)
        if not isinstance(entry, Entry) or entry.framework is not self.framework:
            raise self.framework.no_result(f"Task {result_id} is of {name!r}, which is not registered as a task here.")
        found = TaskResult(entry, name, result_id, self.connection, fields, failures)
        task = records.task_of(entry.source, found.queue_name, records.carried_in(fields[Field.body], self.alias))
        return records.result_of(self.framework, task, found)

    def _sending(self, task: Any) -> Entry:
        """What sends a task; it is registered if its name is new."""
        entry = self._registered(task)
        if entry is not None and entry.holds_for(task, self.options):
            return entry
        try:
            chosen = options.resolved(task, self.options)
        except InvalidTask as exc:
            raise self.framework.invalid_task(str(exc)) from exc
        if entry is None:
            made_here = isinstance(task, options.QueueOptions)
            entry = self._register(task, *((chosen, self.options) if made_here else (TaskOptions(), None)))
        if callable(chosen.backoff) and "backoff" in entry.differences(chosen):
            raise self.framework.invalid_task(
                f"backoff={chosen.backoff!r}: a callable does not travel to workers. The task must be made with it"
                " (@task, or BACKOFF in the OPTIONS of the backend it is made for); otherwise give seconds or a list."
            )
        return entry.sending(task, chosen, self.connection)

    def _registered(self, task: Any) -> Entry | None:
        entry = registry.find(task.module_path)
        ours = isinstance(entry, Entry) and entry.func is task.func and entry.framework is self.framework
        return entry if ours else None

    def _register(self, task: Any, chosen: TaskOptions, defaults: Any) -> Entry:
        entry = Entry(
            func=task.func,
            name=task.module_path,
            options=chosen,
            connection=self.connection,
            takes_context=task.takes_context,
            source=task,
            framework=self.framework,
            sender=type(self),
            carried=records.carried_of(task),
            defaults=defaults,
        )
        try:
            registry.register(entry.name, entry)
        except InvalidTask as exc:
            raise self.framework.invalid_task(str(exc)) from exc
        return entry

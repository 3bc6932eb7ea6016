"""The backend, independent of the framework; `native` and `backport` bind it to one."""

from __future__ import annotations

from datetime import datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.checks import CheckMessage

from django_redis_components.contrib.django_tasks import checks, json_arguments, options, records
from django_redis_components.contrib.django_tasks.framework import Framework
from django_redis_components.contrib.django_tasks.registered_task import RegisteredTask
from django_redis_components.core.arguments import short_repr
from django_redis_components.core.exceptions import raise_interruption
from django_redis_components.taskqueue import InvalidTask, TaskQueueError, TaskResult, TaskResultDoesNotExist, registry
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.options import TaskOptions, changed_names
from django_redis_components.taskqueue.shard_clients import arun_over, run_over
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.store import task_records
from django_redis_components.taskqueue.store.messages import TaskMessage


class QueueBackend:
    """Mixin for `BaseTaskBackend`. Creating one is cheap: frameworks create one per thread and asyncio task."""

    framework: ClassVar[Framework]
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    if TYPE_CHECKING:  # attributes of `BaseTaskBackend`
        alias: str
        queues: set[str]
        options: dict[str, Any]

    @property
    def connection(self) -> str:
        """The connection alias: OPTIONS["USING"]."""
        alias: str = self.options.get("USING", "default")
        return alias

    def validate_task(self, task: Any) -> None:
        """Reject a task that cannot run, and register one that can."""
        if not isinstance(task.run_after, datetime | None):
            raise self.framework.invalid_task(f"run_after={short_repr(task.run_after)}: expected a datetime.")
        super().validate_task(task)  # type: ignore[misc]
        self.register_task(task)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Enqueue a task at once, without waiting for a commit.

        If another task holds the unique key, return the result of that task and send no signal. An error of a receiver
        of the signal is logged: Redis has accepted the task, and a caller that saw the error would enqueue it again.

        Raises:
            InvalidTask: the task cannot be sent by this backend (the framework's exception).
            TypeError, ValueError: the function does not take these arguments, or one is not JSON; the message names the
                parameter or the place.
            redis.exceptions.RedisError: Redis did not answer.
        """
        found, message = self._build_message(task, args, kwargs)
        shard = found._shard
        reply = shard.run(task_records.send(shard, message))
        result = self._accept_reply(task, found, reply)
        if not found.is_duplicate:
            raise_interruption(self.framework.enqueued.send_robust(type(self), task_result=result))
            pipeline.notify_enqueued([found], sends_signals=False)
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """See `enqueue`."""
        found, message = self._build_message(task, args, kwargs)
        shard = found._shard
        reply = await shard.arun(task_records.send(shard, message))
        result = self._accept_reply(task, found, reply)
        if not found.is_duplicate:
            raise_interruption(await self.framework.enqueued.asend_robust(type(self), task_result=result))
            await pipeline.anotify_enqueued([found], sends_signals=False)
        return result

    def get_result(self, result_id: str) -> Any:
        """Return the result of a task, from any process.

        Raises:
            TaskResultDoesNotExist: there is no such task, its result has expired, or its name belongs to no
                task of the framework in this process (the framework's exception).
            redis.exceptions.RedisError: Redis did not answer.
        """
        try:
            record = run_over(self.connection, task_records.find(shards_of(self.connection), result_id))
        except TaskResultDoesNotExist as exc:
            raise self.framework.no_result(str(exc)) from None
        return self._load_result(result_id, *record)

    async def aget_result(self, result_id: str) -> Any:
        """See `get_result`."""
        try:
            record = await arun_over(self.connection, task_records.find(shards_of(self.connection), result_id))
        except TaskResultDoesNotExist as exc:
            raise self.framework.no_result(str(exc)) from None
        return self._load_result(result_id, *record)

    def check(self, **_: Any) -> list[CheckMessage]:
        """Return the errors of TASKS[alias], without a request to Redis."""
        return checks.check(self.alias, self.queues, self.options)

    def register_task(self, task: Any) -> None:
        """Register a task of the framework, so that workers find it by its name.

        Raises:
            InvalidTask: an option has a value that is not accepted, or another function has the name.
        """
        self._sender_for(task)

    def sender(self, task: Any) -> RegisteredTask:
        """Return the entry that enqueues a task of the framework with its options; used by schedules.

        Raises:
            InvalidTask: see `register_task`.

        :meta private:
        """
        return self._sender_for(task)

    def register_module(self, module: ModuleType) -> None:
        """Register a module's tasks of other backends: `using(backend=…)` may enqueue them here."""
        for value in vars(module).values():
            kind = type(value)  # isinstance() would evaluate lazy objects
            if issubclass(kind, self.framework.task) and registry.find(value.module_path) is None:
                self._register(value, TaskOptions(), None)

    def _build_message(self, task: Any, args: Any, kwargs: Any) -> tuple[TaskResult, TaskMessage]:
        self.validate_task(task)  # the settings may have changed since it was defined
        sent = json_arguments.normalize_arguments(args, kwargs, self.framework.normalize)
        try:
            return self._sender_for(task).prepared(*sent)
        except TaskQueueError as exc:
            raise self.framework.invalid_task(str(exc)) from exc

    def _accept_reply(self, task: Any, result: TaskResult, reply: task_records.Reply) -> Any:
        result._set_accepted(reply, result.task.options)
        if isinstance(reply, int):
            return records.result_of(self.framework, task, result)
        return self._load_result(result.id, result._shard, task_records.fields_of(reply[1]), [])

    def _load_result(self, result_id: str, shard: Shard, fields: task_records.Fields, failures: list[bytes]) -> Any:
        name = fields[Field.task_name].decode()
        entry = registry.find(name)
        if entry is None:
            registry.autodiscover()  # a web process may not have imported the module of this task yet
            entry = registry.find(name)
        if not isinstance(entry, RegisteredTask) or entry.framework is not self.framework:
            raise self.framework.no_result(
                f"Task {result_id} has the name {name!r}, which is not registered as a task in this process."
            )
        result = TaskResult(entry, name, result_id, shard, fields, failures)
        task = records.task_of(entry.source, result.queue_name, records.headers_in(fields[Field.body], self.alias))
        return records.result_of(self.framework, task, result)

    def _sender_for(self, task: Any) -> RegisteredTask:
        """Return the entry that enqueues a task; register it if its name is new."""
        entry = self._find_registered(task)
        if entry is not None and entry.matches(task, self.options):
            return entry
        try:
            task_options = options.resolve(task, self.options)
        except InvalidTask as exc:
            raise self.framework.invalid_task(str(exc)) from exc
        if entry is None:
            made_here = isinstance(task, options.QueueOptions)
            entry = self._register(task, *((task_options, self.options) if made_here else (TaskOptions(), None)))
        if callable(task_options.backoff) and "backoff" in entry.changed_options(task_options):
            raise self.framework.invalid_task(
                f"backoff={short_repr(task_options.backoff)}: a callable cannot be sent to workers. Define the task"
                " with it (@task, or BACKOFF in the OPTIONS of its backend), or pass seconds or a list."
            )
        return entry.sending(task, task_options, self.connection)

    def _find_registered(self, task: Any) -> RegisteredTask | None:
        entry = registry.find(task.module_path)
        ours = isinstance(entry, RegisteredTask) and entry.func is task.func and entry.framework is self.framework
        return entry if ours else None

    def _register(self, task: Any, task_options: TaskOptions, defaults: Any) -> RegisteredTask:
        entry = RegisteredTask(
            func=task.func,
            name=task.module_path,
            declared_options=task_options,
            declared=changed_names(task_options),
            connection=self.connection,
            takes_context=task.takes_context,
            source=task,
            framework=self.framework,
            sender=type(self),
            headers=records.headers_of(task),
            defaults=defaults,
        )
        try:
            registry.register(entry.name, entry)
        except InvalidTask as exc:
            raise self.framework.invalid_task(str(exc)) from exc
        return entry

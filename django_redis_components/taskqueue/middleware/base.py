"""`Middleware`, the contract, and what its callbacks receive."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async

from django_redis_components.core.decorators import without_stop_iteration
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.store.messages import HEADERS_KEY


@dataclasses.dataclass(slots=True)
class NewTask:
    """A task that is about to be enqueued.

    Attributes:
        task: as it is enqueued, with the options of `using`.
        id: the task's id. After a duplicate was found, the result has another one.
        args, kwargs: the arguments.
        headers: JSON that travels with the task; middleware of the worker reads it. Keys are text.
        metadata: as the option `metadata` of the task: stored, shown on the dashboard, and changed by the run.
    """

    task: Any
    id: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    headers: dict[str, Any]
    metadata: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of the task."""
        name: str = self.task.name
        return name

    @property
    def queue_name(self) -> str:
        """Name of its queue."""
        name: str = self.task.queue_name
        return name


class RunContext:
    """A run of a task in a worker.

    Attributes:
        task: the registered task.
        task_result: the task as it was before the run.
        args, kwargs: the arguments, without the context of a task that takes one. What `around_run` assigns before
            `call_next` is passed.
        headers: those that the task was enqueued with.
        values: for middleware, which may keep here what it needs until `on_outcome`.
        others: in `around_run` of a batch, the runs of its other calls. It is called once for all of them, with that of
            the first; `on_outcome` is called for each.
    """

    __slots__ = ("_job", "_options", "args", "headers", "kwargs", "others", "task", "task_result", "values")

    def __init__(
        self, task_result: TaskResult, job: Job, args: list[Any], kwargs: dict[str, Any], options: dict[str, Any]
    ) -> None:
        """
        Args:
            options: those that were sent beside the arguments.
        """
        self.task = task_result.task
        self.task_result = task_result
        self.args = args
        self.kwargs = kwargs
        headers = options.get(HEADERS_KEY)
        self.headers: dict[str, Any] = headers if isinstance(headers, dict) else {}
        self.values: dict[str, Any] = {}
        self.others: tuple[RunContext, ...] = ()
        self._job = job
        self._options = options

    def __repr__(self) -> str:
        return f"<RunContext {self.id!r}>"

    @property
    def id(self) -> str:
        """The task's id."""
        return self._job.id

    @property
    def name(self) -> str:
        """The task's name."""
        return self._job.name

    @property
    def queue_name(self) -> str:
        """The queue from which it was fetched."""
        return self._job.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1; runs that raised an exception count, as for `max_attempts`."""
        return self._job.attempts + 1

    @property
    def number(self) -> int:
        """The number of this run, from 1; all runs count, also those that were delayed or lost their worker."""
        return self._job.runs + 1


@dataclasses.dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run has ended. It has been decided, and is sent to Redis next.

    Attributes:
        name: "succeeded", "failed", "retried", "delayed", "interrupted", "requeued" or "cancelled".
        exception: what the function raised; None without one.
        duration: seconds that the run took.
        payload: the return value as JSON.
    """

    name: str
    exception: BaseException | None
    duration: float
    payload: bytes = b""

    @property
    def return_value(self) -> Any:
        """The return value as it is stored; None unless the task has succeeded."""
        return unpack(self.payload) if self.name == "succeeded" else None


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerDescription:
    """A worker, or one of its processes.

    Attributes:
        id: as on the dashboard's page of workers.
        queues: names of the queues that it serves.
        using: alias of the connection.
    """

    id: str
    queues: tuple[str, ...]
    using: str


class Middleware:
    """Surrounds tasks. Override what is needed; one object serves all threads of a process.

    An error of `before_enqueue` is raised to the caller, and nothing is enqueued. An error of `around_run` is the
    outcome of the run, as if the function had raised it. Errors of all other callbacks are logged with the name of the
    middleware, and change nothing.
    """

    #: Whether `on_outcome` logs failures, so that the worker does not write their tracebacks too.
    logs_failures = False
    #: Whether errors of `after_enqueue` are raised to the caller, for tests.
    raises_after_enqueue = False

    def before_enqueue(self, task: NewTask) -> None:
        """Add headers or metadata to a task, or refuse it by raising. Called on the caller's event loop, too."""

    def after_enqueue(self, result: TaskResult) -> None:
        """Called when Redis has accepted a task; not for duplicates.

        The relay of the outbox calls it for what it sends; then `result.task` may be None.
        """

    async def aafter_enqueue(self, result: TaskResult) -> None:
        """See `after_enqueue`. By default that is called, in Django's thread for synchronous code."""
        callback = without_stop_iteration(self.after_enqueue)
        await sync_to_async(callback)(result)

    def around_run(self, run: RunContext, call_next: Callable[[], Any]) -> Any:
        """Surround the function of a task in a thread; return what is to be its return value."""
        return call_next()

    async def aaround_run(self, run: RunContext, call_next: Callable[[], Awaitable[Any]]) -> Any:
        """Surround a coroutine function on the event loop. A class that overrides one of both overrides both."""
        return await call_next()

    def on_outcome(self, run: RunContext, outcome: RunOutcome) -> None:
        """Called with the outcome of a run, within the except block of a failure. The innermost is called first.

        Of a coroutine it is called in a thread for synchronous code.
        """

    def on_worker_start(self, worker: WorkerDescription) -> None:
        """Called in `runworker` before it forks its processes: what is loaded here is shared by them.

        Threads and connections do not survive the fork; open them in `on_process_start`.
        """

    def on_worker_stop(self, worker: WorkerDescription) -> None:
        """Called in `runworker` after its processes have exited."""

    def on_process_start(self, process: WorkerDescription) -> None:
        """Called in each worker process before its first task."""

    def on_process_stop(self, process: WorkerDescription) -> None:
        """Called in each worker process after its last task; not after a crash."""

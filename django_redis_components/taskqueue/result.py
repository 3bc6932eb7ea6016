"""`TaskResult`: the state and the return value of an enqueued task."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, Unpack

from django_redis_components.core.protocol import Flow
from django_redis_components.core.units import Seconds, to_seconds
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import InvalidTask, TaskResultDoesNotExist
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.options import TaskOptions
from django_redis_components.taskqueue.record import R_co, TaskRecord
from django_redis_components.taskqueue.replication import Replication
from django_redis_components.taskqueue.shard_clients import arun_over, run_over
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.states import State
from django_redis_components.taskqueue.store import task_control, task_records
from django_redis_components.taskqueue.task_update import TaskChanges, update

T = TypeVar("T")


class TaskResult(TaskRecord[R_co]):
    """An enqueued task, as last read from Redis. `refresh` reads it again.

    Attributes:
        task: the task, or None if its name is not registered in this process.
        name: the task's name.
        id: the task's id.
        is_duplicate: whether `enqueue` found an existing task with the same unique key, and this is its result, changed
            as `Unique.on_conflict` says.
    """

    __slots__ = ("_replication", "_shard", "is_duplicate", "task")

    def __init__(
        self,
        task: Any,
        name: str,
        task_id: str,
        shard: Shard,
        fields: Mapping[str, bytes],
        failures: Sequence[bytes] = (),
        replication: Replication | None = None,
    ) -> None:
        super().__init__(name, task_id, fields, failures)
        self.task = task
        self._shard = shard
        self._replication = replication
        self.is_duplicate = False

    @property
    def replicas(self) -> int | None:
        """How many replicas had the task when `enqueue` returned. It is accepted also if they are fewer than wanted.

        None: the task has no `min_replicas`, it was not sent yet or is sent from the outbox, or this result was read
        later.
        """
        return self._replication.acknowledged if self._replication else None

    @property
    def using(self) -> str:
        """Alias of the connection."""
        return self._shard.using

    def __repr__(self) -> str:
        return f"<TaskResult {self.id} of {self.name}: {self.state}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskResult) and (self.id, self.using) == (other.id, other.using)

    def __hash__(self) -> int:
        return hash((self.id, self.using))

    def refresh(self) -> None:
        """Read the record again.

        Raises:
            TaskResultDoesNotExist: the result has expired.
        """
        self._load(*self._run(lambda shard: task_records.read(shard, self.id)))

    async def arefresh(self) -> None:
        """See `refresh`."""
        self._load(*await self._arun(lambda shard: task_records.read(shard, self.id)))

    def get(self, timeout: Seconds | None = None) -> R_co:
        """Wait until the task has finished, and return its return value. The worker wakes the caller; nothing polls.

        Args:
            timeout: seconds to wait; None waits without a limit.

        Raises:
            WaitTimeout: the task did not finish in time.
            TaskFailed: the task failed, was cancelled or expired.
            TaskResultDoesNotExist: the result has expired.
        """
        self._load(*self._run(self._waiting(timeout)))
        return self.return_value

    async def aget(self, timeout: Seconds | None = None) -> R_co:  # noqa: ASYNC109 - the twin of get()
        """See `get`."""
        self._load(*await self._arun(self._waiting(timeout)))
        return self.return_value

    def cancel(self, *, force_after: Seconds | None = None) -> bool:
        """Cancel the task. Returns False if it has finished.

        A running task is asked to stop, by an exception in its thread or the cancellation of its coroutine, and
        True is returned at once; `get` returns when it has stopped. A run that finishes first keeps its outcome.

        Args:
            force_after: seconds until the process of a run that does not stop is killed; the other tasks of that
                process are run again. None: TASKQUEUE["CANCEL_GRACE"].

        Raises:
            TaskResultDoesNotExist: the result has expired.
        """
        return self._run(lambda shard: task_control.cancel(shard, self.id, force_after))

    async def acancel(self, *, force_after: Seconds | None = None) -> bool:
        """See `cancel`."""
        return await self._arun(lambda shard: task_control.cancel(shard, self.id, force_after))

    def reschedule(self, run_after: datetime | Seconds) -> None:
        """Change when a scheduled task, or one that waits for its next attempt, is due.

        Args:
            run_after: a datetime, or seconds or a timedelta from now.

        Raises:
            NotScheduled: the task is not scheduled.
            InvalidTask: `run_after` is not a valid time.
        """
        self._run(lambda shard: task_control.reschedule(shard, self.id, due_of(run_after)))

    async def areschedule(self, run_after: datetime | Seconds) -> None:
        """See `reschedule`."""
        await self._arun(lambda shard: task_control.reschedule(shard, self.id, due_of(run_after)))

    def run_now(self) -> None:
        """Make a scheduled task due at once. See `reschedule`."""
        self._run(lambda shard: task_control.reschedule(shard, self.id, ""))

    async def arun_now(self) -> None:
        """See `run_now`."""
        await self._arun(lambda shard: task_control.reschedule(shard, self.id, ""))

    def update(self, **changes: Unpack[TaskChanges]) -> None:
        """Change a pending task. What is not given stays; this result then has the changed record.

        A task that gets another queue or priority comes after those that are there; otherwise it keeps its place. Its
        unique key and the keys of its limits follow its arguments. Options that were sent with them, and headers of
        middleware, stay as they are.

        Args:
            args: a list or tuple that replaces all positional arguments.
            kwargs: a dict that replaces all keyword arguments.
            priority: -100 to 100.
            queue_name: the queue that the task is moved to.
            expires: as the option `expires`, from now or from when the task is due; None: it does not expire. It has
                no effect on a task that has started before.

        Raises:
            NotPending: the task runs, has finished or was purged. Nothing was changed.
            UniqueKeyConflict: another task has the unique key of the new arguments.
            TypeError, ValueError: the function does not accept the arguments, or one is not JSON.
            InvalidTask: a value is not accepted; the expiry has passed; the task's name is not registered in this
                process; or its unique key, or the key of a limit, was made with options of `using` that are not known
                here.
            UnknownQueue: the site declares its queues, and this is not one of them.
            TaskResultDoesNotExist: the result has expired.
        """
        self._load(self._run(lambda shard: update(shard, self.task, self.id, changes)), self._failures)

    async def aupdate(self, **changes: Unpack[TaskChanges]) -> None:
        """See `update`."""
        self._load(await self._arun(lambda shard: update(shard, self.task, self.id, changes)), self._failures)

    def _waiting(self, timeout: Seconds | None) -> Callable[[Shard], Flow[tuple[task_records.Fields, list[bytes]]]]:
        """Return the wait for the result in a shard; in another one, after a move, for what is left of the time."""
        until = None if timeout is None else time.monotonic() + to_seconds(timeout, "timeout", zero=True)

        def wait(shard: Shard) -> Flow[tuple[task_records.Fields, list[bytes]]]:
            left = timeout if until is None or shard is first else max(0.0, until - time.monotonic())
            return task_records.wait(shard, self.id, left)

        first = self._shard
        return wait

    def _run(self, flow_of: Callable[[Shard], Flow[T]]) -> T:
        """Run a flow in the shard of the task; in another one, if the task was moved there."""
        try:
            return self._shard.run(flow_of(self._shard))
        except TaskResultDoesNotExist:
            if len(shards_of(self.using)) == 1:
                raise
        self._shard, *_ = run_over(self.using, task_records.find(shards_of(self.using), self.id))
        return self._shard.run(flow_of(self._shard))

    async def _arun(self, flow_of: Callable[[Shard], Flow[T]]) -> T:
        """See `_run`."""
        try:
            return await self._shard.arun(flow_of(self._shard))
        except TaskResultDoesNotExist:
            if len(shards_of(self.using)) == 1:
                raise
        self._shard, *_ = await arun_over(self.using, task_records.find(shards_of(self.using), self.id))
        return await self._shard.arun(flow_of(self._shard))

    def _set_accepted(self, reply: task_records.Reply, options: TaskOptions | None) -> None:
        """Record when Redis accepted the task, or load the existing task with its unique key.

        Args:
            options: those that the task was enqueued with; None if they are plain.
        """
        if not isinstance(reply, int):
            other, pairs = reply
            self.id = other.decode()
            self.is_duplicate = True
            self._load(task_records.fields_of(pairs), ())
            return
        self._fields[Field.enqueued_at_us] = str(reply).encode()
        if options is None or (options.run_after is None and options.expires is None):
            return
        for field, at_ms in ((Field.due_at_ms, options.due_ms(reply)), (Field.expiry, options.expiry_ms(reply))):
            if at_ms is not None:
                self._fields[field] = str(at_ms).encode()

    def _add_run(self, fields: Mapping[str, bytes], failures: Sequence[bytes]) -> None:
        """Record the outcome of a run, in the process that runs the task."""
        earlier, ids = self._workers()
        workers = ",".join([*([f"+{earlier}"] if earlier else []), *ids]).encode()
        counts = {}
        if fields[Field.state] != State.successful.encode():  # see `TaskRecord._count`
            counts = {name: str(self._count(name)).encode() for name in (Field.attempts, Field.runs)}
        self._fields |= {Field.worker_ids: workers, **counts, **fields}
        self._failures += failures

    def _set_flow(self, flow_id: str, number: int, *, is_waiting: bool) -> None:
        """Record the flow that the task is enqueued with."""
        self._fields[Field.flow_ref] = f"{flow_id}/{number}".encode()
        if is_waiting:
            self._fields[Field.state] = b"waiting"


def get_result(task_id: str, *, using: str = "default") -> TaskResult:
    """Return the result of any task, by its id.

    Args:
        using: alias of the connection that the task was enqueued over.

    Raises:
        TaskResultDoesNotExist: no task has this id, or its result has expired.
    """
    return run_over(using, _read(using, task_id))


async def aget_result(task_id: str, *, using: str = "default") -> TaskResult:
    """See `get_result`."""
    return await arun_over(using, _read(using, task_id))


def _read(using: str, task_id: str) -> Flow[TaskResult]:
    shard, fields, failures = yield from task_records.find(shards_of(using), task_id)
    name = fields[Field.task_name].decode()
    return TaskResult(registry.find(name), name, task_id, shard, fields, failures)


def due_of(run_after: datetime | Seconds) -> str:
    """Return a due time as scripts take it.

    Raises:
        InvalidTask: it is not a valid time.
    """
    if run_after is None:
        raise InvalidTask("run_after=None: expected a datetime or seconds. run_now() makes the task due at once.")
    return TaskOptions(run_after=run_after).due()

"""Errors of the task queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.exceptions import BaseInterruption, Interruption, RedisComponentsError


class TaskQueueError(RedisComponentsError):
    """Base class of the errors of the task queue."""


class InvalidTask(TaskQueueError):
    """Raised when a function cannot be a task, an option's value is not accepted, or a name is taken."""


class SealedArguments(TaskQueueError):
    """Raised when the arguments of a task are sealed, and no key of this process opens them."""


class UnknownQueue(TaskQueueError):
    """Raised when a queue is not one of those that the site declares in TASKQUEUE["QUEUES"].

    Attributes:
        name: the requested queue.
    """

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f'Queue {name!r} is not in REDIS_COMPONENTS["TASKQUEUE"]["QUEUES"]. {hint}')
        self.name = name


class PartiallyEnqueued(TaskQueueError, RedisError):
    """Raised when Redis failed between the parts of `enqueue_many`; `__cause__` is the error.

    Attributes:
        accepted: results of the tasks that Redis accepted, in the order of the calls.
        unconfirmed: results of the part that was sent but not answered; all of them are accepted, or none.
        not_sent: results of the other tasks; none of them is accepted.
    """

    def __init__(
        self,
        *,
        accepted: list[Any],
        unconfirmed: list[Any],
        not_sent: list[Any],
        resend: Callable[[], list[Any]],
        aresend: Callable[[], Awaitable[list[Any]]],
    ) -> None:
        super().__init__(
            f"Redis failed during enqueue_many(): {len(accepted)} tasks were accepted, {len(unconfirmed)} are"
            f" unconfirmed and {len(not_sent)} were not sent. resend() sends the last two with the same ids."
        )
        self.accepted, self.unconfirmed, self.not_sent = accepted, unconfirmed, not_sent
        self._resend, self._aresend = resend, aresend

    def resend(self) -> list[Any]:
        """Send `unconfirmed` and `not_sent` again, and return their results.

        The tasks keep their ids, so none is accepted twice as long as its result has not expired.

        Raises:
            PartiallyEnqueued, redis.exceptions.RedisError: as `enqueue_many`.
        """
        return self._resend()

    async def aresend(self) -> list[Any]:
        """See `resend`."""
        return await self._aresend()


class TaskIdConflict(TaskQueueError):
    """`using(id=…)` names a task that exists with another function or other arguments. Nothing was enqueued.

    Attributes:
        id: the task's id.
    """

    def __init__(self, task_id: str, name: str) -> None:
        super().__init__(
            f"Task id {task_id!r} belongs to another call, of {name}. Derive the id from everything that differs"
            " between calls."
        )
        self.id = task_id


class TaskResultDoesNotExist(TaskQueueError):
    """Raised when no task has this id: it was never accepted, or its result has expired.

    Attributes:
        id: the requested id.
    """

    def __init__(self, task_id: str) -> None:
        super().__init__(f"There is no task {task_id!r}: it was never accepted, or its result has expired.")
        self.id = task_id


class TaskResultMismatch(TaskQueueError):
    """Raised by `Task.get_result` when the id belongs to another task."""


class TaskNotFinished(TaskQueueError, ValueError):
    """Raised when a return value is read before the task has finished."""


class TaskFailed(TaskQueueError, ValueError):
    """Raised when the return value of a failed task is read; the result's errors have the reasons."""


class WaitTimeout(TaskQueueError, TimeoutError):
    """Raised by `TaskResult.get` when the task does not finish in time."""


class WorkerLost(TaskQueueError):
    """A task failed because `max_deliveries` workers died, or lost their lease, while they ran it.

    Never raised; recorded among the errors of the task's result.
    """


class SoftTimeLimitExceeded(Interruption):
    """Raised inside a task that has run longer than its soft time limit; the task may clean up and return.

    Not a `TimeoutError`, which is an `OSError`: code that waits on a socket would handle it and retry. Not a
    `TaskQueueError` either: see `core.exceptions.Interruption`.
    """


class TimeLimitExceeded(TaskQueueError, TimeoutError):
    """A task ran longer than its hard time limit, and its process was killed.

    Never raised; recorded among the errors of the task's result.
    """


class ResultTooLarge(TaskQueueError):
    """A task returned more than TASKQUEUE["MAX_RESULT_BYTES"] of JSON. It fails and is not retried.

    Recorded among the errors of the task's result.

    Attributes:
        size: size of the result in bytes.
        limit: maximum size in bytes.
    """

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"The return value is {size:,} bytes of JSON: at most {limit:,} are kept"
            ' (TASKQUEUE["MAX_RESULT_BYTES"]). Store the data and return its id.'
        )
        self.size = size
        self.limit = limit


class OutcomeRefused(TaskQueueError):
    """A task has run, but Redis rejected its outcome; the message has the server's error.

    Never raised; recorded among the errors of the task's result.
    """


class TaskCancelled(BaseInterruption):
    """Raised inside a running task that is cancelled, if it runs in a thread. Do not suppress it."""


class TaskInterrupted(BaseInterruption):
    """Raised by `TaskContext.iterate` when the worker stops. Do not suppress it.

    The task returns to the head of its queue, uses no attempt, and continues at its cursor.
    """


class WorkerDoesNotExist(TaskQueueError):
    """Raised when a command cannot reach a worker: no worker has this id, it is lost, or it does not read commands."""


class NotScheduled(TaskQueueError):
    """Raised by `reschedule` when the task is not scheduled: it is ready, running or finished."""


class NotPending(TaskQueueError):
    """Raised by `update` when the task is not pending: it runs, has finished or was purged.

    Attributes:
        id: the task's id.
        state: its state.
    """

    def __init__(self, task_id: str, state: str) -> None:
        how = "was purged" if state in ("ready", "scheduled", "retrying") else f"is {state}"
        super().__init__(f"Task {task_id} cannot be changed: it {how}. Only pending tasks can be.")
        self.id, self.state = task_id, state


class UniqueKeyConflict(TaskQueueError):
    """Raised by `update` when another task has the unique key that the task would have with its new arguments.

    Attributes:
        id: the task's id.
        holder_id: id of the task that has the key.
    """

    def __init__(self, task_id: str, holder_id: str) -> None:
        super().__init__(
            f"Task {task_id} cannot be changed: task {holder_id} has its new unique key. Cancel one of them."
        )
        self.id, self.holder_id = task_id, holder_id


class ParentFailed(TaskQueueError):
    """A task of a flow did not run because an earlier task failed, expired, or was cancelled or deleted.

    Never raised; recorded among the errors of the task's result.
    """


class ScheduleDoesNotExist(TaskQueueError):
    """Raised when no schedule has this name: no poller has registered it, and it was not added at run time.

    Attributes:
        name: the requested name.
    """

    def __init__(self, name: str, hint: str = "") -> None:
        text = f"There is no schedule {name!r}: no poller has registered it, and it was not added. {hint}"
        super().__init__(text.rstrip())
        self.name = name


class FlowDoesNotExist(TaskQueueError):
    """Raised when no flow has this id: it was never accepted, or has expired.

    Attributes:
        id: the requested id.
    """

    def __init__(self, flow_id: str) -> None:
        super().__init__(f"There is no flow {flow_id!r}: it was never accepted, or has expired.")
        self.id = flow_id


class GroupNotOpen(TaskQueueError):
    """Raised when a run adds tasks to its group, and its task is in no group of a flow, or the group is complete.

    Attributes:
        id: the task's id.
    """

    def __init__(self, task_id: str, reason: str) -> None:
        super().__init__(f"Task {task_id} cannot add tasks to its group: {reason}")
        self.id = task_id


class PartlyDone(TaskQueueError, RedisError):
    """Raised when an operation on a queue was done in some shards and failed in others. Repeating it completes it.

    Attributes:
        done: names of the shards in which it was done.
        failed: the errors of the others, by their names.
    """

    def __init__(self, done: Sequence[str], failed: Mapping[str, Exception]) -> None:
        errors = "; ".join(f"shard {name}: {error}" for name, error in failed.items())
        super().__init__(f"Done in shard {', '.join(done)}, and not elsewhere ({errors}). Repeat it to complete it.")
        self.done = list(done)
        self.failed = dict(failed)


class ParentsLost(TaskQueueError):
    """Raised when the results of the tasks before this one are no longer in Redis."""


class LeaseLost(TaskQueueError):
    """Raised when a run that has lost its lease writes: it had stalled, or the task was cancelled.

    Attributes:
        id: the task's id.
    """

    def __init__(self, task_id: str) -> None:
        super().__init__(f"The run of task {task_id} has lost its lease; the task may be running on another worker.")
        self.id = task_id

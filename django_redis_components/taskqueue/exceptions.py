"""Errors of the task queue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.exceptions import Interruption, RedisComponentsError


class TaskQueueError(RedisComponentsError):
    """Branch of all errors of the task queue."""


class InvalidTask(TaskQueueError):
    """A function cannot be a task, an option has a value that is not accepted, or a name is taken."""


class UnknownQueue(TaskQueueError):
    """A queue name is not among those that the site declared in TASKQUEUE["QUEUES"].

    Attributes:
        name: the queue asked for.
    """

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f'Queue {name!r} is not in REDIS_COMPONENTS["TASKQUEUE"]["QUEUES"]. {hint}')
        self.name = name


class PartiallyEnqueued(TaskQueueError, RedisError):
    """`enqueue_many` sent its tasks in several parts, and Redis failed in between; the cause says how.

    Attributes:
        accepted: results of the tasks that Redis accepted, in order of the calls.
        unconfirmed: results of those whose part was sent and not answered: all of them are accepted, or none is.
        not_sent: results of the others. None of these is accepted.
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
            f"Redis failed while tasks were sent in parts: {len(accepted)} are accepted, {len(unconfirmed)} perhaps,"
            f" and {len(not_sent)} were not sent. resend() sends all but the accepted ones under the same ids."
        )
        self.accepted, self.unconfirmed, self.not_sent = accepted, unconfirmed, not_sent
        self._resend, self._aresend = resend, aresend

    def resend(self) -> list[Any]:
        """Send `unconfirmed` and `not_sent` again, and return their results.

        Redis knows the ids of tasks that it accepted, until their results expire: none is accepted twice.

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
    """There is no task with this id: it was never accepted, or its result has expired.

    Attributes:
        id: the id asked for.
    """

    def __init__(self, task_id: str) -> None:
        super().__init__(f"There is no task {task_id!r}: it was never accepted, or its result has expired.")
        self.id = task_id


class TaskResultMismatch(TaskQueueError):
    """A result was asked for through another task than the one it belongs to."""


class TaskNotFinished(TaskQueueError, ValueError):
    """A return value was read before the task finished."""


class TaskFailed(TaskQueueError, ValueError):
    """A return value was read of a task that failed; its errors say why."""


class WaitTimeout(TaskQueueError, TimeoutError):
    """`TaskResult.get` timed out before the task finished."""


class WorkerLost(TaskQueueError):
    """The workers that ran a task died, or lost their lease, as often as `max_deliveries` allows.

    It is never raised; it stands among the errors of the task's result.
    """


class SoftTimeLimitExceeded(Interruption):
    """A task ran longer than its soft time limit. Raised inside the task, which may tidy up and end.

    No `TimeoutError`, which is an `OSError`: whatever waits at a socket would take it for its own and try again. And no
    `TaskQueueError`: see `core.exceptions.Interruption`.
    """


class TimeLimitExceeded(TaskQueueError, TimeoutError):
    """A task ran longer than its hard time limit, and its process was ended.

    It is never raised; it stands among the errors of the task's result.
    """


class ResultTooLarge(TaskQueueError):
    """A task returned more than TASKQUEUE["MAX_RESULT_BYTES"] of JSON. It has failed, and is not tried again.

    It stands among the errors of the task's result.

    Attributes:
        size: bytes of the result.
        limit: bytes that are accepted.
    """

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"The return value is {size:,} bytes of JSON: at most {limit:,} are kept"
            ' (TASKQUEUE["MAX_RESULT_BYTES"]). Store the data and return its id.'
        )
        self.size = size
        self.limit = limit


class OutcomeRefused(TaskQueueError):
    """A task has run, but Redis refused to store its outcome; the message has the server's answer.

    It is never raised; it stands among the errors of the task's result.
    """


class TaskCancelled(BaseException):
    """A running task was cancelled. Raised inside a task that runs in a thread; let it pass."""


class NotScheduled(TaskQueueError):
    """A task waits for no time: it is ready, runs, or has finished."""


class ParentFailed(TaskQueueError):
    """A task of a flow was not run, because one that comes before it failed, was cancelled, expired or was deleted.

    It is never raised; it stands among the errors of the task's result.
    """


class FlowDoesNotExist(TaskQueueError):
    """There is no flow with this id: it was never accepted, or has expired.

    Attributes:
        id: the id asked for.
    """

    def __init__(self, flow_id: str) -> None:
        super().__init__(f"There is no flow {flow_id!r}: it was never accepted, or has expired.")
        self.id = flow_id


class ParentsLost(TaskQueueError):
    """What the tasks before this one returned is not in Redis any more."""


class LeaseLost(TaskQueueError):
    """A run of a task wants to write, and the task is not its own any more: it was stalled, or the task was cancelled.

    Attributes:
        id: the task's id.
    """

    def __init__(self, task_id: str) -> None:
        super().__init__(f"Task {task_id} is not this worker's any more: its lease is lost. It may run elsewhere.")
        self.id = task_id

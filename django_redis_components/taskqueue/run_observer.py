"""One run of a task, for those who have their own idea of it (`Task.begin`), and for the code that runs in it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

from django_redis_components.taskqueue.store.job import Job


class CurrentRun(Protocol):
    """The run that the running code belongs to.

    Attributes:
        job: the leased task.
        cancel_asked: whether somebody wants the task to end.
    """

    job: Job
    cancel_asked: bool


#: Set while a task's function runs, also in threads that `sync_to_async` uses for a coroutine.
current_run: ContextVar[CurrentRun] = ContextVar("django_redis_components.taskqueue.run")


class Attempt(Protocol):
    """What the executor asks of a run that is more than a call of the function.

    Attributes:
        args: what the function is called with; a context may stand first.
        logs_failure: whether `ended` itself logs that the task has failed.
    """

    args: list[Any]
    logs_failure: bool

    def returned(self, value: Any) -> Any:
        """What is kept of the function's return value, before it is checked to be JSON.

        Raises:
            TypeError: it cannot be kept; the task has failed.
        """
        ...

    def ended(self, outcome: str, exc: BaseException | None) -> None:
        """Hear of the outcome (`jobs.Ack`) before Redis does; inside the except block if there is an exception."""
        ...

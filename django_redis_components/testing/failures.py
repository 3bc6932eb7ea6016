"""Records the exceptions of tasks that run in a test. The executor itself keeps only their text."""

from __future__ import annotations

from typing import Any

from django_redis_components.taskqueue.worker import execution


class FailureRecorder:
    """Context manager that records the exception of each task that fails for good, by task id."""

    def __init__(self) -> None:
        self._exceptions: dict[str, BaseException] = {}
        self._previous_hook: Any = None

    def __enter__(self) -> FailureRecorder:
        self._previous_hook, execution.failure_hook = execution.failure_hook, self._record
        return self

    def __exit__(self, *_: object) -> None:
        execution.failure_hook = self._previous_hook

    def of(self, task_id: str) -> BaseException | None:
        """Return the exception of a task, or None if it has not failed."""
        return self._exceptions.get(task_id)

    def _record(self, task_id: str, exc: BaseException) -> None:
        self._exceptions[task_id] = exc

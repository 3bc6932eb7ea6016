"""Records the exceptions of tasks that run in a test. The executor itself keeps only their text."""

from __future__ import annotations

from django_redis_components.taskqueue.middleware import Middleware, RunContext, RunOutcome, pipeline


class FailureRecorder(Middleware):
    """Context manager that records the exception of each task that fails for good, by task id."""

    def __init__(self) -> None:
        self._exceptions: dict[str, BaseException] = {}

    def __enter__(self) -> FailureRecorder:
        pipeline.install(self)
        return self

    def __exit__(self, *_: object) -> None:
        pipeline.uninstall(self)

    def of(self, task_id: str) -> BaseException | None:
        """Return the exception of a task, or None if it has not failed."""
        return self._exceptions.get(task_id)

    def on_outcome(self, run: RunContext, outcome: RunOutcome) -> None:
        """Record a failure."""
        if outcome.name == "failed" and outcome.exception is not None:
            self._exceptions[run.id] = outcome.exception

"""Connects a run in a worker to the framework: context, signals and return value."""

from __future__ import annotations

from typing import Any

from django.dispatch import Signal
from django.utils import timezone

from django_redis_components.contrib.django_tasks.framework import Framework
from django_redis_components.taskqueue import logs
from django_redis_components.taskqueue.failure import describe
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.states import Outcome
from django_redis_components.taskqueue.store.job import Job


class SignalObserver:
    """Sends the framework's signals around a run.

    Receivers are called robustly: an error in one is logged (`django.dispatch`) and changes nothing
    about the task. The framework logs the failure of a task when it receives `task_finished`.

    Attributes:
        args: arguments of the function, including the context.
    """

    __slots__ = ("_framework", "_job", "_result", "_sender", "_value", "args")
    logs_failure = True

    def __init__(self, framework: Framework, sender: type[Any], job: Job, result: Any, args: list[Any]) -> None:
        """Send `task_started`.

        Args:
            result: the framework's result, with status RUNNING. The observer updates it.
        """
        self._framework = framework
        self._sender = sender
        self._job = job
        self._result = result
        self._value: Any = None
        self.args = [framework.context(task_result=result), *args] if result.task.takes_context else args
        self._send(framework.started)

    def convert(self, value: Any) -> Any:
        """Return the value as the framework normalizes it."""
        self._value = self._framework.normalize(value)
        return self._value

    def on_finish(self, outcome: str, exc: BaseException | None) -> None:
        """Send `task_finished` if the task has finished; not before a retry."""
        if outcome == Outcome.succeeded:
            object.__setattr__(self._result, "_return_value", self._value)
            self._finish("SUCCESSFUL")
        elif outcome == Outcome.failed and exc is not None:
            details = describe(exc)
            error = self._framework.error(
                exception_class_path=details["exception_class_path"], traceback=details["traceback"]
            )
            self._result.errors.append(error)
            self._finish("FAILED")

    def _finish(self, status: str) -> None:
        object.__setattr__(self._result, "finished_at", timezone.now())
        object.__setattr__(self._result, "status", self._framework.status(status))
        self._send(self._framework.finished)

    def _send(self, signal: Signal) -> None:
        with logs.about(self._job):
            try:
                signal.send_robust(self._sender, task_result=self._result)
            except BaseException:  # `send_robust` lets SystemExit and the like through
                logger.exception("A receiver of a signal of task %s ended the sending.", self._job.id)

"""One run of a task in a worker, as the framework sees it: context, signals, return value."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from django_redis_components.contrib.django_tasks.framework import Framework
from django_redis_components.taskqueue import logs
from django_redis_components.taskqueue.failure import describe
from django_redis_components.taskqueue.store.job import Job


class SignalObserver:
    """Sends the framework's signals around a run.

    Receivers are called robustly: an error in one is logged (`django.dispatch`) and changes nothing
    about the task. The framework logs that a task has failed, when it hears of it.

    Attributes:
        args: what the function is called with.
    """

    __slots__ = ("_framework", "_job", "_result", "_sender", "_value", "args")
    logs_failure = True

    def __init__(self, framework: Framework, sender: type[Any], job: Job, result: Any, args: list[Any]) -> None:
        """Args: result: the framework's, with status RUNNING; it is kept up to date here."""
        self._framework = framework
        self._sender = sender
        self._job = job
        self._result = result
        self._value: Any = None
        self.args = [framework.context(task_result=result), *args] if result.task.takes_context else args
        with logs.about(job):
            framework.started.send_robust(sender, task_result=result)

    def convert(self, value: Any) -> Any:
        """The value as the framework normalises it."""
        self._value = self._framework.normalise(value)
        return self._value

    def on_finish(self, outcome: str, exc: BaseException | None) -> None:
        """Send `task_finished` if the task has finished: not when it will be tried again."""
        if outcome == "ok":
            object.__setattr__(self._result, "_return_value", self._value)
            self._finish("SUCCESSFUL")
        elif outcome == "fail" and exc is not None:
            said = describe(exc)
            error = self._framework.error(
                exception_class_path=said["exception_class_path"], traceback=said["traceback"]
            )
            self._result.errors.append(error)
            self._finish("FAILED")

    def _finish(self, status: str) -> None:
        object.__setattr__(self._result, "finished_at", timezone.now())
        object.__setattr__(self._result, "status", self._framework.status(status))
        with logs.about(self._job):
            self._framework.finished.send_robust(self._sender, task_result=self._result)

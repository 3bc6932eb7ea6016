"""The middleware of the framework's tasks: context, signals and return value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.dispatch import Signal
from django.utils import timezone

from django_redis_components.contrib.django_tasks import records
from django_redis_components.contrib.django_tasks.framework import DEFAULT_ALIAS
from django_redis_components.core import serialization
from django_redis_components.taskqueue import logs
from django_redis_components.taskqueue.failure import describe
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.middleware import Middleware, RunContext, RunOutcome

#: Key of the backend's class and the framework's result among the values of a run.
_RESULT = "django_redis_components.contrib.django_tasks"


class SendFrameworkSignals(Middleware):
    """Connects the runs of a `RegisteredTask` to the framework.

    Receivers are called robustly: an error in one is logged (`django.dispatch`) and changes nothing about the task.
    The framework logs the failure of a task when it receives `task_finished`.
    """

    logs_failures = True

    def around_run(self, run: RunContext, call_next: Callable[[], Any]) -> Any:
        """Send `task_started`, pass the framework's context, and normalize the return value."""
        self._start(run)
        return run.task.framework.normalize(call_next())

    async def aaround_run(self, run: RunContext, call_next: Callable[[], Awaitable[Any]]) -> Any:
        """See `around_run`."""
        callback = self._start
        await sync_to_async(callback)(run)
        return run.task.framework.normalize(await call_next())

    def on_outcome(self, run: RunContext, outcome: RunOutcome) -> None:
        """Send `task_finished` if the task has finished; not before a retry."""
        _sender, result = run.values.get(_RESULT, (None, None))
        if result is None:  # the run ended before it reached this middleware
            return
        if outcome.name == "succeeded":
            object.__setattr__(result, "_return_value", serialization.decode(outcome.payload))
            _finish(run, result, "SUCCESSFUL")
        elif outcome.name == "failed" and outcome.exception is not None:
            details = describe(outcome.exception)
            error = run.task.framework.error(
                exception_class_path=details["exception_class_path"], traceback=details["traceback"]
            )
            result.errors.append(error)
            _finish(run, result, "FAILED")

    def _start(self, run: RunContext) -> None:
        entry, job = run.task, run._job
        headers = run._options.get(records.HEADERS_KEY, {})
        sender, _ = entry.backend(headers.get("backend", DEFAULT_ALIAS))
        task = entry.sent(job.queue, headers)
        if job.runs:
            result = records.result_of(entry.framework, task, run.task_result)
        else:
            result = records.running(entry.framework, task, job, run.args, run.kwargs)
        run.values[_RESULT] = sender, result
        if task.takes_context:
            run.args = [entry.framework.context(task_result=result), *run.args]
        with logs.about(job):
            _send(run, entry.framework.started)


def _finish(run: RunContext, result: Any, status: str) -> None:
    object.__setattr__(result, "finished_at", timezone.now())
    object.__setattr__(result, "status", run.task.framework.status(status))
    _send(run, run.task.framework.finished)


def _send(run: RunContext, signal: Signal) -> None:
    sender, result = run.values[_RESULT]
    try:
        signal.send_robust(sender, task_result=result)
    except BaseException:  # `send_robust` lets SystemExit and the like through
        logger.exception("A receiver of a signal of task %s ended the sending.", run.id)

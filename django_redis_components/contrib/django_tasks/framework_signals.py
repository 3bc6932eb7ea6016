"""The middleware of the framework's tasks: context, signals and return value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.dispatch import Signal
from django.utils import timezone

from django_redis_components.contrib.django_tasks import records
from django_redis_components.contrib.django_tasks.framework import DEFAULT_ALIAS
from django_redis_components.core import serialization
from django_redis_components.taskqueue import logs
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.middleware import Middleware, RunContext, RunOutcome
from django_redis_components.taskqueue.signals import call_in_except_block
from django_redis_components.taskqueue.store.job import Ack

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
        """Have `task_finished` sent when Redis has stored that the task has finished; not before a retry."""
        # A run that ended before it reached this middleware has no result.
        if _RESULT in run.values and outcome.name in ("succeeded", "failed"):
            run._job.on_stored = partial(_finish, run, outcome.exception)

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


def _finish(run: RunContext, exc: BaseException | None, ack: Ack) -> None:
    """Send `task_finished` with the outcome that Redis has stored, within the except block of a failure."""
    framework, (_sender, result) = run.task.framework, run.values[_RESULT]
    stored, has_succeeded = serialization.decode(ack.payload), ack.outcome == "succeeded"
    if has_succeeded:
        object.__setattr__(result, "_return_value", stored)
    else:  # also if Redis has refused the return value
        path, traceback = stored["exception_class_path"], stored["traceback"]
        result.errors.append(framework.error(exception_class_path=path, traceback=traceback))
    object.__setattr__(result, "finished_at", timezone.now())
    object.__setattr__(result, "status", framework.status("SUCCESSFUL" if has_succeeded else "FAILED"))
    with logs.about(run._job):
        call_in_except_block(exc, partial(_send, run, framework.finished))


def _send(run: RunContext, signal: Signal) -> None:
    sender, result = run.values[_RESULT]
    try:
        signal.send_robust(sender, task_result=result)
    except BaseException:  # `send_robust` lets SystemExit and the like through
        logger.exception("A receiver of a signal of task %s ended the sending.", run.id)

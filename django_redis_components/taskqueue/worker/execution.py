"""Run a job in a thread or on an event loop, and return its outcome as an `Ack`. Does not access Redis."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from redis.exceptions import RedisError

from django_redis_components.core import conf, failpoints, serialization
from django_redis_components.core.exceptions import TryLater
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.taskqueue import logs, registry, retry, tracing
from django_redis_components.taskqueue.context import RunObserver, observer_for
from django_redis_components.taskqueue.exceptions import (
    ResultTooLarge,
    SoftTimeLimitExceeded,
    TaskCancelled,
    TimeLimitExceeded,
)
from django_redis_components.taskqueue.failure import describe
from django_redis_components.taskqueue.flows import parents
from django_redis_components.taskqueue.json_codec import pack
from django_redis_components.taskqueue.log_handler import log_success
from django_redis_components.taskqueue.options import RESULT_TTL_S, TimeLimits, time_limits_of
from django_redis_components.taskqueue.stats.fingerprint import fingerprint
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker import db_connections
from django_redis_components.taskqueue.worker.interruption import CoroutineRun, ThreadRun

logger = logging.getLogger("django_redis_components.taskqueue")

#: Delay of a task that raised `TryLater` without one, in seconds.
TRY_LATER_S = 1.0

#: Set by `testing` only, while a task runs in the thread of a test. Called with the id of a task that has finally
#: failed and the exception. Database connections stay open then: closing them would end the test's transaction.
failure_hook: Callable[[str, BaseException], None] | None = None


class _RedisUnavailableError(BaseException):
    """Redis did not answer before the task started. The task is not at fault."""


@lru_cache(maxsize=1_024)
def _is_coroutine_function(func: Any) -> bool:
    return inspect.iscoroutinefunction(func)


@lru_cache(maxsize=1_024)
def _result_ttl_ms(ttl: Seconds) -> int:
    return to_ms(ttl, "result_ttl")


def is_coroutine(job: Job) -> bool:
    """Return whether the job's task is a coroutine function."""
    task = registry.find(job.name)
    return task is not None and _is_coroutine_function(task.func)


def execute(job: Job, run: ThreadRun | None = None) -> Ack:
    """Run the job's function in this thread, and close stale database connections before and after it."""
    task = registry.find(job.name)
    if task is None:
        message = "Task %s[%s] cannot run: no task of this name is registered in this worker."
        logger.warning(message, job.name, job.id, extra=logs.facts(job, "unregistered"))
        return Ack(job.id, job.token, "unregister")
    run = run or ThreadRun(job)
    ack = _run(Execution(job, task), run)
    try:
        if run.interrupted:  # the interruption may have left a connection in the middle of a reply
            db_connections.close_all()
        elif failure_hook is None:
            db_connections.close_stale()
    except Exception:  # it must not change the outcome; the next task raises its own error
        logger.exception("Cannot close a database connection after task %s[%s].", job.name, job.id)
    return ack


def _run(execution: Execution, run: ThreadRun) -> Ack:
    try:
        if failure_hook is None:
            db_connections.close_stale_before_task()
        execution.start()
        func = async_to_sync(execution.func) if _is_coroutine_function(execution.func) else execution.func
        with execution.span():
            value = run.call(func, execution.args, execution.kwargs, execution.limits)
            failpoints.reach("after_run")
            ack = execution.success(value)
    except BaseException as exc:  # noqa: BLE001 - whatever a task raises is its outcome
        return execution.finish(execution.failure(exc), exc)
    return execution.finish(ack)


def prepare(job: Job) -> Execution | Ack:
    """Start a job whose coroutine runs on an event loop; return an ack if that fails."""
    execution = Execution(job, registry.find(job.name))
    try:
        execution.start()
    except BaseException as exc:  # noqa: BLE001 - whatever is raised is the task's outcome
        return execution.finish(execution.failure(exc), exc)
    return execution


async def execute_on_loop(execution: Execution, run: CoroutineRun) -> Ack:
    """Await the function of a started execution, with its own database connections."""
    async with db_connections.CoroutineThread():
        try:
            with execution.span():
                value = await run.call(execution.func, execution.args, execution.kwargs, execution.limits)
                failpoints.reach("after_run")
                ack = await execution.call_observer(execution.success, value)
        except BaseException as exc:  # noqa: BLE001 - whatever a task raises is its outcome
            return await execution.call_observer(execution.finish, execution.failure(exc), exc)
        return await execution.call_observer(execution.finish, ack)


class Execution:
    """A job and its task: the arguments of the call, and the outcome of its result.

    Attributes:
        limits: time limits of the run; None without any.
    """

    limits: TimeLimits | None = None
    args: list[Any]
    kwargs: dict[str, Any]
    _observer: RunObserver | None = None
    _options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, job: Job, task: Any) -> None:
        self._job = job
        self._task = task
        self._started_ns = time.perf_counter_ns()
        self.func: Callable[..., Any] = task.func

    def start(self) -> None:
        """Decode the message, and notify the observer of the run."""
        self._job.began = time.perf_counter()
        self.args, self.kwargs, options = self._job.message()
        if options:
            self._options = options
        if parents.has_inputs(options):
            self.args.insert(0, _parent_results(self._task, options))
        observer = observer_for(self._task, self._job, self.args, self.kwargs, options)
        if observer is not None:
            self._observer = observer
            self.args = observer.args
        timeout = options.get("timeout", self._task.options.timeout)
        if timeout is not None:
            limits = time_limits_of(timeout)
            self.limits = limits and limits._replace(retry_ms=_retry_after_kill_ms(self._job, self._task, options))
        failpoints.reach("before_run")

    def span(self) -> AbstractContextManager[None]:
        """Return the span of the run; it does nothing unless tracing is on."""
        return tracing.NO_SPAN if tracing.tracer is None else tracing.span_of(self._job, self._options)

    def success(self, value: Any) -> Ack:
        """Return the outcome of a function that returned a value."""
        if self._observer is not None:
            value = self._observer.convert(value)
        payload = serialization.encode(pack(value, "the return value"))
        limit = conf.settings().taskqueue.max_result_bytes
        if len(payload) > limit:
            raise ResultTooLarge(len(payload), limit)
        ttl_ms = _result_ttl_ms(self._options.get("result_ttl", self._task.options.result_ttl))
        log_success(self._job, round((time.perf_counter() - self._job.began) * 1_000_000))
        return Ack(self._job.id, self._job.token, "ok", payload, ttl_ms=ttl_ms)

    def failure(self, exc: BaseException) -> Ack:
        """Return the outcome of a function that raised, or whose return value cannot be stored."""
        job = self._job
        if isinstance(exc, _RedisUnavailableError):
            message = "Task %s[%s] returns to its queue: the results of its parents could not be read (%s)."
            logger.warning(message, job.name, job.id, exc, extra=logs.facts(job, "ready"))
            return Ack(job.id, job.token, "requeue")
        if isinstance(exc, TryLater):
            return _postpone(job, self._task, self._options, exc)
        if isinstance(exc, TaskCancelled):
            extra = logs.facts(job, "cancelled")
            logger.info("Task %s[%s] was cancelled after %.3f s.", job.name, job.id, extra["duration"], extra=extra)
            return cancelled(job.id, job.token)
        if isinstance(exc, SoftTimeLimitExceeded) and not exc.args and self.limits is not None:
            exc.args = (f"The task ran longer than its soft time limit of {self.limits.soft_s:g} s.",)
        observer_logs = self._observer is not None and self._observer.logs_failure
        return _fail_or_retry(job, self._task, self._options, exc, observer_logs=observer_logs)

    def finish(self, ack: Ack, exc: BaseException | None = None) -> Ack:
        """Notify the observer, which cannot change the outcome; return the ack with the duration of the run."""
        ack = ack.after((time.perf_counter_ns() - self._started_ns) // 1_000)
        if self._observer is not None:
            try:
                self._observer.on_finish(ack.outcome, exc)
            except BaseException:
                logger.exception("An observer of task %s failed after its end (%s).", ack.id, ack.outcome)
        return ack

    async def call_observer(self, observed_step: Callable[..., Ack], *args: Any) -> Ack:
        """Call `success` or `finish` from a coroutine; in its synchronous thread if the run has an observer."""
        if self._observer is None:
            return observed_step(*args)
        return await sync_to_async(observed_step)(*args)


def timed_out(task_id: str, token: str, hard_s: float, retry_ms: int | None) -> Ack:
    """Return the outcome of a run whose process was terminated because of the hard time limit."""
    exc = TimeLimitExceeded(
        f"The task ran longer than its hard time limit of {hard_s:g} s, and its process was terminated."
    )
    payload = serialization.encode(describe(exc))
    ttl_ms = to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl")
    outcome = "fail" if retry_ms is None else "retry"
    ack = Ack(task_id, token, outcome, payload, retry_ms or 0, ttl_ms, fingerprint(exc))
    return ack.after(round(hard_s * 1_000_000))


def cancelled(task_id: str, token: str) -> Ack:
    """Return the outcome of a run that was cancelled."""
    return Ack(task_id, token, "cancel", ttl_ms=_result_ttl_ms(RESULT_TTL_S))


def _parent_results(task: Any, options: dict[str, Any]) -> Any:
    try:
        return parents.read_inputs(task.connection, options)
    except RedisError as exc:
        raise _RedisUnavailableError(str(exc)) from exc


def _postpone(job: Job, task: Any, options: Mapping[str, Any], exc: TryLater) -> Ack:
    try:
        delay_ms = to_ms(TRY_LATER_S if exc.delay_s is None else exc.delay_s, "delay", zero=True)
    except (TypeError, ValueError) as invalid:
        return _fail_or_retry(job, task, options, invalid)
    message = "Task %s[%s] is postponed by %.3g s: %s"
    logger.info(message, job.name, job.id, delay_ms / 1_000, exc.reason, extra=logs.facts(job, "scheduled"))
    return Ack(job.id, job.token, "reschedule", delay_ms=delay_ms)


def _fail_or_retry(
    job: Job, task: Any, options: Mapping[str, Any], exc: BaseException, *, observer_logs: bool = False
) -> Ack:
    """
    Args:
        observer_logs: the observer of the run logs the failure with its traceback. One error is reported once.
    """
    payload = serialization.encode(describe(exc))
    ttl_ms = to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl")
    attempt = job.attempts + 1
    allowed = options.get("max_attempts", task.options.max_attempts)
    delay_s = None
    if attempt < allowed and isinstance(exc, Exception) and not isinstance(exc, ResultTooLarge):
        delay_s = _delay_s(job, options.get("backoff", task.options.backoff), exc, attempt)
    if delay_s is None:
        if failure_hook is not None:
            failure_hook(job.id, exc)
        level, shown = (logging.INFO, None) if observer_logs else (logging.ERROR, exc)
        message, extra = "Task %s[%s] failed (attempt %d of %d) after %.3f s.", logs.facts(job, "failed")
        values = (job.name, job.id, attempt, allowed, extra["duration"])
        logger.log(level, message, *values, exc_info=shown, extra=extra)
        return Ack(job.id, job.token, "fail", payload, ttl_ms=ttl_ms, note=fingerprint(exc))
    extra = logs.facts(job, "retrying")
    message = "Task %s[%s] raised %r (attempt %d of %d) after %.3f s; retrying in %.3g s."
    logger.warning(message, job.name, job.id, exc, attempt, allowed, extra["duration"], delay_s, extra=extra)
    return Ack(job.id, job.token, "retry", payload, to_ms(delay_s, "backoff", zero=True), ttl_ms, fingerprint(exc))


def _retry_after_kill_ms(job: Job, task: Any, options: Mapping[str, Any]) -> int | None:
    """Return the delay of the retry after the process was terminated; None if the task fails then.

    The supervisor runs no code of the site, so a callable backoff is replaced by the default one.
    """
    attempt = job.attempts + 1
    if attempt >= options.get("max_attempts", task.options.max_attempts):
        return None
    backoff = options.get("backoff", task.options.backoff)
    known = backoff if isinstance(backoff, retry.exponential) or not callable(backoff) else None
    seconds = retry.delay_of(known, TimeLimitExceeded(), retry.Tried(job.id, job.name, attempt))
    return None if seconds is None else to_ms(seconds, "backoff", zero=True)


def _delay_s(job: Job, backoff: Any, exc: BaseException, attempt: int) -> float | None:
    try:
        return retry.delay_of(backoff, exc, retry.Tried(job.id, job.name, attempt))
    except Exception:  # a broken backoff must not hide the task's own error
        logger.exception("The backoff of task %s raised an exception, so the task is not retried.", job.name)
        return None

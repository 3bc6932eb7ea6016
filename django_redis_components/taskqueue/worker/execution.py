"""Run a job in a thread or on an event loop, and return its outcome as an `Ack`. Does not access Redis."""

from __future__ import annotations

import asyncio
import decimal
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import copy_context
from functools import lru_cache, partial
from typing import Any, ParamSpec, TypeVar, cast

from asgiref.sync import async_to_sync, sync_to_async
from redis.exceptions import RedisError

from django_redis_components.core import serialization
from django_redis_components.core.exceptions import TaskDelayed
from django_redis_components.core.settings import conf
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.taskqueue import failpoints, logs, registry, retry
from django_redis_components.taskqueue.context import TaskContext
from django_redis_components.taskqueue.exceptions import (
    ResultTooLarge,
    SealedArguments,
    SoftTimeLimitExceeded,
    TaskCancelled,
    TaskInterrupted,
    TimeLimitExceeded,
)
from django_redis_components.taskqueue.failure import describe
from django_redis_components.taskqueue.flows import parents
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.json_codec import pack
from django_redis_components.taskqueue.log_handler import log_success
from django_redis_components.taskqueue.middleware import Middleware, RunContext, RunOutcome, pipeline
from django_redis_components.taskqueue.options import RESULT_TTL_S, TaskOptions, TimeLimits, time_limits_of
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.run_start import aresult_of_run, result_of_run
from django_redis_components.taskqueue.sealing import without_text
from django_redis_components.taskqueue.shards import Shard, home
from django_redis_components.taskqueue.states import SUCCEEDED, Outcome
from django_redis_components.taskqueue.stats.fingerprint import identify
from django_redis_components.taskqueue.store.job import MAX_LISTED_MESSAGE, Ack, Job
from django_redis_components.taskqueue.worker import db_connections, run_log
from django_redis_components.taskqueue.worker.interruption import CoroutineRun, ThreadRun

P = ParamSpec("P")
R = TypeVar("R")

#: Delay of a run that raised `TaskDelayed` without one, in seconds.
DELAY_S = 1.0


class _RedisUnavailableError(BaseException):
    """Redis did not answer before the task started. The task is not at fault."""


class _NoKeyError(BaseException):
    """No key of this worker opens the arguments. Another worker may have it."""


@lru_cache(maxsize=1_024)
def _is_coroutine_function(func: Any) -> bool:
    return inspect.iscoroutinefunction(func)


@lru_cache(maxsize=1_024)
def _result_ttl_ms(ttl: Seconds) -> int:
    return to_ms(ttl, "result_ttl")


def in_event_loop(func: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """Return a function that runs the coroutine function. Unlike `async_to_sync` it accepts an argument `self`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return async_to_sync(partial(func, *args, **kwargs))()

    return call


def is_coroutine(job: Job) -> bool:
    """Return whether the job's task is a coroutine function."""
    return is_coroutine_task(registry.find(job.name))


def is_coroutine_task(task: Any) -> bool:
    """Return whether a task is a coroutine function; None is not."""
    return task is not None and _is_coroutine_function(task.func)


def execute(job: Job, run: ThreadRun | None = None, task: Any = None) -> Ack:
    """Run the job's function in this thread, and close stale database connections before and after it.

    Args:
        run: the run, in a context for this job alone, so that its translation, time zone, decimal context and context
            variables do not reach the next job. None: create both.
        task: the job's task, if the caller has looked it up.
    """
    task = registry.find(job.name) if task is None else task
    if task is None:
        message = "Task %s[%s] cannot run: no task of this name is registered in this worker."
        logger.warning(message, job.name, job.id, extra=logs.facts(job, Outcome.unregistered))
        return Ack(job.id, job.token, Outcome.unregistered)
    if run is None:  # a worker's thread has a context for each job
        context = copy_context()
        context.run(decimal.setcontext, decimal.getcontext().copy())
        with db_connections.keep_transactions():
            return context.run(execute, job, ThreadRun(job), task)
    ack = _run(Execution(job, task), run)
    if run.interrupted:  # the interruption may have left a connection in the middle of a reply
        db_connections.close_all(job)
    else:
        db_connections.close_stale(job)
    return ack


def _run(execution: Execution, run: ThreadRun) -> Ack:
    try:
        db_connections.close_stale_before_task()
        if execution.start():
            execution.read()
        func = in_event_loop(execution.func) if _is_coroutine_function(execution.func) else execution.func
        if execution.context is None:
            ack = execution.success(run.call(func, execution.args, execution.kwargs, execution.limits))
        else:
            ack = execution.success(execution.call_in_middleware(execution.context, func, run))
    except BaseException as exc:  # noqa: BLE001 - whatever a task raises is its outcome
        return execution.finish(execution.failure(exc), exc)
    return execution.finish(ack)


async def execute_on_loop(execution: Execution, run: CoroutineRun) -> Ack:
    """Start an execution and await its function, with its own database connections.

    A neighbour may cancel all tasks of the loop at any time. After the function this changes nothing.
    """
    run.enter()
    try:
        try:
            if execution.start():
                await execution.aread()
            if execution.context is None:
                value = await run.call(execution.func, execution.args, execution.kwargs, execution.limits)
            else:
                value = await execution.acall_in_middleware(execution.context, execution.func, run)
            ack = execution.success(value)
        except BaseException as exc:  # noqa: BLE001 - whatever a task raises is its outcome
            ack = execution.failure(exc)
            return execution.finish(ack, exc) if execution.context is None else await execution.afinish(ack, exc)
        return execution.finish(ack) if execution.context is None else await execution.afinish(ack)
    finally:
        if run.executor is not None:
            executor, run.executor = run.executor, None  # a task that outlives the run gets another one
            await db_connections.close_coroutine_thread(executor, execution.job)


def failure_of(job: Job, exc: BaseException) -> Ack:
    """Return the outcome of a run that an error outside of the task's function has ended."""
    return Execution(job, registry.find(job.name)).failure(exc)


class Execution:
    """A job and its task: the arguments of the call, and the outcome of its result.

    Attributes:
        job: the job.
        limits: time limits of the run; None without any.
        context: of the run, for middleware; None without any.
        hides_text: whether errors are stored and logged without their text, although its arguments are not sealed.
        middleware: what surrounds the run, the outermost first.
    """

    limits: TimeLimits | None = None
    args: list[Any]
    kwargs: dict[str, Any]
    context: RunContext | None = None
    hides_text = False
    middleware: tuple[Middleware, ...] = ()
    task_context: TaskContext | None = None
    #: The options of the task, since `start`.
    _declared: TaskOptions

    def __init__(self, job: Job, task: Any) -> None:
        self.job = job
        self._task = task
        self._started_at = time.perf_counter()
        self._options: dict[str, Any] = {}
        self.func: Callable[..., Any] = task.func

    def start(self) -> bool:
        """Decode the message, and find middleware and time limits; return whether `read` must be called then."""
        self.job.began = self._started_at
        if logger.isEnabledFor(logging.DEBUG):
            values, extra = (self.job.name, self.job.id), logs.facts(self.job)
            logger.debug("Task %s[%s] starts (run %d).", *values, extra["run"], extra=extra)
        try:
            self.args, self.kwargs, options = self.job.message()
        except SealedArguments as exc:
            raise _NoKeyError(str(exc)) from None
        self._options = options
        self._declared = self._task.options
        self.middleware = pipeline.for_run(self._task)
        timeout = options.get("timeout", self._declared.timeout)
        if timeout is not None and (limits := time_limits_of(timeout)) is not None:
            self.limits = limits._replace(retry_ms=self.retry_after_kill_ms())
        if failpoints.hook is not None:
            failpoints.reach("before_run")
        if self.middleware or self._task.takes_context:
            return True
        return parents.has_inputs(options) if options else False

    def retry_after_kill_ms(self) -> int | None:
        """Return the delay of the retry after the process was terminated; None if the task fails then."""
        return _retry_after_kill_ms(self.job, self._task, self._options)

    def read(self) -> None:
        """Read what the function and its middleware get: the results of a flow, and the record of earlier runs."""
        if parents.has_inputs(self._options):
            try:
                self.args.insert(0, parents.read_inputs(self._shard(), self._options))
            except RedisError as exc:
                raise _RedisUnavailableError(str(exc)) from exc
        if self.middleware or self._task.takes_context:
            self._set_contexts(*result_of_run(self._task, self.job, self._task._connection_of(self._options)))

    def _shard(self) -> Shard:
        return self.job.shard or home(self._task._connection_of(self._options))

    async def aread(self) -> None:
        """See `read`."""
        if parents.has_inputs(self._options):
            try:
                self.args.insert(0, await parents.aread_inputs(self._shard(), self._options))
            except RedisError as exc:
                raise _RedisUnavailableError(str(exc)) from exc
        if self.middleware or self._task.takes_context:
            self._set_contexts(*await aresult_of_run(self._task, self.job, self._task._connection_of(self._options)))

    def call_in_middleware(self, context: RunContext, func: Callable[..., Any], run: ThreadRun) -> Any:
        """Call the function within the middleware, and return its value. Only the function can be interrupted."""

        def call_next() -> Any:
            return run.call(func, self._arguments_of(context), context.kwargs, self.limits)

        for each in reversed(self.middleware):
            call_next = partial(each.around_run, context, call_next)
        with logs.about(self.job):
            return call_next()

    async def acall_in_middleware(self, context: RunContext, func: Callable[..., Any], run: CoroutineRun) -> Any:
        """See `call_in_middleware`."""

        def call_next() -> Awaitable[Any]:
            return run.call(func, self._arguments_of(context), context.kwargs, self.limits)

        for each in reversed(self.middleware):
            call_next = partial(each.aaround_run, context, call_next)
        with logs.about(self.job):
            return await call_next()

    def success(self, value: Any) -> Ack:
        """Return the outcome of a function that returned a value, with the duration of the run."""
        if failpoints.hook is not None:
            failpoints.reach("after_run")
        job, options = self.job, self._options
        settings = conf.settings().taskqueue
        if settings.json_codec is None:
            plain = serialization.normalize(value, "the return value")
        else:
            plain = pack(value, "the return value")
        payload = serialization.encode(plain, "the return value")
        if len(payload) > settings.max_result_bytes:
            raise ResultTooLarge(len(payload), settings.max_result_bytes)
        ttl = self._declared.result_ttl
        ttl_ms = _result_ttl_ms(options.get("result_ttl", ttl) if options else ttl)
        job.ran_us = int((time.perf_counter() - self._started_at) * 1_000_000)
        return Ack(job.id, job.token, SUCCEEDED, payload, 0, ttl_ms, job.ran_us, job.body[:MAX_LISTED_MESSAGE])

    def failure(self, exc: BaseException) -> Ack:
        """Return the outcome of a function that raised, or whose return value cannot be stored. It never raises."""
        try:
            return self._failure(exc)
        except BaseException as new:  # noqa: BLE001 - it is logged
            message, job = "The outcome of task %s[%s] cannot be decided; the task fails.", self.job
            run_log.log_error(job, new, message, job.name, job.id)
            ttl_ms = to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl")
            shown = self._shown(exc)
            payload = serialization.encode(describe(shown))
            return Ack(job.id, job.token, Outcome.failed, payload, ttl_ms=ttl_ms, error=identify(shown))

    def finish(self, ack: Ack, exc: BaseException | None = None) -> Ack:
        """Log the outcome and notify the middleware, which cannot change it; return it with the duration of the run."""
        if exc is None and self.context is None:
            try:
                log_success(self.job)
            except BaseException:
                logger.exception("The success of task %s cannot be logged.", ack.id)
            return ack
        ack = self._after(ack)
        self._report(ack, exc)
        return ack

    async def afinish(self, ack: Ack, exc: BaseException | None = None) -> Ack:
        """See `finish`; middleware is notified in the coroutine's synchronous thread, and may use the ORM."""
        if not self.middleware and (self.task_context is None or not self.task_context._is_pending):
            return self.finish(ack, exc)
        ack, report = self._after(ack), self._report
        try:
            await sync_to_async(report)(ack, exc)
        except BaseException as new:  # noqa: BLE001 - a cancellation ends the wait; the middleware continues
            run_log.log_error(self.job, new, "The middleware of task %s was not waited for (%s).", ack.id, ack.outcome)
        return ack

    def _set_contexts(self, result: TaskResult, context: TaskContext | None) -> None:
        self.task_context = context
        self.context = RunContext(result, self.job, self.args, self.kwargs, self._options)

    def _arguments_of(self, run: RunContext) -> list[Any]:
        return run.args if self.task_context is None else [self.task_context, *run.args]

    def _after(self, ack: Ack) -> Ack:
        if ack.outcome not in (SUCCEEDED, Outcome.unregistered):
            self.job.ran_us = int((time.perf_counter() - self._started_at) * 1_000_000)
            return ack._replace(ran_us=self.job.ran_us)
        return ack

    def _report(self, ack: Ack, exc: BaseException | None) -> None:
        """Log the outcome and notify the middleware. Whatever they raise, the outcome has been decided."""
        try:
            if ack.outcome != SUCCEEDED or logger.isEnabledFor(logging.INFO):
                allowed = self._options.get("max_attempts", self._task.options.max_attempts)
                is_logged = any(each.logs_failures for each in self.middleware)
                shown = None if exc is None else self._shown(exc)
                run_log.log_outcome(self.job, ack, shown, allowed, is_logged=is_logged)
        except BaseException as new:  # noqa: BLE001 - it is logged
            run_log.log_error(self.job, new, "The outcome of task %s (%s) cannot be logged.", ack.id, ack.outcome)
        try:
            if self.task_context is not None:
                with logs.about(self.job):
                    self.task_context._flush()
        except BaseException as new:  # noqa: BLE001 - it is logged
            run_log.log_error(self.job, new, "The progress of task %s cannot be written (%s).", ack.id, ack.outcome)
        if self.context is not None:
            outcome = RunOutcome(ack.outcome, exc, self.job.ran_us / 1e6, ack.payload)
            pipeline.notify_outcome(self.middleware, self.context, outcome)

    def _failure(self, exc: BaseException) -> Ack:
        job, kind = self.job, type(exc)  # `isinstance` would use `exc.__class__`, which may be the site's code
        if issubclass(kind, _RedisUnavailableError):
            return Ack(job.id, job.token, Outcome.requeued)
        if issubclass(kind, _NoKeyError):
            return Ack(job.id, job.token, Outcome.unregistered)
        if issubclass(kind, TaskCancelled):
            return cancelled(job.id, job.token)
        if issubclass(kind, TaskInterrupted):
            return Ack(job.id, job.token, Outcome.interrupted)
        if issubclass(kind, TaskDelayed):
            exc = cast(TaskDelayed, exc)
            try:
                delay_ms = to_ms(DELAY_S if exc.delay_s is None else exc.delay_s, "delay", zero=True)
            except (TypeError, ValueError) as invalid:
                return self._fail_or_retry(invalid)
            return Ack(job.id, job.token, Outcome.delayed, delay_ms=delay_ms)
        if issubclass(kind, SoftTimeLimitExceeded) and not exc.args and self.limits is not None:
            exc.args = (f"The task ran longer than its soft time limit of {self.limits.soft_s:g} s.",)
        return self._fail_or_retry(exc)

    def _fail_or_retry(self, exc: BaseException) -> Ack:
        job = self.job
        shown = self._shown(exc)
        payload = serialization.encode(describe(shown))
        ttl_ms = to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl")
        allowed = self._options.get("max_attempts", self._task.options.max_attempts)
        delay_s = None
        if job.attempts + 1 < allowed and _may_retry(type(exc)):
            delay_s = _delay_s(job, self._options.get("backoff", self._task.options.backoff), exc)
        if delay_s is None:
            return Ack(job.id, job.token, Outcome.failed, payload, ttl_ms=ttl_ms, error=identify(shown))
        delay_ms = to_ms(delay_s, "backoff", zero=True)
        return Ack(job.id, job.token, Outcome.retried, payload, delay_ms, ttl_ms, error=identify(shown))

    def _shown(self, exc: BaseException) -> BaseException:
        """Return the exception as it is stored and logged. That of a sealed task has no text; ours names no values."""
        is_hidden = self.job.is_sealed or self.hides_text
        return without_text(exc) if is_hidden and not issubclass(type(exc), _NoKeyError) else exc


def timed_out(task_id: str, token: str, hard_s: float, retry_ms: int | None) -> Ack:
    """Return the outcome of a run whose process was terminated because of the hard time limit."""
    exc = TimeLimitExceeded(
        f"The task ran longer than its hard time limit of {hard_s:g} s, and its process was terminated."
    )
    payload = serialization.encode(describe(exc))
    ttl_ms = to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl")
    outcome = Outcome.failed if retry_ms is None else Outcome.retried
    return Ack(task_id, token, outcome, payload, retry_ms or 0, ttl_ms, round(hard_s * 1_000_000), error=identify(exc))


def cancelled(task_id: str, token: str) -> Ack:
    """Return the outcome of a run that was cancelled."""
    return Ack(task_id, token, Outcome.cancelled, ttl_ms=_result_ttl_ms(RESULT_TTL_S))


def _may_retry(kind: type[BaseException]) -> bool:
    """Return whether an exception of this class may be retried.

    The worker cancels coroutines itself (`TaskCancelled`); any other cancellation is an accident of the run.
    """
    return issubclass(kind, Exception | asyncio.CancelledError) and not issubclass(kind, ResultTooLarge)


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


def _delay_s(job: Job, backoff: Any, exc: BaseException) -> float | None:
    try:
        return retry.delay_of(backoff, exc, retry.Tried(job.id, job.name, job.attempts + 1))
    except BaseException as new:  # noqa: BLE001 - a broken backoff must not hide the task's own error
        run_log.log_error(job, new, "The backoff of task %s raised an exception, so the task is not retried.", job.name)
        return None

"""Run one job, in a thread or on an event loop, and say what became of it. Knows nothing of Redis."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from asgiref.sync import async_to_sync, sync_to_async
from redis.exceptions import RedisError

from django_redis_components.core import conf, failpoints
from django_redis_components.core import serialization as arguments
from django_redis_components.core.exceptions import TryLater
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.taskqueue import logs, registry
from django_redis_components.taskqueue import retry as backoff
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
from django_redis_components.taskqueue.options import RESULT_TTL_S, TimeLimits, time_limits_of
from django_redis_components.taskqueue.stats import fingerprint as fingerprints
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker import db_connections as databases
from django_redis_components.taskqueue.worker.interruption import CoroutineRun, ThreadRun

logger = logging.getLogger("django_redis_components.taskqueue")

#: Seconds until a task that asked to be put off is tried again, unless it said otherwise.
LATER_S = 1.0

#: Set by `testing` only, while a task runs in the thread of a test: gets the id of one that has finally failed, and
#: what it raised. The test's connections are left alone then: its transaction would end with them.
test_hook: Callable[[str, BaseException], None] | None = None


class _AwayError(BaseException):
    """Redis did not answer before the task began: no fault of the task."""


@lru_cache(maxsize=1_024)
def _is_coroutine_function(func: Any) -> bool:
    return inspect.iscoroutinefunction(func)


@lru_cache(maxsize=1_024)
def _result_ttl_ms(ttl: Seconds) -> int:
    return to_ms(ttl, "result_ttl")


def is_coroutine(job: Job) -> bool:
    """Whether the job's task is a coroutine function."""
    task = registry.find(job.name)
    return task is not None and _is_coroutine_function(task.func)


def execute(job: Job, run: ThreadRun | None = None) -> Ack:
    """Run the task's function in this thread, between two looks at Django's database connections."""
    task = registry.find(job.name)
    if task is None:
        said = "Task %s of %s cannot run: this worker has not registered its name."
        logger.warning(said, job.id, job.name, extra=logs.facts(job, "unregistered"))
        return Ack(job.id, job.token, "park")
    run = run or ThreadRun(job)
    ack = _run(Execution(job, task), run)
    try:
        if run.interrupted:  # wherever it was hit: a connection may stand in the middle of an answer
            databases.close_all()
        else:
            _look_at(databases.look)
    except Exception:  # the outcome stands; the next task meets a broken database by itself
        logger.exception("A database connection could not be closed after task %s of %s.", job.id, job.name)
    return ack


def _run(execution: Execution, run: ThreadRun) -> Ack:
    try:
        _look_at(databases.look_after_pause)
        execution.begin()
        value = run.call(_callable(execution.func), execution.args, execution.kwargs, execution.limits)
        failpoints.reach("after_run")
        ack = execution.succeeded(value)
    except BaseException as exc:  # noqa: BLE001 - whatever a task raises is its outcome
        return execution.told(execution.failed(exc), exc)
    return execution.told(ack)


def _from_parents(task: Any, travelled: dict[str, Any]) -> Any:
    try:
        return parents.read_inputs(task.connection, travelled)
    except RedisError as exc:
        raise _AwayError(str(exc)) from exc


def prepare(job: Job) -> Execution | Ack:
    """Begin a job whose coroutine an event loop is to run; an ack if it cannot even begin."""
    execution = Execution(job, registry.find(job.name))
    try:
        execution.begin()
    except BaseException as exc:  # noqa: BLE001 - whatever comes is the task's outcome
        return execution.told(execution.failed(exc), exc)
    return execution


async def execute_on_loop(execution: Execution, run: CoroutineRun) -> Ack:
    """Await the function of an execution that has begun. Its database connections belong to it alone."""
    async with databases.own_thread():
        try:
            value = await run.call(execution.func, execution.args, execution.kwargs, execution.limits)
            failpoints.reach("after_run")
            ack = await execution.aside(execution.succeeded, value)
        except BaseException as exc:  # noqa: BLE001 - whatever a task raises is its outcome
            return await execution.aside(execution.told, execution.failed(exc), exc)
        return await execution.aside(execution.told, ack)


class Execution:
    """A job with its task: what the function is called with, and what its end means.

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
        self._began_ns = time.perf_counter_ns()
        self.func: Callable[..., Any] = task.func

    def begin(self) -> None:
        """Read the message; who takes part in the run hears of it."""
        self._job.began = time.perf_counter()
        self.args, self.kwargs, options = self._job.message()
        if options:
            self._options = options
        if parents.has_inputs(options):
            self.args.insert(0, _from_parents(self._task, options))
        observer = observer_for(self._task, self._job, self.args, self.kwargs, options)
        if observer is not None:
            self._observer = observer
            self.args = observer.args
        timeout = options.get("timeout", self._task.options.timeout)
        if timeout is not None:
            limits = time_limits_of(timeout)
            self.limits = limits and limits._replace(retry_ms=_retry_if_killed_ms(self._job, self._task, options))
        failpoints.reach("before_run")

    def succeeded(self, value: Any) -> Ack:
        """The function has returned."""
        if self._observer is not None:
            value = self._observer.convert(value)
        payload = arguments.encode(pack(value, "the return value"))
        limit = conf.settings().taskqueue.max_result_bytes
        if len(payload) > limit:
            raise ResultTooLarge(len(payload), limit)
        ttl_ms = _result_ttl_ms(self._options.get("result_ttl", self._task.options.result_ttl))
        if logger.isEnabledFor(logging.DEBUG):
            said = "Task %s of %s succeeded."
            logger.debug(said, self._job.id, self._job.name, extra=logs.facts(self._job, "successful"))
        return Ack(self._job.id, self._job.token, "ok", payload, ttl_ms=ttl_ms)

    def failed(self, exc: BaseException) -> Ack:
        """The function has raised, or its value cannot be kept."""
        if isinstance(exc, _AwayError):
            said = "Task %s of %s goes back: what came before it could not be read (%s)."
            logger.warning(said, self._job.id, self._job.name, exc, extra=logs.facts(self._job, "ready"))
            return Ack(self._job.id, self._job.token, "back")
        if isinstance(exc, TryLater):
            return _later(self._job, self._task, self._options, exc)
        if isinstance(exc, TaskCancelled):
            said = "Task %s of %s was cancelled while it ran."
            logger.info(said, self._job.id, self._job.name, extra=logs.facts(self._job, "cancelled"))
            return cancelled(self._job.id, self._job.token)
        if isinstance(exc, SoftTimeLimitExceeded) and not exc.args and self.limits is not None:
            exc.args = (f"The task ran longer than its soft time limit of {self.limits.soft_s:g} s.",)
        told = self._observer is not None and self._observer.logs_failure
        return _failed(self._job, self._task, self._options, exc, told=told)

    def told(self, ack: Ack, exc: BaseException | None = None) -> Ack:
        """The ack with how long the run took. The attempt has heard of it, and cannot change the outcome."""
        ack = ack.after((time.perf_counter_ns() - self._began_ns) // 1_000)
        if self._observer is not None:
            try:
                self._observer.on_finish(ack.outcome, exc)
            except BaseException:
                logger.exception("The end of task %s (%s) could not be told.", ack.id, ack.outcome)
        return ack

    async def aside(self, tell_attempt: Callable[..., Ack], *args: Any) -> Ack:
        """Call one of these from a coroutine; those who take part in the run are called in its thread."""
        if self._observer is None:
            return tell_attempt(*args)
        return await sync_to_async(tell_attempt)(*args)


def killed(task_id: str, token: str, hard_s: float, retry_ms: int | None) -> Ack:
    """The outcome of a run whose process was ended because it ran longer than its hard limit."""
    exc = TimeLimitExceeded(f"The task ran longer than its hard time limit of {hard_s:g} s, and its process was ended.")
    payload = arguments.encode(describe(exc))
    ttl_ms = to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl")
    outcome = "fail" if retry_ms is None else "retry"
    ack = Ack(task_id, token, outcome, payload, retry_ms or 0, ttl_ms, fingerprints.fingerprint(exc))
    return ack.after(round(hard_s * 1_000_000))


def cancelled(task_id: str, token: str) -> Ack:
    """The outcome of a run that was cancelled."""
    return Ack(task_id, token, "cancel", ttl_ms=_result_ttl_ms(RESULT_TTL_S))


def _look_at(look: Callable[[], None]) -> None:
    if test_hook is None:
        look()


def _callable(func: Callable[..., Any]) -> Callable[..., Any]:
    return async_to_sync(func) if _is_coroutine_function(func) else func


def _later(job: Job, task: Any, options: Mapping[str, Any], exc: TryLater) -> Ack:
    try:
        delay_ms = to_ms(LATER_S if exc.delay_s is None else exc.delay_s, "delay", zero=True)
    except (TypeError, ValueError) as wrong:
        return _failed(job, task, options, wrong)
    said = "Task %s of %s is put off for %.3g s: %s"
    logger.info(said, job.id, job.name, delay_ms / 1_000, exc.reason, extra=logs.facts(job, "scheduled"))
    return Ack(job.id, job.token, "later", delay_ms=delay_ms)


def _failed(job: Job, task: Any, options: Mapping[str, Any], exc: BaseException, *, told: bool = False) -> Ack:
    """Args: told: somebody else logs that it has failed, with the traceback: one error is reported once."""
    payload = arguments.encode(describe(exc))
    ttl_ms = to_ms(conf.settings().taskqueue.failed_ttl_s, "failed_ttl")
    attempt = job.attempts + 1
    allowed = options.get("max_attempts", task.options.max_attempts)
    delay_s = None
    if attempt < allowed and isinstance(exc, Exception) and not isinstance(exc, ResultTooLarge):
        delay_s = _delay(job, options.get("backoff", task.options.backoff), exc, attempt)
    if delay_s is None:
        if test_hook is not None:
            test_hook(job.id, exc)
        level, shown = (logging.INFO, None) if told else (logging.ERROR, exc)
        said, extra = "Task %s of %s failed (attempt %d of %d).", logs.facts(job, "failed")
        logger.log(level, said, job.id, job.name, attempt, allowed, exc_info=shown, extra=extra)
        return Ack(job.id, job.token, "fail", payload, ttl_ms=ttl_ms, note=fingerprints.fingerprint(exc))
    said, extra = "Task %s of %s raised %r (attempt %d of %d); again in %.3g s.", logs.facts(job, "retrying")
    logger.warning(said, job.id, job.name, exc, attempt, allowed, delay_s, extra=extra)
    return Ack(
        job.id, job.token, "retry", payload, to_ms(delay_s, "backoff", zero=True), ttl_ms, fingerprints.fingerprint(exc)
    )


def _retry_if_killed_ms(job: Job, task: Any, options: Mapping[str, Any]) -> int | None:
    """When it is tried again if its process is ended. Nobody can ask a callable of the site then: the default holds."""
    attempt = job.attempts + 1
    if attempt >= options.get("max_attempts", task.options.max_attempts):
        return None
    chosen = options.get("backoff", task.options.backoff)
    own = chosen if isinstance(chosen, backoff.exponential) or not callable(chosen) else None
    seconds = backoff.delay_of(own, TimeLimitExceeded(), backoff.Tried(job.id, job.name, attempt))
    return None if seconds is None else to_ms(seconds, "backoff", zero=True)


def _delay(job: Job, chosen: Any, exc: BaseException, attempt: int) -> float | None:
    try:
        return backoff.delay_of(chosen, exc, backoff.Tried(job.id, job.name, attempt))
    except Exception:  # a broken backoff must not lose the task's own error
        logger.exception("The backoff of %s cannot be used; the task fails.", job.name)
        return None

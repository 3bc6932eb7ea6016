"""Run the calls of a batch by one call of their function, and return the outcome of each. Does not access Redis."""

from __future__ import annotations

import decimal
import inspect
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple

from django_redis_components.core.exception_text import traceback_of
from django_redis_components.taskqueue import logs, registry, signals
from django_redis_components.taskqueue.batch_task import BatchTask, log_if_lost
from django_redis_components.taskqueue.batches import BatchCall, settle_rest
from django_redis_components.taskqueue.options import TimeLimits
from django_redis_components.taskqueue.store.job import Ack, BatchJob, Job
from django_redis_components.taskqueue.worker import db_connections
from django_redis_components.taskqueue.worker.execution import Execution, execute, in_event_loop
from django_redis_components.taskqueue.worker.interruption import CoroutineRun, ThreadRun


class BatchMember(NamedTuple):
    """One call of a batch: its execution, and what the function gets."""

    execution: Execution
    call: BatchCall


class BatchExecution:
    """A batch that was leased, and its task.

    Attributes:
        job: the batch.
        members: its calls, by the id of the task.
    """

    def __init__(self, job: Job, task: BatchTask[..., Any, Any]) -> None:
        self.job = job
        self._task = task
        self.members = {
            each.id: BatchMember(Execution(each, task), BatchCall(id=each.id, attempt=each.attempts + 1))
            for each in (job, *job.others)
        }
        if any(each.is_sealed for each in (job, *job.others)):  # the error of one call may name the values of another
            for execution, _ in self.members.values():
                execution.hides_text = True
        #: Those that the function gets.
        self._started: list[BatchMember] = []
        self._refused: list[tuple[BatchMember, BaseException]] = []

    def cancel(self, task_id: str) -> bool:
        """Note that a task of the batch was cancelled; return whether all are."""
        call = self.members[task_id].call
        call.is_cancelled = call.is_settled = True
        return all(call.is_cancelled for _, call in self.members.values())

    def run(self, run: ThreadRun) -> list[Ack]:
        """Call the function in this thread, and return the outcome of each call. See `execution.execute`."""
        try:
            db_connections.close_stale_before_task()
            for member in self.members.values():
                self._start(member, member.execution.read)
            exc = self._call(run)
            acks = _counted_once([self._finish(*outcome) for outcome in self._acks(exc)])
        finally:
            if run.interrupted:
                db_connections.close_all(self.job)
            else:
                db_connections.close_stale(self.job)
        return acks

    async def run_on_loop(self, run: CoroutineRun) -> list[Ack]:
        """Await the function. See `execution.execute_on_loop`."""
        run.enter()
        try:
            for member in self.members.values():
                await self._astart(member)
            exc = await self._acall(run)
            return _counted_once([await self._afinish(*outcome) for outcome in self._acks(exc)])
        finally:
            if run.executor is not None:
                executor, run.executor = run.executor, None
                await db_connections.close_coroutine_thread(executor, self.job)

    def limits(self) -> TimeLimits | None:
        """Return the time limits of the run: the shortest of its calls. The job notes what a hard one does to each."""
        limits = [execution.limits for execution, _ in self._started if execution.limits is not None]
        if not limits:
            return None
        soft_s = min((each.soft_s for each in limits if each.soft_s is not None), default=None)
        hard_s = min((each.hard_s for each in limits if each.hard_s is not None), default=None)
        retries = {execution.job.id: execution.retry_after_kill_ms() for execution, _ in self._started}
        if isinstance(self.job, BatchJob):
            self.job.retries_of_batch = retries
        return TimeLimits(soft_s, hard_s, retries.get(self.job.id))

    def _start(self, member: BatchMember, read: Callable[[], None]) -> None:
        try:
            if member.execution.start():
                read()
        except BaseException as exc:  # noqa: BLE001 - it is the outcome of this call
            self._refused.append((member, exc))
        else:
            self._started.append(member)

    async def _astart(self, member: BatchMember) -> None:
        try:
            if member.execution.start():
                await member.execution.aread()
        except BaseException as exc:  # noqa: BLE001 - it is the outcome of this call
            self._refused.append((member, exc))
        else:
            self._started.append(member)

    def _call(self, run: ThreadRun) -> BaseException | None:
        """Call the function within the middleware of the first call; return what it has raised."""
        function = self._task.batch_func
        func = in_event_loop(function) if inspect.iscoroutinefunction(function) else function
        limits = self.limits()

        def call_next() -> Any:
            return run.call(func, [self._calls()], {}, limits)

        if not self._started:
            return None
        first = self._started[0].execution
        try:
            if first.context is not None:
                first.context.others = self._other_contexts()
                for each in reversed(first.middleware):
                    call_next = partial(each.around_run, first.context, call_next)
            with logs.about(first.job):
                value = call_next()
            settle_rest([call for _, call in self._started], value, self.job.name)
        except BaseException as exc:  # noqa: BLE001 - it is the outcome of the calls that are not settled
            return exc
        return None

    async def _acall(self, run: CoroutineRun) -> BaseException | None:
        """See `_call`."""
        limits = self.limits()

        def call_next() -> Awaitable[Any]:
            return run.call(self._task.batch_func, [self._calls()], {}, limits)

        if not self._started:
            return None
        first = self._started[0].execution
        try:
            if first.context is not None:
                first.context.others = self._other_contexts()
                for each in reversed(first.middleware):
                    call_next = partial(each.aaround_run, first.context, call_next)
            with logs.about(first.job):
                value = await call_next()
            settle_rest([call for _, call in self._started], value, self.job.name)
        except BaseException as exc:  # noqa: BLE001 - it is the outcome of the calls that are not settled
            return exc
        return None

    def _calls(self) -> list[BatchCall]:
        """Return what the function gets: middleware may have changed the arguments."""
        for execution, call in self._started:
            call.args, call.kwargs = tuple(execution.args), execution.kwargs
            if execution.context is not None:
                call.args, call.kwargs = tuple(execution.context.args), execution.context.kwargs
        return [call for _, call in self._started]

    def _other_contexts(self) -> tuple[Any, ...]:
        return tuple(execution.context for execution, _ in self._started[1:] if execution.context is not None)

    def _outcomes(self, exc: BaseException | None) -> list[tuple[BatchMember, BaseException | None]]:
        """Return the calls that were not cancelled, and the exception of each.

        Args:
            exc: what the function has raised.
        """
        if exc is not None:
            calls = [call for _, call in self._started]
            log_if_lost(exc, calls, self.job.name, is_sealed=any(each.hides_text for each, _ in self._started))
        outcomes: list[tuple[BatchMember, BaseException | None]] = [*self._refused]
        outcomes += [(member, member.call.exception if member.call.is_settled else exc) for member in self._started]
        return [outcome for outcome in outcomes if not outcome[0].call.is_cancelled]

    def _acks(self, exc: BaseException | None) -> list[tuple[BatchMember, Ack, BaseException | None]]:
        """Decide the outcome of each call. A value that cannot be stored fails the call."""
        acks: list[tuple[BatchMember, Ack, BaseException | None]] = []
        for member, error in self._outcomes(exc):
            execution, call = member
            if error is None:
                try:
                    acks.append((member, execution.success(call.value), None))
                    continue
                except BaseException as refused:  # noqa: BLE001 - it is the outcome of this call
                    error = refused
            acks.append((member, execution.failure(error), error))
        return acks

    def _finish(self, member: BatchMember, ack: Ack, exc: BaseException | None) -> Ack:
        """Log an outcome, and notify the middleware."""
        if exc is None:
            return member.execution.finish(ack)
        finished: list[Ack] = []
        traceback = traceback_of(exc)

        def finish() -> None:
            # Without the line that has raised it here, for each call that it fails.
            BaseException.with_traceback(exc, traceback)
            finished.append(member.execution.finish(ack, exc))

        signals.call_in_except_block(exc, finish)
        BaseException.with_traceback(exc, traceback)
        return finished[0]

    async def _afinish(self, member: BatchMember, ack: Ack, exc: BaseException | None) -> Ack:
        """See `_finish`."""
        if member.execution.context is None:
            return self._finish(member, ack, exc)
        return await member.execution.afinish(ack, exc)


def _counted_once(acks: list[Ack]) -> list[Ack]:
    """Have the run counted for the first of the calls: its time is that of one thread, and not spent for each."""
    return acks[:1] + [ack._replace(ran_us=-ack.ran_us) for ack in acks[1:]]


def execute_leased(job: Job) -> list[tuple[Job, Ack]]:
    """Run a leased job in this thread, whether it is a batch or not; return its tasks with their outcomes."""
    task = registry.tasks.get(job.name)
    if not job.others or not isinstance(task, BatchTask):
        return [(each, execute(each)) for each in (job, *job.others)]
    execution, context = BatchExecution(job, task), copy_context()
    context.run(decimal.setcontext, decimal.getcontext().copy())
    with db_connections.keep_transactions():
        acks = context.run(execution.run, ThreadRun(job))
    jobs = {each.id: each for each in (job, *job.others)}
    return [(jobs[ack.id], ack) for ack in acks]

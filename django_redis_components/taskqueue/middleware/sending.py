"""Sends the signals of the task queue."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.taskqueue import logs, signals
from django_redis_components.taskqueue.failure import describe
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.middleware.base import Middleware, RunContext, RunOutcome
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.store.job import Ack


class SendSignals(Middleware):
    """Built in: used for tasks enqueued or run while a signal has receivers."""

    def after_enqueue(self, result: TaskResult) -> None:
        """Send `task_enqueued`."""
        signals.send(signals.task_enqueued, result)

    async def aafter_enqueue(self, result: TaskResult) -> None:
        """See `after_enqueue`."""
        await signals.asend(signals.task_enqueued, result)

    def around_run(self, run: RunContext, call_next: Callable[[], Any]) -> Any:
        """Send `task_started`."""
        for each in (run, *run.others):
            with logs.about(each._job):
                signals.observe(signals.task_started, each.task_result)
        return call_next()

    async def aaround_run(self, run: RunContext, call_next: Callable[[], Awaitable[Any]]) -> Any:
        """See `around_run`."""
        for each in (run, *run.others):
            with logs.about(each._job):
                await signals.aobserve(signals.task_started, each.task_result)
        return await call_next()

    def on_outcome(self, run: RunContext, outcome: RunOutcome) -> None:
        """Send `task_retrying`; have `task_finished` sent when Redis has stored the outcome."""
        exc, result = outcome.exception, run.task_result
        if outcome.name in ("succeeded", "failed") and signals.task_finished.receivers:
            run._job.on_stored = partial(_send_finished, run, exc)
        elif outcome.name == "retried" and signals.task_retrying.receivers:
            result._add_run({Field.state: b"retrying"}, _failures(exc))
            signals.observe(signals.task_retrying, result, exception=exc)


def _send_finished(run: RunContext, exc: BaseException | None, ack: Ack) -> None:
    """Send `task_finished` with the outcome that Redis has stored, within the except block of a failure."""
    result = run.task_result
    if ack.outcome == "succeeded":
        result._add_run(_finished(b"successful", ack.payload), [])
    else:  # also if Redis has refused the return value: a failure was stored instead
        result._add_run(_finished(b"failed", b""), [ack.payload])
    with logs.about(run._job):
        signals.call_in_except_block(exc, partial(signals.observe, signals.task_finished, result))


def _finished(state: bytes, payload: bytes) -> dict[str, bytes]:
    finished_us = str(time.time_ns() // 1_000).encode()
    return {Field.state: state, Field.return_value: payload, Field.finished_at_us: finished_us}


def _failures(exc: BaseException | None) -> list[bytes]:
    return [] if exc is None else [serialization.encode(describe(exc))]

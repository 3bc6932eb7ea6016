"""Signals of the task queue, sent in the process where the event occurs. Without receivers they cost nothing.

`sender` is the task as created by `@task`, so that a receiver can be connected for one task; `task_result`
is its `TaskResult`. Errors of receivers are logged (`django.dispatch`) and do not affect the task: not even
SystemExit, KeyboardInterrupt or a cancellation, after which the remaining receivers are not called.

===============  ====================================================================================
signal           sent when
===============  ====================================================================================
task_enqueued    Redis has accepted the task; sent in the process that enqueued it, or in the one of the relay
                 if that has sent it from the outbox
task_started     a worker is about to call the function
task_retrying    the function raised an exception and will be retried; has the argument `exception`
task_finished    Redis has stored that the task has succeeded or failed; sent within an except block of
                 the exception of a failure. Not sent for outcomes that were discarded, nor for tasks
                 that were cancelled, have expired, or failed because their workers died.
===============  ====================================================================================

Receivers of `task_finished` are called in a thread of the worker between two tasks, or in a separate thread while
all are busy. A process that is killed between the storing and the call does not send it, and no other one does.

Tasks of Django's Tasks framework send the signals of the framework instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from django.dispatch import Signal

from django_redis_components.core.exceptions import Interruption, raise_interruption
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.guarded_logger import logger

task_enqueued = Signal()
task_started = Signal()
task_retrying = Signal()
task_finished = Signal()


def send(signal: Signal, result: Any, **more: Any) -> None:
    """Send a signal if it has receivers. Errors are logged."""
    if signal.receivers:
        try:
            raise_interruption(signal.send_robust(_sender(result), task_result=result, **more))
        except Interruption:
            raise
        except Exception:
            logger.exception("A signal of task %s could not be sent.", result.id)


def observe(signal: Signal, result: Any, **more: Any) -> None:
    """Send a signal about a run, from the worker. Receivers cannot change the run, whatever they raise."""
    try:
        send(signal, result, **more)
    except BaseException:
        logger.exception("A receiver of a signal of task %s ended the sending.", result.id)


async def aobserve(signal: Signal, result: Any, **more: Any) -> None:
    """See `observe`. Only a cancellation of the run itself is raised, for it concerns the function too."""
    try:
        await asend(signal, result, **more)
    except BaseException as exc:
        current = asyncio.current_task()
        if isinstance(exc, asyncio.CancelledError) and current is not None and current.cancelling():
            raise
        logger.exception("A receiver of a signal of task %s ended the sending.", result.id)


async def asend(signal: Signal, result: Any, **more: Any) -> None:
    """See `send`."""
    if signal.receivers:
        try:
            raise_interruption(await signal.asend_robust(_sender(result), task_result=result, **more))
        except Interruption:
            raise
        except Exception:
            logger.exception("A signal of task %s could not be sent.", result.id)


def call_in_except_block(exc: BaseException | None, call: Callable[[], object]) -> None:
    """Call a function; in the except block of an exception, if there is one, so that `sys.exc_info` has it."""
    if exc is None:
        call()
        return
    try:
        raise exc
    except BaseException:  # noqa: BLE001 - the run has handled it
        call()


def _sender(result: Any) -> Any:
    """The registered task: `using` returns copies."""
    return registry.find(result.name) or result.task

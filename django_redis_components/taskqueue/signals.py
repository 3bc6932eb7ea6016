"""What the queue tells receivers in this process. Nobody listening costs one look at a list.

`sender` is the task as `@task` made it, so that a receiver can be connected for one task; `task_result`
is its `TaskResult`. Errors of receivers are logged (`django.dispatch`) and change nothing about the task.

===============  ====================================================================================
signal           when and where
===============  ====================================================================================
task_enqueued    Redis has accepted it; in the process that sent it
task_started     a worker is about to call the function
task_retrying    it raised an exception and will be tried again; `exception`
task_finished    it has succeeded or failed. Sent before Redis has the outcome, within the except block
                 of a failure. Not sent when a task ends without having run to its end here: when it is
                 cancelled, expires, or is given up because its workers died.
===============  ====================================================================================

Tasks of Django's framework send the framework's signals instead.
"""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import Signal

from django_redis_components.core.exceptions import Interruption, raise_interruption
from django_redis_components.taskqueue import registry

logger = logging.getLogger("django_redis_components.taskqueue")

task_enqueued = Signal()
task_started = Signal()
task_retrying = Signal()
task_finished = Signal()


def heard_in_workers() -> bool:
    """Whether anybody listens to what happens in a worker."""
    return bool(task_started.receivers or task_retrying.receivers or task_finished.receivers)


def tell(signal: Signal, result: Any, **more: Any) -> None:
    """Send a signal, if anybody listens; whatever happens is logged."""
    if signal.receivers:
        try:
            raise_interruption(signal.send_robust(_sender(result), task_result=result, **more))
        except Interruption:
            raise
        except Exception:
            logger.exception("A signal of task %s could not be sent.", result.id)


async def atell(signal: Signal, result: Any, **more: Any) -> None:
    """See `tell`."""
    if signal.receivers:
        try:
            raise_interruption(await signal.asend_robust(_sender(result), task_result=result, **more))
        except Interruption:
            raise
        except Exception:
            logger.exception("A signal of task %s could not be sent.", result.id)


def _sender(result: Any) -> Any:
    """The task as it was made: `using` has made copies."""
    return registry.find(result.name) or result.task

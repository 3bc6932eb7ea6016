"""Log messages about the outcomes of runs. The outcome is decided before."""

from __future__ import annotations

import logging

from django_redis_components.core import serialization
from django_redis_components.core.exception_text import exc_info_of, safe_repr
from django_redis_components.taskqueue import logs
from django_redis_components.taskqueue.failure import is_printable
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.log_handler import log_success
from django_redis_components.taskqueue.sealing import without_context
from django_redis_components.taskqueue.states import Outcome
from django_redis_components.taskqueue.store.job import Ack, Job


def log_outcome(job: Job, ack: Ack, exc: BaseException | None, allowed: int, *, is_logged: bool) -> None:
    """Log an outcome.

    Args:
        exc: the exception that ended the run.
        allowed: attempts of the task at most.
        is_logged: whether middleware logs the failure with its traceback. One error is reported once.
    """
    if ack.outcome == Outcome.succeeded:
        log_success(job)
    elif ack.outcome == Outcome.cancelled:
        extra = logs.facts(job, ack.outcome)
        logger.info("Task %s[%s] was cancelled after %.3f s.", job.name, job.id, extra["duration"], extra=extra)
    elif ack.outcome == Outcome.delayed:
        message = "Task %s[%s] is delayed by %.3g s: %s"
        reason = getattr(exc, "reason", "")
        logger.info(message, job.name, job.id, ack.delay_ms / 1_000, reason, extra=logs.facts(job, ack.outcome))
    elif ack.outcome == Outcome.interrupted:
        extra = logs.facts(job, ack.outcome)
        message = "Task %s[%s] returns to its queue after %.3f s, and continues at its cursor: the worker stops."
        logger.info(message, job.name, job.id, extra["duration"], extra=extra)
    elif ack.outcome == Outcome.unregistered:
        message = "Task %s[%s] cannot run in this worker: %s"
        logger.warning(message, job.name, job.id, exc, extra=logs.facts(job, ack.outcome))
    elif ack.outcome == Outcome.requeued:
        message = "Task %s[%s] returns to its queue: the results of its parents could not be read (%s)."
        logger.warning(message, job.name, job.id, exc, extra=logs.facts(job, ack.outcome))
    elif ack.outcome == Outcome.retried and exc is not None:
        _log_retry(job, ack, exc, allowed)
    elif exc is not None:
        _log_failure(job, ack, exc, allowed, is_logged=is_logged)


def log_error(job: Job, error: BaseException, message: str, *values: object) -> None:
    """Log an error that was raised after a run, with its traceback."""
    logger.log_exception(without_context(error, is_sealed=job.is_sealed), message, *values)


def _log_retry(job: Job, ack: Ack, exc: BaseException, allowed: int) -> None:
    extra = logs.facts(job, ack.outcome)
    message = "Task %s[%s] raised %s (attempt %d of %d) after %.3f s; retrying in %.3g s."
    values = (job.name, job.id, safe_repr(exc), job.attempts + 1, allowed, extra["duration"], ack.delay_ms / 1_000)
    logger.warning(message, *values, extra=extra)


def _log_failure(job: Job, ack: Ack, exc: BaseException, allowed: int, *, is_logged: bool) -> None:
    message, extra = "Task %s[%s] failed (attempt %d of %d) after %.3f s.", logs.facts(job, "failed")
    values: tuple[object, ...] = (job.name, job.id, job.attempts + 1, allowed, extra["duration"])
    if is_logged:
        logger.info(message, *values, extra=extra)
    elif is_printable(ack.payload):
        logger.log(logging.ERROR, message, *values, exc_info=exc_info_of(exc), extra=extra)
    else:
        described = serialization.decode(ack.payload)
        message = "Task %s[%s] failed (attempt %d of %d) after %.3f s.\n%s: %s\n%s"
        logger.error(message, *values, *described.values(), extra=extra)

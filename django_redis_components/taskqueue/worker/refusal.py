"""Tasks that this worker cannot run, and gives back as unregistered: another one may."""

from __future__ import annotations

from django_redis_components.taskqueue import logs
from django_redis_components.taskqueue.exceptions import SealedArguments
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.states import Outcome
from django_redis_components.taskqueue.store.job import Ack, Job


def unregistered(job: Job) -> Ack:
    """Return the outcome of a task whose name this worker does not know."""
    message = "Task %s[%s] cannot run: no task of this name is registered in this worker."
    logger.warning(message, job.name, job.id, extra=logs.facts(job, Outcome.unregistered))
    return Ack(job.id, job.token, Outcome.unregistered)


def refusal_of(job: Job) -> Ack | None:
    """Return the outcome of a task with sealed arguments that this worker cannot open; None for one that it can."""
    try:
        job.message()
    except SealedArguments as exc:
        message = "Task %s[%s] cannot run in this worker: %s"
        logger.warning(message, job.name, job.id, exc, extra=logs.facts(job, Outcome.unregistered))
        return Ack(job.id, job.token, Outcome.unregistered)
    except Exception:  # noqa: BLE001 - a damaged message fails when it is run; the site's codec may raise anything
        return None
    return None

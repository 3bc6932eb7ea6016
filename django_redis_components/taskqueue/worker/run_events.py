"""Record the starts and the outcomes of tasks for the page Live of the dashboard. An error never disturbs a task."""

from __future__ import annotations

import dataclasses
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.observability.live_events import RECORDER, LiveEvent
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.states import SUCCEEDED
from django_redis_components.taskqueue.store.job import Ack, ErrorIdentity, Job

_FAILED = "An event of a task cannot be recorded for the page Live."


def record_start(using: str, job: Job) -> None:
    """Record that a task starts."""
    if not RECORDER.is_open:
        RECORDER.leave_out()
        return
    try:
        if RECORDER.has_room(is_routine=True):
            RECORDER.add(using, LiveEvent("started", "task", job.name, job.id, job.queue, shard=_shard_of(job)))
    except BaseException:
        logger.exception(_FAILED)


def record_outcome(using: str, job: Job, ack: Ack) -> None:
    """Record the outcome of a task."""
    is_routine = ack.outcome == SUCCEEDED
    if is_routine and not RECORDER.is_open:
        RECORDER.leave_out()
        return
    try:
        if RECORDER.has_room(is_routine=is_routine):
            RECORDER.add(using, outcome_event(ack, job.name, job.queue, _shard_of(job)))
    except BaseException:
        logger.exception(_FAILED)


def send_outcome(using: str, ack: Ack, name: str, queue: str, worker: str, shard: str = "") -> None:
    """Record the outcome of a task whose process was terminated, from the supervisor."""
    try:
        RECORDER.send(using, dataclasses.replace(outcome_event(ack, name, queue, shard), source=worker))
    except BaseException:
        logger.exception(_FAILED)


def outcome_event(ack: Ack, name: str, queue: str, shard: str = "") -> LiveEvent:
    """Return the event of an outcome."""
    error = _described(ack.error)
    return LiveEvent(
        ack.outcome,
        "task",
        name,
        ack.id,
        queue,
        duration_s=abs(ack.ran_us) / 1e6 if ack.ran_us else None,
        error=str(error.get("class", "")),
        message=str(error.get("text", "")),
        shard=shard,
    )


def _shard_of(job: Job) -> str:
    return job.shard.name if job.shard else ""


def _described(error: ErrorIdentity) -> dict[str, Any]:
    """Return class, location and text of an error."""
    parts: dict[str, Any] = serialization.decode(error.description.encode()) if error.description else {}
    return parts

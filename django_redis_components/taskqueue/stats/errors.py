"""The errors of a queue's tasks, each kind once: how often, since when, and which tasks."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from django_redis_components.core import serialization as arguments
from django_redis_components.core.protocol import Flow
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.scripts import ERROR_GROUPS

#: Most kinds of errors that a queue keeps; those that came last stay.
MAX_ERRORS = 100


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures that are the same error.

    Attributes:
        fingerprint: of class, place and message.
        exception_class_path: the exception's class; never imported.
        place: the function of the site that raised it, as ``module.function``; "" where nothing was raised.
        message: its text without the particulars: ``'…'`` for what stood in quotes, ``#`` for numbers.
        times: how often, as long as it has been kept.
        final: how many of them were a task's last attempt.
        first_at, last_at: when.
        task_ids: the last ten tasks, newest first; their records may have expired.
    """

    fingerprint: str
    exception_class_path: str
    place: str
    message: str
    times: int
    final: int
    first_at: datetime
    last_at: datetime
    task_ids: list[str]


def errors(queue: str, limit: int) -> Flow[list[ErrorGroup]]:
    """The errors that came last, newest first."""
    rows = yield asking(queue, limit)
    return told(rows)


def asking(queue: str, limit: int) -> Any:
    """The request for the errors of a queue; `told` reads its reply."""
    return ERROR_GROUPS(base=base_key(), queue=queue, limit=limit)


def told(rows: Any) -> list[ErrorGroup]:
    """What `asking` was answered."""
    return [_group(row) for row in rows]


def _group(row: Any) -> ErrorGroup:
    fingerprint, times, final, first_ms, last_ms, data, ids = row
    about = arguments.decode(data)
    return ErrorGroup(
        fingerprint=fingerprint.decode(),
        exception_class_path=about["class"],
        place=about["place"],
        message=about["text"],
        times=int(times),
        final=int(final),
        first_at=_moment(first_ms),
        last_at=_moment(last_ms),
        task_ids=ids.decode().split(),
    )


def _moment(ms: bytes) -> datetime:
    return datetime.fromtimestamp(int(ms) / 1_000, UTC)

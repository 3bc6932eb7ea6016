"""Error groups of a queue: identical failures counted once, with the latest task ids."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.protocol import Call, Flow
from django_redis_components.taskqueue.fields import base_key
from django_redis_components.taskqueue.store.scripts import ERROR_GROUPS

#: Most error groups that a queue keeps; the oldest are dropped first.
MAX_ERRORS = 100


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures with the same class, location and normalized message.

    Attributes:
        fingerprint: hash of class, location and message.
        exception_class_path: dotted path of the exception's class; never imported.
        location: function of the site that raised it, as ``module.function``; "" if nothing was raised.
        message: the text without variable parts: ``'…'`` for quoted text, ``#`` for numbers.
        count: failures since the group was created.
        final: failures that were the last attempt of their task.
        first_at, last_at: when the first and the latest failure occurred.
        task_ids: ids of the last ten tasks, newest first; their records may have expired.
    """

    fingerprint: str
    exception_class_path: str
    location: str
    message: str
    count: int
    final: int
    first_at: datetime
    last_at: datetime
    task_ids: list[str]


def read_errors(queue: str, limit: int) -> Flow[list[ErrorGroup]]:
    """Read the latest error groups of a queue, newest first."""
    return [_parse(row) for row in (yield errors_request(queue, limit))]


def errors_request(queue: str, limit: int) -> Call:
    """Return the request for the error groups of a queue."""
    return ERROR_GROUPS(base=base_key(), queue=queue, limit=limit)


def _parse(row: Any) -> ErrorGroup:
    fingerprint, count, final, first_ms, last_ms, data, ids = row
    error = serialization.decode(data)
    return ErrorGroup(
        fingerprint=fingerprint.decode(),
        exception_class_path=error["class"],
        location=error["location"],
        message=error["text"],
        count=int(count),
        final=int(final),
        first_at=_time(first_ms),
        last_at=_time(last_ms),
        task_ids=ids.decode().split(),
    )


def _time(ms: bytes) -> datetime:
    return datetime.fromtimestamp(int(ms) / 1_000, UTC)

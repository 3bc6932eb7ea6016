"""Error groups of queues: identical failures counted once, with the latest task ids."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.protocol import Call, Flow
from django_redis_components.core.text import encodable
from django_redis_components.core.units import moment_of, moment_of_ms
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.scripts import ERROR_GROUPS

#: Most error groups that a queue keeps; the oldest are dropped first.
MAX_ERRORS = 100
#: Most queues of the index that are read.
MAX_QUEUES = 5_000
#: Most errors of a queue that the overview names.
MAIN_ERRORS = 5
#: Minutes for which failures are counted by minute; as in error_stats.lua.
MINUTES = 60
_MINUTE = re.compile(rb"(\d{1,10}):(\d{1,10})")


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorSample:
    """The last error of a task, as it was raised.

    Attributes:
        task_id, task_name: of the task.
        message: text of the exception.
        traceback: "" unless it was asked for.
    """

    task_id: str
    task_name: str
    message: str
    traceback: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failures of a queue with the same class, location and normalized message.

    Attributes:
        fingerprint: hash of class, location and message.
        exception_class_path: dotted path of the exception's class; never imported.
        location: function of the site that raised it, as ``module.function``; "" if nothing was raised.
        message: the text without variable parts: ``'…'`` for quoted text, ``#`` for numbers.
        count: failures since the group was created.
        final: failures that were the last attempt of their task.
        first_at, last_at: when the first and the latest failure occurred.
        task_ids: ids of the last ten tasks, newest first; their records may have expired.
        queue: name of the queue.
        minutes: failures of the last hour by minute, newest first; minutes without failures are omitted.
        sample: the error of the newest of these tasks, with its whole message; None if they have expired, or have
            failed with another error since.
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
    queue: str = ""
    minutes: list[tuple[datetime, int]] = dataclasses.field(default_factory=list)
    sample: ErrorSample | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorListing:
    """The latest error groups of queues.

    Attributes:
        at: the server's time.
        total: groups that these queues keep; `groups` may be fewer.
    """

    at: datetime
    total: int
    groups: list[ErrorGroup]


def read_errors(shard: Shard, queue: str, limit: int) -> Flow[list[ErrorGroup]]:
    """Read the latest error groups of a queue, newest first."""
    return (yield from list_errors(shard, [queue], limit)).groups


def list_errors(shard: Shard, queues: Sequence[str], limit: int, fingerprint: str = "") -> Flow[ErrorListing]:
    """Read the latest error groups of queues, newest first; of all known queues (at most 5,000) if none is named.

    Args:
        fingerprint: only groups with it; then the first sample has its traceback.
    """
    reply = yield _listing_request(shard, queues, limit, fingerprint, 0)
    listing, following = parse_listing(reply), reply[3]
    while following and following < MAX_QUEUES:
        reply = yield _listing_request(shard, queues, limit, fingerprint, following)
        more, following = parse_listing(reply), reply[3]
        groups = sorted([*listing.groups, *more.groups], key=lambda group: group.last_at, reverse=True)
        listing = ErrorListing(listing.at, listing.total + more.total, groups[:limit])
    return listing


def _listing_request(shard: Shard, queues: Sequence[str], limit: int, fingerprint: str, first: int) -> Call:
    return ERROR_GROUPS(
        base=shard.base, limit=limit, fingerprint=fingerprint, order="latest", first=first, queues=queues
    )


def main_errors_request(shard: Shard, queue: str | bytes) -> Call:
    """Return the request for the errors of a queue with most failures in the last hour; see `parse_listing`."""
    return ERROR_GROUPS(base=shard.base, limit=MAIN_ERRORS, fingerprint="", order="most", first=0, queues=[queue])


def parse_listing(reply: Any) -> ErrorListing:
    """Return the listing from a reply."""
    now_us, total, rows, _ = reply
    at = moment_of(now_us)
    return ErrorListing(at, total, [_parse(row, at) for row in rows])


def _parse(row: Sequence[Any], at: datetime) -> ErrorGroup:
    queue, fingerprint, group, sample = row
    count, final, first_ms, last_ms, data, ids, minutes = group
    error = serialization.decode(data)
    return ErrorGroup(
        fingerprint=fingerprint.decode(),
        exception_class_path=encodable(error["class"]),
        location=encodable(error["location"]),
        message=encodable(error["text"]),
        count=int(count),
        final=int(final),
        first_at=moment_of_ms(first_ms),
        last_at=moment_of_ms(last_ms),
        task_ids=ids.decode().split(),
        queue=queue.decode(),
        minutes=list(_minutes(minutes or b"", at)),
        sample=_sample(*sample) if sample else None,
    )


def _minutes(counts: bytes, at: datetime) -> Iterator[tuple[datetime, int]]:
    """Yield the pairs of ``minute:count minute:count …`` that are in the last hour."""
    now = int(at.timestamp()) // 60
    for minute, count in _MINUTE.findall(counts):
        if now - MINUTES < int(minute) <= now:
            yield moment_of(int(minute) * 60_000_000), int(count)


def _sample(task_id: bytes, task_name: bytes | None, stored: bytes) -> ErrorSample | None:
    try:
        error = serialization.decode(stored)
        message, traceback = str(error["message"]), str(error.get("traceback", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # another client wrote it
        return None
    name = (task_name or b"").decode(errors="replace")
    return ErrorSample(task_id.decode(errors="replace"), name, encodable(message), encodable(traceback))

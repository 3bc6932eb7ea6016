"""The data of the page Live, read in one round trip."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from django_redis_components.core import keys
from django_redis_components.core.gather import gather_values
from django_redis_components.core.names import stored_name
from django_redis_components.core.observability.live_events import FIELDS, MAX_KEPT, LiveEvent, stream_key
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.core.units import moment_of
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import not_of_a_link, not_one_of
from django_redis_components.dashboard.shard_reads import of_shards
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.shards import Shard

#: Events that the page lists, and queues in its filter.
MAX_SHOWN, MAX_QUEUES = 100, 200
#: Longest time by which the times of two events of a process may be in the wrong order.
MAX_SKEW = timedelta(seconds=0.5)
#: Kinds of events, in the order of the filter.
KINDS = (
    "started", "succeeded", "failed", "retried", "delayed", "interrupted", "cancelled", "requeued", "unregistered",
    "waiting", "acquired", "gave_up",
)  # fmt: skip
_ID = re.compile(r"\d{1,19}-\d{1,19}")


@dataclasses.dataclass(frozen=True, slots=True)
class LiveQuery:
    """What the page shows.

    Attributes:
        kind, queue: only events of this kind, or of tasks of this queue; "": all.
        after: id of an event; only those that were added later. "": all that are kept.
    """

    kind: str = ""
    queue: str = ""
    after: str = ""

    @property
    def limit(self) -> int:
        """How many events are read."""
        return MAX_KEPT if self.kind or self.queue or self.after else MAX_SHOWN

    def matches(self, event: LiveEvent) -> bool:
        """Return whether to show an event. The number of those that were not recorded is always shown."""
        return event.kind == "left_out" or (self.kind in ("", event.kind) and self.queue in ("", event.queue))


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event in Redis. `id` orders events by when they were added, `at` by when they happened."""

    id: str
    at: datetime
    event: LiveEvent


@dataclasses.dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """The newest events that match a query.

    Attributes:
        events: newest first.
        last_id: id of the newest event that was read; "" without any.
        queues: names of the known queues, sorted.
        is_recorded: whether this process records events.
    """

    query: LiveQuery
    events: list[RecordedEvent]
    last_id: str
    queues: list[str]
    is_recorded: bool


def parse(request: PageRequest) -> LiveQuery:
    """Return the query of a request."""
    form = request.http.GET
    query = LiveQuery(form.get("kind", ""), form.get("queue", ""), form.get("after", ""))
    if query.kind and query.kind not in KINDS:
        raise not_one_of("kind", query.kind, KINDS)
    if query.queue:
        keys.validate_name(query.queue, "queue name")
    if query.after and not _ID.fullmatch(query.after):
        raise not_of_a_link("after")
    return query


def read(request: PageRequest) -> Snapshot[LiveSnapshot]:
    """Read the newest events."""
    return read_snapshot(_read(request.query))


def _read(query: LiveQuery) -> Flow[LiveSnapshot]:
    entries, queues = yield from gather_values([_read_events(query), of_shards(_read_queues)])
    names = {name for found in queues.values() for data in found if (name := stored_name(data))}
    return LiveSnapshot(
        query=query,
        events=_newest(entries, query),
        last_id=entries[0][0].decode() if entries else "",
        queues=sorted(names)[:MAX_QUEUES],
        is_recorded=conf.settings().live_events,
    )


def _read_events(query: LiveQuery) -> Flow[list[Any]]:
    """Read the newest events. Those of all shards are on the connection of the dashboard."""
    oldest = f"({query.after}" if query.after else "-"
    entries: list[Any] = yield Read("XREVRANGE", stream_key(), "+", oldest, "COUNT", query.limit)
    return entries


def _read_queues(shard: Shard) -> Flow[list[bytes]]:
    names: list[bytes] = yield Read("ZRANGE", shard.key(Key.queues), 0, MAX_QUEUES - 1)
    return names


def _newest(entries: Iterable[Sequence[Any]], query: LiveQuery) -> list[RecordedEvent]:
    """Return the events that match, newest first: processes add theirs up to a second late."""
    parsed = [_parse(entry_id.decode(), values) for entry_id, values in entries]
    events = _in_order([each for each in parsed if each is not None])
    matching = [each for each in events if query.matches(each.event)]
    matching = matching if query.after else matching[:MAX_SHOWN]
    return sorted(matching, key=lambda each: each.at, reverse=True)


def _in_order(events: Sequence[RecordedEvent]) -> list[RecordedEvent]:
    """Return events, newest first, with the times of each process in the order in which it added them.

    The time of an event is the server's, in milliseconds, less its age: two events of one millisecond could change
    places. A difference of more than `MAX_SKEW` is not one of rounding.
    """
    found, latest = [], dict[str, datetime]()
    for each in reversed(events):
        before = latest.get(each.event.source, each.at)
        at = before if timedelta() < before - each.at < MAX_SKEW else each.at
        latest[each.event.source] = at
        found.append(dataclasses.replace(each, at=at))
    return found[::-1]


def _parse(entry_id: str, values: Sequence[bytes]) -> RecordedEvent | None:
    """Return an event; None if another client wrote what is none."""
    fields = dict(zip(values[::2], values[1::2], strict=False))
    *texts, duration_us, left_out, age_us = (fields.get(name.encode(), b"").decode(errors="replace") for name in FIELDS)
    kind, subject, name, task_id, queue, source, error, message = texts
    if kind not in (*KINDS, "left_out"):
        return None
    try:
        at = moment_of(int(entry_id.partition("-")[0]) * 1_000 - int(age_us))
        duration_s = int(duration_us) / 1e6 if duration_us else None
        shard = fields.get(b"shard", b"").decode(errors="replace")
        event = LiveEvent(kind, subject, name, task_id, queue, source, duration_s, error, message, int(left_out), shard)
    except (ValueError, OverflowError, OSError):
        return None
    return RecordedEvent(entry_id, at, event)

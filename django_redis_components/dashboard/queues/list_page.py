"""The page of all queues, formatted in the active language, and its JSON."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _

from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.json_data import queue_data
from django_redis_components.dashboard.list_counts import ListCount
from django_redis_components.dashboard.overview.queue_table import MAX_TEXT, PAGE_SIZE, QueueQuery, queue_page
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.shard_reads import of_shards
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.merging import merged_overview
from django_redis_components.taskqueue.stats.queue_stats import MAX_QUEUES, TaskQueueOverview, read_overview

#: Parameters that the links of the page keep.
_KEPT = ("queue", "sort")


@dataclasses.dataclass(frozen=True, slots=True)
class QueueListing:
    """The queues of all shards that the page shows, as those of one, and those of each.

    Attributes:
        at: the server's time.
    """

    at: datetime
    overview: TaskQueueOverview
    by_shard: dict[Shard, TaskQueueOverview]


def parse(request: PageRequest) -> QueueQuery:
    """Return which queues are shown."""
    return QueueQuery.parse(request.http.GET, is_paged=True)


def read(request: PageRequest) -> Snapshot[QueueListing]:
    """Read the queues in two round trips, and in one more for each further 500."""
    return read_snapshot(_read(), counts_of=lambda listing: listing.overview.failure_counts)


def _read() -> Flow[QueueListing]:
    found = yield from of_shards(read_overview)
    overview = merged_overview(list(found.values()))
    return QueueListing(overview.at, overview, found)


def data(snapshot: Snapshot[QueueListing]) -> dict[str, Any]:
    """Return a snapshot as JSON, with all queues."""
    overview = snapshot.value.overview
    known = len(overview.queues)
    count = ListCount(known, known, is_least=known >= MAX_QUEUES)
    return {"queues": [queue_data(queue, overview) for queue in overview.queues], "count": count.data()}


def context(request: PageRequest, snapshot: Snapshot[QueueListing]) -> dict[str, Any]:
    """Return the context of the templates."""
    overview = snapshot.value.overview
    kept = QueryDict(mutable=True)
    kept.update({name: text[:MAX_TEXT] for name in _KEPT if (text := request.http.GET.get(name))})
    return {
        "query": request.query,
        "queues": queue_page(overview, request.query, request.links, snapshot.value.by_shard),
        "has_queues": bool(overview.queues),
        "count": _count(overview, request.query),
        "notes": _notes(overview),
        "parameters": kept,
    }


def _count(overview: TaskQueueOverview, query: QueueQuery) -> ListCount | None:
    """Return how many queues are on the page if it has all that match; else the note of the table says it."""
    known = len(overview.queues)
    matching = sum(query.text.lower() in queue.name.lower() for queue in overview.queues)
    if matching > PAGE_SIZE or matching < known:
        return None
    return ListCount(known, known)


def _notes(overview: TaskQueueOverview) -> list[str]:
    """Return what the figures are of."""
    if not overview.queues:
        return []
    notes = [_("Out/min and Wait p95: last hour. In/min: latest arrivals.")]
    measured, known = len(overview.metrics), len(overview.queues)
    if measured < known:
        counts = {"count": number(measured), "total": number(known)}
        notes.append(_("They are measured for %(count)s of %(total)s queues, those with most tasks first.") % counts)
    if known >= MAX_QUEUES:
        notes.append(_("Only the first %(count)s queues are read.") % {"count": number(MAX_QUEUES)})
    return notes

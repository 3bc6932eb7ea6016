"""The page of all queues, formatted in the active language, and its JSON."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _

from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.json_data import queue_data
from django_redis_components.dashboard.overview.queue_table import MAX_TEXT, QueueQuery, queue_page
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.taskqueue.stats.queue_stats import MAX_QUEUES, TaskQueueOverview, read_overview

#: Parameters that the links of the page keep.
_KEPT = ("queue", "sort")


def parse(request: PageRequest) -> QueueQuery:
    """Return which queues are shown."""
    return QueueQuery.parse(request.http.GET, is_paged=True)


def read(request: PageRequest) -> Snapshot[TaskQueueOverview]:
    """Read the queues in two round trips, and in one more for each further 500."""
    return read_snapshot(read_overview(queue_shard()), counts_of=lambda overview: overview.failure_counts)


def data(snapshot: Snapshot[TaskQueueOverview]) -> dict[str, Any]:
    """Return a snapshot as JSON, with all queues."""
    return {"queues": [queue_data(queue, snapshot.value) for queue in snapshot.value.queues]}


def context(request: PageRequest, snapshot: Snapshot[TaskQueueOverview]) -> dict[str, Any]:
    """Return the context of the templates."""
    overview = snapshot.value
    kept = QueryDict(mutable=True)
    kept.update({name: text[:MAX_TEXT] for name in _KEPT if (text := request.http.GET.get(name))})
    return {
        "query": request.query,
        "queues": queue_page(overview, request.query, request.links),
        "has_queues": bool(overview.queues),
        "notes": _notes(overview),
        "parameters": kept,
    }


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

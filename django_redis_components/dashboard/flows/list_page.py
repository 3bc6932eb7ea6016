"""The page of the flows that have not finished, formatted in the active language, and its JSON."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.elements import Cell
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.dashboard.table import Column, Table
from django_redis_components.taskqueue.flows.listing import FlowListing, ListedFlow, list_flows

#: Flows that the page shows.
MAX_FLOWS = 100
#: A flow with the URL of its page, and how long ago it was enqueued, in seconds.
Row = tuple[ListedFlow, str, float]


def read(request: PageRequest) -> Snapshot[FlowListing]:
    """Read the flows in two round trips."""
    return read_snapshot(list_flows(queue_shard(), MAX_FLOWS))


def data(snapshot: Snapshot[FlowListing]) -> dict[str, Any]:
    """Return a snapshot as JSON."""
    return {"unfinished": snapshot.value.total, "flows": snapshot.value.flows}


def context(request: PageRequest, snapshot: Snapshot[FlowListing]) -> dict[str, Any]:
    """Return the context of the templates."""
    listing = snapshot.value
    rows = [
        (flow, request.links.flow(flow.id), (listing.at - flow.enqueued_at).total_seconds()) for flow in listing.flows
    ]
    note = ""
    if len(rows) < listing.total:
        counts = {"count": number(len(rows)), "total": number(listing.total)}
        note = _("%(count)s of %(total)s unfinished flows") % counts
    return {"note": note, **_TABLE.context(rows)}


def _state(row: Row) -> Cell:
    if row[0].has_failed:
        return Cell(pgettext("flow", "has failed"), badge="lost")
    return Cell(pgettext("flow", "in progress"), badge="alive")


_TABLE: Table[Row] = Table(
    [
        Column("id", pgettext_lazy("tasks", "Flow"), lambda row: Cell(row[0].id, url=row[1]), "name"),
        Column("state", pgettext_lazy("flow", "State"), _state, "", has_label=False),
        Column("finished", gettext_lazy("Finished"), lambda row: max(0, row[0].tasks - row[0].unfinished)),
        Column("unfinished", gettext_lazy("Unfinished"), lambda row: row[0].unfinished),
        Column("tasks", gettext_lazy("Tasks"), lambda row: row[0].tasks),
        Column("age", gettext_lazy("Age"), lambda row: formats.age(row[2])),
    ]
)

"""The page of the flows that have not finished, formatted in the active language, and its JSON."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.clients import shown_shards
from django_redis_components.dashboard.elements import Cell
from django_redis_components.dashboard.list_counts import ListCount
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.shard_reads import of_shards
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.dashboard.table import Column, Table
from django_redis_components.taskqueue.flows.listing import ListedFlow, list_flows
from django_redis_components.taskqueue.shards import Shard

#: Flows that the page shows.
MAX_FLOWS = 100
#: A flow with the URL of its page, how long ago it was enqueued, in seconds, and its shard, if there are several.
Row = tuple[ListedFlow, str, float, str]


@dataclasses.dataclass(frozen=True, slots=True)
class FlowsOfShards:
    """The unfinished flows of all shards that the page shows, newest first, each with its shard.

    Attributes:
        at: the server's time.
        total: how many there are.
    """

    at: datetime
    total: int
    flows: list[tuple[Shard, ListedFlow]]


def read(request: PageRequest) -> Snapshot[FlowsOfShards]:
    """Read the flows in two round trips."""
    return read_snapshot(_read())


def _read() -> Flow[FlowsOfShards]:
    found = yield from of_shards(lambda shard: list_flows(shard, MAX_FLOWS))
    flows = [(shard, flow) for shard, listing in found.items() for flow in listing.flows]
    flows.sort(key=lambda each: each[1].enqueued_at, reverse=True)
    at = next(iter(found.values())).at
    return FlowsOfShards(at, sum(listing.total for listing in found.values()), flows[:MAX_FLOWS])


def data(snapshot: Snapshot[FlowsOfShards]) -> dict[str, Any]:
    """Return a snapshot as JSON."""
    listing = snapshot.value
    flows = [flow for _shard, flow in listing.flows]
    return {"unfinished": listing.total, "count": _count(listing).data(), "flows": flows}


def context(request: PageRequest, snapshot: Snapshot[FlowsOfShards]) -> dict[str, Any]:
    """Return the context of the templates."""
    listing, has_shards = snapshot.value, len(shown_shards().shards) > 1
    rows = [
        (
            flow,
            (request.links.in_shard(shard.name) if has_shards else request.links).flow(flow.id),
            (listing.at - flow.enqueued_at).total_seconds(),
            shard.name if has_shards else "",
        )
        for shard, flow in listing.flows
    ]
    return {"count": _count(listing), **_TABLE.context(rows)}


def _count(listing: FlowsOfShards) -> ListCount:
    return ListCount(len(listing.flows), listing.total)


def _state(row: Row) -> Cell:
    if row[0].has_failed:
        return Cell(pgettext("flow", "has failed"), badge="lost")
    return Cell(pgettext("flow", "in progress"), badge="alive")


_TABLE: Table[Row] = Table(
    [
        Column("id", pgettext_lazy("tasks", "Flow"), lambda row: Cell(row[0].id, url=row[1]), "name"),
        Column("shard", gettext_lazy("Shard"), lambda row: row[3], "", skip_empty=True),
        Column("state", pgettext_lazy("flow", "State"), _state, "", has_label=False),
        Column("finished", gettext_lazy("Finished"), lambda row: max(0, row[0].tasks - row[0].unfinished)),
        Column("unfinished", gettext_lazy("Unfinished"), lambda row: row[0].unfinished),
        Column("tasks", gettext_lazy("Tasks"), lambda row: row[0].tasks),
        Column("age", gettext_lazy("Age"), lambda row: formats.age(row[2])),
    ]
)

"""The overview's table of the shards of the task queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import NO_VALUE, Cell, count_cell
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.overview.queue_table import OLD_S
from django_redis_components.dashboard.problems.shard_states import ShardState
from django_redis_components.dashboard.table import Column, ShownTable, Table

#: A shard with the URL of its overview, and when it was read.
_Row = tuple[ShardState, str, datetime]


def shard_table(states: Sequence[ShardState], links: Links, now: datetime) -> ShownTable:
    """Return the table. A shard that is away has a row that says so."""
    rows = [(state, links.in_shard(state.shard.name).reverse("overview"), now) for state in states]
    table: ShownTable = _TABLE.context(rows)["table"]
    return table


def _name(row: _Row) -> Cell:
    return Cell(row[0].shard.name, url=row[1], title=row[0].address)


def _state(row: _Row) -> Cell:
    state, _url, now = row
    if state.outage is None:
        return Cell(pgettext("shard", "answers"), badge="alive")
    if state.away_since is None:
        return Cell(pgettext("shard", "away"), badge="lost", title=state.outage.text)
    since = formats.timestamp(state.away_since, now).text
    return Cell(_("away since %(time)s") % {"time": since}, badge="lost", title=state.outage.text)


def _count(key: str, label: object, *, optional: bool = False) -> Column[_Row]:
    return Column(key, label, lambda row: count_cell(row[0].count(key)) if row[0].overview else None, optional=optional)


def _oldest(row: _Row) -> Cell:
    age = row[0].oldest_age
    return Cell(NO_VALUE, "zero") if age is None else Cell(formats.age(age), "caution" if age >= OLD_S else "")


def _poller(row: _Row) -> Cell | None:
    overview = row[0].overview
    if overview is None:
        return None
    if overview.poller:
        return Cell(pgettext("poller", "active"), badge="alive", title=overview.poller)
    return Cell(pgettext("poller", "missing"), badge="lost")


def _memory(row: _Row) -> str | None:
    used, most = row[0].memory
    if not used:
        return None
    if not most:
        return filesizeformat(used)
    shares = {"share": formats.short_percent(used / most), "most": filesizeformat(most)}
    return _("%(share)s of %(most)s") % shares


_TABLE: Table[_Row] = Table(
    [
        Column("name", gettext_lazy("Shard"), _name, "name"),
        Column("state", pgettext_lazy("shard", "State"), _state, "whole", has_label=False),
        Column("server", gettext_lazy("Server"), lambda row: formats.server(row[0].address), "whole", optional=True),
        Column("queues", gettext_lazy("Queues"), lambda row: len(row[0].queues) if row[0].overview else None),
        _count("ready", pgettext_lazy("tasks", "Ready")),
        Column("oldest", gettext_lazy("Oldest"), _oldest),
        _count("scheduled", pgettext_lazy("tasks", "Scheduled"), optional=True),
        _count("running", pgettext_lazy("tasks", "Running")),
        _count("failed", pgettext_lazy("tasks", "Failed")),
        Column(
            "workers",
            gettext_lazy("Workers"),
            lambda row: count_cell(row[0].overview.live_count) if row[0].overview else None,
        ),
        Column("poller", gettext_lazy("Poller"), _poller, ""),
        Column("memory", gettext_lazy("Memory"), _memory),
    ]
)

"""The template context and the JSON of the page of incidents."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import Cell, moment_cell, sentence
from django_redis_components.dashboard.gather import gather_values
from django_redis_components.dashboard.json_data import fields_of
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.problems.incidents import Acknowledgment, Incident
from django_redis_components.dashboard.problems.storage import read_resolved, read_state
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.dashboard.table import Column, Table


@dataclasses.dataclass(frozen=True, slots=True)
class Incidents:
    """The open incidents, critical ones first, and the resolved ones, the latest first."""

    open: list[Incident]
    resolved: list[Incident]


def read(request: PageRequest) -> Snapshot[Incidents]:
    """Read the incidents in one round trip."""
    return read_snapshot(_read(conf.settings().dashboard.using))


def context(request: PageRequest, read: Snapshot[Incidents]) -> dict[str, Any]:
    """Return the context of the templates."""
    at = read.at
    return {
        "open": _table(at, _open_columns(request, at), _("There are no problems now.")).context(read.value.open)[
            "table"
        ],
        "resolved": _table(at, _resolved_columns(at), _("No problem has been resolved yet.")).context(
            read.value.resolved
        )["table"],
        "is_watched": conf.settings().dashboard.watch,
    }


def incident_data(read: Snapshot[Incidents]) -> dict[str, Any]:
    """Return a snapshot as JSON data."""
    return {
        "open": [_data(each) for each in read.value.open],
        "resolved": [_data(each) for each in read.value.resolved],
    }


def acknowledgment_note(held: Acknowledgment, at: datetime) -> str:
    """Return the author, time, end and reason of an acknowledgment."""
    facts = {"author": held.author, "time": _time(held.at, at), "end": _time(held.until, at)}
    if held.until is None:
        text = _("Acknowledged by %(author)s %(time)s, until it is resolved") % facts
    else:
        text = _("Acknowledged by %(author)s %(time)s, until %(end)s") % facts
    return _("%(text)s: %(reason)s") % {"text": text, "reason": held.reason} if held.reason else sentence(text)


def moment(at: float) -> datetime:
    """Return a time in seconds since the epoch."""
    return datetime.fromtimestamp(at, UTC)


def _read(using: str) -> Flow[Incidents]:
    state, resolved = yield from gather_values([read_state(using), read_resolved(using)])
    open_incidents = sorted(state.incidents.values(), key=lambda each: (each.severity != "critical", -each.started_at))
    return Incidents(open_incidents, resolved)


def _data(incident: Incident) -> dict[str, Any]:
    times = {"started_at": incident.started_at, "seen_at": incident.seen_at, "resolved_at": incident.resolved_at}
    return {
        **fields_of(incident),
        **{name: None if at is None else moment(at) for name, at in times.items()},
        "acknowledged": fields_of(incident.acknowledged) if incident.acknowledged else None,
    }


def _time(at: float | None, now: datetime) -> str:
    return "" if at is None else formats.timestamp(moment(at), now).text


def _table(at: datetime, columns: list[Column[Incident]], empty: str) -> Table[Incident]:
    return Table([_PROBLEM, _SEVERITY, *columns], empty=empty)


def _open_columns(request: PageRequest, at: datetime) -> list[Column[Incident]]:
    def verbs(incident: Incident) -> Cell:
        held = incident.acknowledged if incident.is_acknowledged(at.timestamp()) else None
        name, label = ("withdraw", _("Withdraw…")) if held else ("acknowledge", _("Acknowledge…"))
        url = request.links.verb(name, problem=incident.id)
        return Cell(
            acknowledgment_note(held, at) if held else "", title=incident.text, links=[(label, url)] if url else []
        )

    return [
        Column("started", gettext_lazy("Since"), lambda each: moment_cell(moment(each.started_at), at)),
        Column("acknowledged", gettext_lazy("Acknowledged"), verbs, "whole"),
    ]


def _resolved_columns(at: datetime) -> list[Column[Incident]]:
    return [
        Column("started", pgettext_lazy("a problem", "Started"), lambda each: moment_cell(moment(each.started_at), at)),
        Column(
            "resolved",
            pgettext_lazy("a problem", "Resolved"),
            lambda each: moment_cell(moment(each.resolved_at or 0), at),
        ),
        Column(
            "duration",
            pgettext_lazy("a problem", "Duration"),
            lambda each: Cell(formats.age((each.resolved_at or 0.0) - each.started_at)),
        ),
        Column(
            "acknowledged",
            gettext_lazy("Acknowledged"),
            lambda each: acknowledgment_note(each.acknowledged, at) if each.acknowledged else "",
            "whole",
        ),
    ]


def _severity(incident: Incident) -> Cell:
    return Cell(_("Critical") if incident.severity == "critical" else _("Warning"), incident.severity)


_PROBLEM: Column[Incident] = Column("problem", gettext_lazy("Problem"), lambda each: each.text, "name")
_SEVERITY: Column[Incident] = Column("severity", gettext_lazy("Severity"), _severity, "whole")

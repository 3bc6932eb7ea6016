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
from django_redis_components.dashboard.problems.storage import read_ended, read_state
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.dashboard.table import Column, Table


@dataclasses.dataclass(frozen=True, slots=True)
class Incidents:
    """The incidents that last, the latest first, and those that have ended."""

    lasting: list[Incident]
    ended: list[Incident]


def read(request: PageRequest) -> Snapshot[Incidents]:
    """Read the incidents in one round trip."""
    return read_snapshot(_read(conf.settings().dashboard.using))


def context(request: PageRequest, read: Snapshot[Incidents]) -> dict[str, Any]:
    """Return the context of the templates."""
    at = read.at
    return {
        "lasting": _table(at, _lasting_columns(request, at), _("There are no problems now.")).context(
            read.value.lasting
        )["table"],
        "ended": _table(at, _ended_columns(at), _("No problem has ended yet.")).context(read.value.ended)["table"],
        "is_watched": conf.settings().dashboard.watch,
    }


def incident_data(read: Snapshot[Incidents]) -> dict[str, Any]:
    """Return a snapshot as JSON data."""
    return {
        "lasting": [_data(each) for each in read.value.lasting],
        "ended": [_data(each) for each in read.value.ended],
    }


def acknowledgment_note(held: Acknowledgment, at: datetime) -> str:
    """Return who acknowledged a problem, when, until when and why."""
    facts = {"author": held.author, "time": _time(held.at, at), "end": _time(held.until, at)}
    if held.until is None:
        text = _("Acknowledged by %(author)s %(time)s, until it ends") % facts
    else:
        text = _("Acknowledged by %(author)s %(time)s, until %(end)s") % facts
    return _("%(text)s: %(reason)s") % {"text": text, "reason": held.reason} if held.reason else sentence(text)


def moment(at: float) -> datetime:
    """Return a time in seconds since the epoch."""
    return datetime.fromtimestamp(at, UTC)


def _read(using: str) -> Flow[Incidents]:
    state, ended = yield from gather_values([read_state(using), read_ended(using)])
    lasting = sorted(state.incidents.values(), key=lambda each: (each.severity != "critical", -each.began_at))
    return Incidents(lasting, ended)


def _data(incident: Incident) -> dict[str, Any]:
    times = {"began_at": incident.began_at, "seen_at": incident.seen_at, "ended_at": incident.ended_at}
    return {
        **fields_of(incident),
        **{name: None if at is None else moment(at) for name, at in times.items()},
        "acknowledged": fields_of(incident.acknowledged) if incident.acknowledged else None,
    }


def _time(at: float | None, now: datetime) -> str:
    return "" if at is None else formats.timestamp(moment(at), now).text


def _table(at: datetime, columns: list[Column[Incident]], empty: str) -> Table[Incident]:
    return Table([_PROBLEM, _SEVERITY, *columns], empty=empty)


def _lasting_columns(request: PageRequest, at: datetime) -> list[Column[Incident]]:
    def verbs(incident: Incident) -> Cell:
        held = incident.acknowledged if incident.is_acknowledged(at.timestamp()) else None
        name, label = ("withdraw", _("Withdraw…")) if held else ("acknowledge", _("Acknowledge…"))
        url = request.links.verb(name, problem=incident.id)
        return Cell(
            acknowledgment_note(held, at) if held else "", title=incident.text, links=[(label, url)] if url else []
        )

    return [
        Column("began", gettext_lazy("Since"), lambda each: moment_cell(moment(each.began_at), at)),
        Column("acknowledged", gettext_lazy("Acknowledged"), verbs, "whole"),
    ]


def _ended_columns(at: datetime) -> list[Column[Incident]]:
    return [
        Column("began", gettext_lazy("Began"), lambda each: moment_cell(moment(each.began_at), at)),
        Column("ended", pgettext_lazy("a problem", "Ended"), lambda each: moment_cell(moment(each.ended_at or 0), at)),
        Column(
            "lasted", gettext_lazy("Lasted"), lambda each: Cell(formats.age((each.ended_at or 0.0) - each.began_at))
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

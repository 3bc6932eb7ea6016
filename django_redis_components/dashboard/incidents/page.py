"""The template context and the JSON of the page of incidents."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import Cell, moment_cell, sentence
from django_redis_components.dashboard.json_data import fields_of
from django_redis_components.dashboard.list_counts import ListCount
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.facts import is_watched, last_round_at
from django_redis_components.dashboard.problems.incidents import Acknowledgment, ChannelFailure, Incident, IncidentState
from django_redis_components.dashboard.problems.notifications import channel_names
from django_redis_components.dashboard.problems.storage import read_resolved, read_state
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.dashboard.table import Column, Table


@dataclasses.dataclass(frozen=True, slots=True)
class Channel:
    """A configured channel of notifications.

    Attributes:
        name: without its URL, which may be a secret.
        waiting: notifications that wait for their delivery.
        failure: its last error and since when it fails; None if its last delivery has succeeded.
    """

    name: str
    waiting: int
    failure: ChannelFailure | None


@dataclasses.dataclass(frozen=True, slots=True)
class Incidents:
    """The open incidents, critical ones first, the resolved ones, the latest first, and the channels.

    Attributes:
        is_watched: see `ProblemFacts`.
        checked_at: when the watching process has looked last, in seconds since the epoch; None if it is not known.
    """

    open: list[Incident]
    resolved: list[Incident]
    channels: list[Channel]
    is_watched: bool
    checked_at: float | None


def read(request: PageRequest) -> Snapshot[Incidents]:
    """Read the incidents in one round trip."""
    return read_snapshot(_read(conf.settings().dashboard.using))


def context(request: PageRequest, read: Snapshot[Incidents]) -> dict[str, Any]:
    """Return the context of the templates."""
    at = read.at
    checked = _checked(read.value.checked_at, at)
    empty = _("No problem was found at the last check.") if checked else _("No check has been made.")
    open_table = _table(at, _open_columns(request, at), empty)
    return {
        "open": open_table.context(read.value.open)["table"],
        "counts": counts_of(read.value),
        "resolved": _table(at, _resolved_columns(at), _("No problem has been resolved yet.")).context(
            read.value.resolved
        )["table"],
        "channels": _channel_table(at).context(read.value.channels)["table"],
        "is_watched": read.value.is_watched,
        "checked": checked,
        "is_watch_on": conf.settings().dashboard.watch,
    }


def counts_of(found: Incidents) -> dict[str, ListCount]:
    """Return how many incidents are listed: all that are kept."""
    return {
        name: ListCount(len(rows), len(rows)) for name, rows in (("open", found.open), ("resolved", found.resolved))
    }


def incident_data(read: Snapshot[Incidents]) -> dict[str, Any]:
    """Return a snapshot as JSON data."""
    return {
        "open": [_data(each) for each in read.value.open],
        "resolved": [_data(each) for each in read.value.resolved],
        "counts": {name: count.data() for name, count in counts_of(read.value).items()},
        "channels": [_channel_data(each) for each in read.value.channels],
        "checked_at": None if read.value.checked_at is None else moment(read.value.checked_at),
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
    parts = [read_state(using), read_resolved(using), _read_facts(using)]
    state, resolved, (facts, started) = yield from gather_values(parts)
    open_incidents = sorted(state.incidents.values(), key=lambda each: (each.severity != "critical", -each.started_at))
    channels = [_channel(name, state) for name in channel_names()]
    return Incidents(open_incidents, resolved, channels, is_watched(facts, started), last_round_at(facts))


def _checked(checked_at: float | None, at: datetime) -> str:
    """Return when the watching process has looked last: what the overview finds meanwhile is not listed yet."""
    if checked_at is None:
        return ""
    text = _(
        "Last check: %(time)s, %(age)s ago. The overview checks at each refresh, and may list a new problem earlier."
    )
    age = formats.age(at.timestamp() - checked_at)
    return text % {"time": formats.timestamp(moment(checked_at), at).text, "age": age}


def _read_facts(using: str) -> Flow[list[bytes | None]]:
    """Read what the checks have found, and whether a process has started to watch."""
    stored: list[bytes | None] = yield Read("MGET", keyspace.key("facts", using), keyspace.key("starting", using))
    return stored


def _channel(name: str, state: IncidentState) -> Channel:
    return Channel(name, sum(name in each.channels for each in state.pending), state.failures.get(name))


def _data(incident: Incident) -> dict[str, Any]:
    times = {"started_at": incident.started_at, "seen_at": incident.seen_at, "resolved_at": incident.resolved_at}
    return {
        **fields_of(incident),
        **{name: None if at is None else moment(at) for name, at in times.items()},
        "acknowledged": fields_of(incident.acknowledged) if incident.acknowledged else None,
    }


def _channel_data(channel: Channel) -> dict[str, Any]:
    failure = channel.failure
    return {
        "name": channel.name,
        "waiting": channel.waiting,
        "error": failure.error if failure else "",
        "failing_since": moment(failure.since) if failure else None,
        "failed_at": moment(failure.at) if failure else None,
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


def _channel_table(at: datetime) -> Table[Channel]:
    def state(channel: Channel) -> Cell:
        failure = channel.failure
        return Cell(failure.error, "alarming") if failure else Cell(_("No failed delivery"))

    def since(channel: Channel) -> Cell | None:
        return moment_cell(moment(channel.failure.since), at) if channel.failure else None

    return Table(
        [
            Column("channel", _("Channel"), lambda channel: channel.name, "name"),
            Column("error", _("Last error"), state, "whole"),
            Column("since", _("Failing since"), since),
            Column("waiting", pgettext("notifications", "Waiting"), lambda channel: channel.waiting),
        ],
        empty=_("No notifications are configured. Add channels to REDIS_COMPONENTS:"),
        example='"NOTIFICATIONS": {"EMAILS": ["ops@example.com"]}',
    )


def _severity(incident: Incident) -> Cell:
    return Cell(_("Critical") if incident.severity == "critical" else _("Warning"), incident.severity)


_PROBLEM: Column[Incident] = Column("problem", gettext_lazy("Problem"), lambda each: each.text, "name")
_SEVERITY: Column[Incident] = Column("severity", gettext_lazy("Severity"), _severity, "whole")

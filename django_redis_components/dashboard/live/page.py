"""The template context of the page Live, formatted in the active language."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core.observability.live_events import KEPT_MS, MAX_EVENTS, LiveEvent
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.error_text import error_line, masked_error
from django_redis_components.dashboard.formats import Timestamp, number
from django_redis_components.dashboard.json_data import fields_of
from django_redis_components.dashboard.live.snapshot import KINDS, MAX_SHOWN, LiveSnapshot, RecordedEvent
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.task_list import TaskUrl
from django_redis_components.dashboard.snapshot import Snapshot
from django_redis_components.taskqueue.shards import shards_of
from django_redis_components.taskqueue.states import Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class EventLabel:
    """What has happened: a shape, a word, and the CSS class of their color."""

    shape: str
    text: str
    kind: str


#: The label of each kind; functions, since the language differs by request.
LABELS: dict[str, Callable[[], EventLabel]] = {
    "started": lambda: EventLabel("▶", pgettext("event", "Started"), "open"),
    Outcome.succeeded: lambda: EventLabel("●", Outcome.succeeded.label, "ok"),
    Outcome.failed: lambda: EventLabel("■", Outcome.failed.label, "bad"),
    Outcome.retried: lambda: EventLabel("↻", Outcome.retried.label, "lost"),
    Outcome.delayed: lambda: EventLabel("→", Outcome.delayed.label, "open"),
    Outcome.interrupted: lambda: EventLabel("↪", Outcome.interrupted.label, "open"),
    Outcome.cancelled: lambda: EventLabel("✕", Outcome.cancelled.label, "idle"),
    Outcome.requeued: lambda: EventLabel("↩", Outcome.requeued.label, "idle"),
    Outcome.unregistered: lambda: EventLabel("?", Outcome.unregistered.label, "lost"),
    "waiting": lambda: EventLabel("‖", pgettext("event", "Waiting"), "lost"),
    "acquired": lambda: EventLabel("◆", pgettext("event", "Acquired"), "ok"),
    "gave_up": lambda: EventLabel("◇", pgettext("event", "Not acquired"), "bad"),
    "left_out": lambda: EventLabel("…", pgettext("event", "Not recorded"), "idle"),
}


def live_data(snapshot: Snapshot[LiveSnapshot]) -> dict[str, Any]:
    """Return the JSON of a snapshot. A request with ``?after=<last_id>`` returns what was added since."""
    found = snapshot.value
    return {
        **fields_of(found.query),
        "is_recorded": found.is_recorded,
        "last_id": found.last_id or found.query.after or None,
        "events": [_event(each) for each in found.events],
    }


def _event(recorded: RecordedEvent) -> dict[str, Any]:
    event = recorded.event
    return {"id": recorded.id, "at": recorded.at, **fields_of(event), "message": masked_error(event.message)}


def context(request: PageRequest, read: Snapshot[LiveSnapshot]) -> dict[str, Any]:
    """Return the context of the templates."""
    snapshot, query = read.value, read.value.query
    kinds = {"": _("All events"), **{kind: LABELS[kind]().text for kind in KINDS}}
    queues = {"": _("All queues"), **{name: name for name in [*snapshot.queues, query.queue] if name}}
    page = {
        "query": query,
        "kinds": kinds,
        "queues": queues,
        "has_shards": len(shards_of(conf.settings().dashboard.using)) > 1,
        "rows": [_row(each, read.at, request.links.task) for each in snapshot.events],
        "empty": _empty(snapshot),
        "notes": _notes(),
    }
    return {"page": page}


def _empty(snapshot: LiveSnapshot) -> str:
    if not snapshot.is_recorded:
        return _("No events are recorded: LIVE_EVENTS is False.")
    if snapshot.query.kind or snapshot.query.queue:
        return _("No event matches the filter.")
    kept = formats.age(KEPT_MS / 1_000)
    return _("No events. They appear when workers run tasks, and are kept for %(age)s.") % {"age": kept}


def _notes() -> list[str]:
    shown = _("The newest %(count)s events, newest first.") % {"count": number(MAX_SHOWN)}
    text = _(
        "A process records at most %(count)s events a second, and of the waits for locks those of at least 100 ms."
    )
    return [shown, text % {"count": number(MAX_EVENTS)}]


def _row(recorded: RecordedEvent, now: datetime, url_of: TaskUrl) -> dict[str, Any]:
    """Return an event with its time and its label, and the task or the lock that it is about."""
    event = recorded.event
    return {
        "key": recorded.id,
        "event": event,
        "at": _timestamp(recorded, now),
        "label": LABELS[event.kind](),
        "id": event.task_id or _subject(event),
        "name": event.name or event.task_id,
        "url": url_of(event.task_id) if event.task_id else "",
        "note": _left_out(event),
        "message": error_line(event.message),
    }


def _timestamp(recorded: RecordedEvent, now: datetime) -> Timestamp:
    """Return the time with milliseconds."""
    at = formats.timestamp(recorded.at, now)
    return dataclasses.replace(at, text=f"{at.text}.{recorded.at.microsecond // 1_000:03}")


def _subject(event: LiveEvent) -> str:
    return {"lock": _("lock"), "semaphore": _("semaphore")}.get(event.subject, "")


def _left_out(event: LiveEvent) -> str:
    if event.kind != "left_out":
        return ""
    text = ngettext(
        "%(count)s more event was not recorded.", "%(count)s more events were not recorded.", event.left_out
    )
    return text % {"count": number(event.left_out)}

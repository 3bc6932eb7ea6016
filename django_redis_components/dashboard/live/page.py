"""The template context of the page Live, formatted in the active language."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core.live_events import KEPT_MS, MAX_EVENTS, LiveEvent
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import cost_note
from django_redis_components.dashboard.error_text import error_line
from django_redis_components.dashboard.formats import Timestamp, number
from django_redis_components.dashboard.live.snapshot import KINDS, MAX_SHOWN, LiveSnapshot, RecordedEvent
from django_redis_components.dashboard.queues.task_list import TaskUrl
from django_redis_components.taskqueue.states import Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class EventLabel:
    """What has happened: a shape, a word, and the CSS class of their color."""

    shape: str
    text: str
    kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class EventOption:
    """An option of a filter; "" for all."""

    name: str
    label: str
    is_current: bool


@dataclasses.dataclass(frozen=True, slots=True)
class EventRow:
    """An event.

    Attributes:
        key: identifies it when the page refreshes.
        id, name, url: of the task; `id` says "lock" or "semaphore" for these.
        note: a sentence instead of a name, or "".
        error, message: of the task's exception, masked.
    """

    key: str
    at: Timestamp
    label: EventLabel
    id: str
    name: str
    url: str
    note: str
    queue: str
    source: str
    duration: str
    error: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class LivePage:
    """The content of the page."""

    kinds: list[EventOption]
    queues: list[EventOption]
    rows: list[EventRow]
    empty: str
    notes: list[str]
    read_at: Timestamp
    zone: str
    cost: str


#: The label of each kind; functions, since the language differs by request.
LABELS: dict[str, Callable[[], EventLabel]] = {
    "started": lambda: EventLabel("▶", pgettext("event", "Started"), "open"),
    Outcome.succeeded: lambda: EventLabel("●", Outcome.succeeded.label, "ok"),
    Outcome.failed: lambda: EventLabel("■", Outcome.failed.label, "bad"),
    Outcome.retried: lambda: EventLabel("↻", Outcome.retried.label, "lost"),
    Outcome.delayed: lambda: EventLabel("→", Outcome.delayed.label, "open"),
    Outcome.cancelled: lambda: EventLabel("✕", Outcome.cancelled.label, "idle"),
    Outcome.requeued: lambda: EventLabel("↩", Outcome.requeued.label, "idle"),
    Outcome.unregistered: lambda: EventLabel("?", Outcome.unregistered.label, "lost"),
    "waiting": lambda: EventLabel("‖", pgettext("event", "Waiting"), "lost"),
    "acquired": lambda: EventLabel("◆", pgettext("event", "Acquired"), "ok"),
    "gave_up": lambda: EventLabel("◇", pgettext("event", "Not acquired"), "bad"),
    "left_out": lambda: EventLabel("…", pgettext("event", "Not recorded"), "idle"),
}


def build_page(snapshot: LiveSnapshot, *, url_of: TaskUrl) -> LivePage:
    """Return the page of a snapshot.

    Args:
        url_of: returns the URL of a task's page, or "".
    """
    query, at = snapshot.query, snapshot.at
    kinds = {"": _("All events"), **{kind: LABELS[kind]().text for kind in KINDS}}
    queues = {"": _("All queues"), **{name: name for name in [*snapshot.queues, query.queue] if name}}
    return LivePage(
        kinds=[*_options(kinds, query.kind)],
        queues=[*_options(queues, query.queue)],
        rows=[_row(each, snapshot, url_of) for each in snapshot.events],
        empty=_empty(snapshot),
        notes=_notes(),
        read_at=formats.timestamp(at, at),
        zone=formats.zone(),
        cost=cost_note(snapshot.cost, per_node=snapshot.is_cluster),
    )


def _options(labels: dict[str, str], chosen: str) -> Iterable[EventOption]:
    return (EventOption(name, label, name == chosen) for name, label in labels.items())


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


def _row(recorded: RecordedEvent, snapshot: LiveSnapshot, url_of: TaskUrl) -> EventRow:
    event = recorded.event
    return EventRow(
        key=recorded.id,
        at=_timestamp(recorded, snapshot),
        label=LABELS[event.kind](),
        id=event.task_id or _subject(event),
        name=event.name or event.task_id,
        url=url_of(event.task_id) if event.task_id else "",
        note=_left_out(event),
        queue=event.queue,
        source=event.source,
        duration="" if event.duration_s is None else formats.duration(event.duration_s),
        error=event.error.removeprefix("builtins."),
        message=error_line(event.message),
    )


def _timestamp(recorded: RecordedEvent, snapshot: LiveSnapshot) -> Timestamp:
    """Return the time with milliseconds."""
    at = formats.timestamp(recorded.at, snapshot.at)
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

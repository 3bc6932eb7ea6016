"""Elements that several pages show: table cells, tiles, links, the note of a pause, the cost line."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.dashboard import charts, formats
from django_redis_components.dashboard.formats import Timestamp, number

if TYPE_CHECKING:
    from django_redis_components.dashboard.bounded_client import Cost
    from django_redis_components.dashboard.panels.comparison import Comparison
    from django_redis_components.taskqueue.stats.queue_stats import QueuePause

#: Text of a cell without a value.
NO_VALUE = "–"


def anchor_of(kind: str, name: str) -> str:
    """Return the id of the row of a named object: valid in HTML and in the fragment of a URL, whatever the name."""
    return f"{kind}-{quote(name, safe='')}"


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A value in a table.

    Attributes:
        kind: CSS class: "zero" for a muted value, "alarming" for a highlighted one, or "".
        at: the time that is shown instead of the text, or None.
        url: of the page about it, or "".
        title: what a pointer shows, or "".
        badge: CSS class of the shape before a state, or "".
        note: a smaller text behind it, or "".
        links: labels and URLs behind it; `title` says of what, for screen readers.
        spark: a small chart instead of the text, or None.
        anchor: the id of the row's heading, to which links lead, or "".
    """

    text: str = ""
    kind: str = ""
    at: Timestamp | None = None
    url: str = ""
    title: str = ""
    badge: str = ""
    note: str = ""
    links: Sequence[tuple[str, str]] = ()
    spark: charts.Sparkline | None = None
    anchor: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """A key figure.

    Attributes:
        note: a short explanation, or "".
        url: of the page about it, or "".
        unit: shown behind the value, or "".
        spark: its last hour, or None.
        meter: width of a bar, its share of the whole in percent; "" without a bar.
        comparison: with the hour before, or None.
        more: label and URL of a further link, or None.
    """

    label: str
    value: str
    note: str = ""
    alarming: bool = False
    url: str = ""
    unit: str = ""
    spark: charts.Sparkline | None = None
    meter: str = ""
    comparison: Comparison | None = None
    more: tuple[str, str] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class MeteredValue:
    """A value with a bar.

    Attributes:
        width: of the bar, its share of the whole in percent; "" without a bar.
        kind: "late" for a highlighted bar, or "".
    """

    text: str
    width: str = ""
    kind: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Link:
    """A link to the same page with another query string.

    Attributes:
        note: a number behind the label, or "".
    """

    label: str
    query: str
    is_current: bool = False
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class TaskLine:
    """A task in a list.

    Attributes:
        url: of its page, or "".
        arguments: masked and cut.
        age: as text.
    """

    id: str
    name: str
    url: str
    arguments: str
    age: str


def count_cell(value: int, *, alarming: bool = False) -> Cell:
    """Return the cell of a count; zero is muted."""
    return Cell(number(value), "alarming" if alarming else "" if value else "zero")


def moment_cell(at: datetime | None, now: datetime) -> Cell:
    """Return the cell of a time; None is a dash."""
    return Cell(NO_VALUE, at=formats.timestamp(at, now) if at else None)


def pause_note(pause: QueuePause, now: datetime) -> str:
    """Return since when, by whom, until when and why a queue is paused."""
    facts = {"age": formats.age((now - pause.at).total_seconds()), "author": pause.author}
    text = (_("Paused %(age)s ago by %(author)s") if pause.author else _("Paused %(age)s ago")) % facts
    if pause.ends_at:
        text = _("%(paused)s until %(time)s") % {"paused": text, "time": formats.timestamp(pause.ends_at, now).text}
    reason = pause.reason.rstrip(".")
    return sentence(_("%(text)s: %(reason)s") % {"text": text, "reason": reason} if reason else text)


def sentence(text: str) -> str:
    """Return a text with the full stop of the active language."""
    return pgettext("a sentence with its full stop", "%(text)s.") % {"text": text}


def cost_note(cost: Cost, *, per_node: bool) -> str:
    """Return the cost of a page: commands, round trips (to each node on Cluster) and time."""
    trips = ngettext("%(count)d round trip", "%(count)d round trips", cost.round_trips) % {"count": cost.round_trips}
    return " · ".join(
        [
            ngettext("%(count)d command", "%(count)d commands", cost.commands) % {"count": cost.commands},
            _("%(trips)s per node") % {"trips": trips} if per_node else trips,
            _("%(ms)s ms") % {"ms": formats.decimal(cost.seconds * 1_000)},
        ]
    )

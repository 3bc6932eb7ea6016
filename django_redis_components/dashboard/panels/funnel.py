"""The panel of a funnel: how many users of the range did the first event, the first two, and so on."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.analytics import periods
from django_redis_components.analytics.dates import span
from django_redis_components.analytics.events import missing_units_flow, names_read
from django_redis_components.analytics.range_counts import funnel_flow
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.formats import short_percent
from django_redis_components.dashboard.panels.analytics import AnalyticsPanel
from django_redis_components.dashboard.panels.comparison import range_name
from django_redis_components.dashboard.panels.selection import OTHERS, PARAMETERS, Selection, parse_selection
from django_redis_components.dashboard.table import Column, Table

#: Query parameters with the names of the events.
STEPS = ("step1", "step2", "step3", "step4")


@dataclasses.dataclass(frozen=True, slots=True)
class FunnelStep:
    """An event, the users who did it and all before it, and those of the step before and of the first one."""

    event: str
    users: int
    before: int
    first: int


@dataclasses.dataclass(frozen=True, slots=True)
class FunnelCounts:
    """The events that can be chosen, those that are, and the counts; None if there are too many users.

    Attributes:
        uncounted: chosen events that do not keep a unit which the range is counted by; they are no steps.
    """

    selection: Selection
    names: list[str]
    chosen: list[str]
    steps: list[FunnelStep] | None
    uncounted: list[str]


class FunnelPanel(AnalyticsPanel):
    """A funnel of events that are chosen on the page, in the range that the page shows."""

    name = "funnel"
    title = gettext_lazy("Funnel")
    order = 46
    template_name = "django_redis_components/dashboard/panels/funnel.html"
    parameters = (*PARAMETERS, *OTHERS)

    def read(self, **query: str) -> Flow[FunnelCounts]:
        """Read the names of the events, then what the chosen ones keep, then their users, in three round trips."""
        selection, site = parse_selection(query), conf.settings().analytics.site
        names = [name.decode(errors="replace") for name in (yield names_read(site))]
        chosen = [query[step] for step in STEPS if query.get(step) in names]
        missing = yield from missing_units_flow(site, chosen)
        needed = {unit for unit, _start in periods.cover(span(*selection.days))}
        counted = [event for event in chosen if not needed & missing[event]]
        uncounted = [event for event in chosen if event not in counted]
        if len(counted) < 2:
            return FunnelCounts(selection, names, chosen, [], uncounted)
        counts = yield from funnel_flow(site, counted, selection.days)
        if counts is None:
            return FunnelCounts(selection, names, chosen, None, uncounted)
        before = [counts[0], *counts]
        rows = [FunnelStep(*row, counts[0]) for row in zip(counted, counts, before, strict=False)]
        return FunnelCounts(selection, names, chosen, rows, uncounted)

    def context(self, value: FunnelCounts) -> dict[str, Any]:
        """Return the form and the table."""
        chosen = [*value.chosen, "", "", "", ""]
        note = _("Users who did all steps so far in %(period)s, in any order.")
        table = Table(_COLUMNS, note=note % {"period": range_name(value.selection.days)})
        kept = {name: text for name, text in value.selection.parameters.items() if name not in STEPS}
        return {
            **table.context(value.steps or []),
            "fields": [(step, chosen[index], index + 1) for index, step in enumerate(STEPS)],
            "names": value.names if len(value.names) > 1 else [],
            "kept": kept,
            "is_too_large": value.steps is None,
            "uncounted": ", ".join(value.uncounted),
        }

    def data(self, value: FunnelCounts) -> list[dict[str, Any]] | None:
        """Return the steps, then the events that are not counted; null if there are too many users."""
        if value.steps is None:
            return None
        steps: list[dict[str, Any]] = [{"event": step.event, "users": step.users} for step in value.steps]
        return steps + [{"event": event, "users": None} for event in value.uncounted]


_COLUMNS: list[Column[FunnelStep]] = [
    Column("event", gettext_lazy("Event"), lambda step: step.event, "name"),
    Column("users", gettext_lazy("Users"), lambda step: step.users),
    Column("previous", gettext_lazy("Of the step before"), lambda step: _share(step.users, step.before)),
    Column("first", gettext_lazy("Of the first step"), lambda step: _share(step.users, step.first)),
]


def _share(users: int, whole: int) -> str | None:
    return short_percent(users / whole) if whole else None

"""The panel of a funnel: how many users of the range did the first event, the first two, and so on."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.analytics.events import names_read
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
    """The events that can be chosen, those that are, and the counts; None if there are too many users."""

    selection: Selection
    names: list[str]
    chosen: list[str]
    steps: list[FunnelStep] | None


class FunnelPanel(AnalyticsPanel):
    """A funnel of events that are chosen on the page, in the range that the page shows."""

    name = "funnel"
    title = gettext_lazy("Funnel")
    order = 46
    template_name = "django_redis_components/dashboard/panels/funnel.html"
    parameters = (*PARAMETERS, *OTHERS)

    def read(self, **query: str) -> Flow[FunnelCounts]:
        """Read the names of the events, then the users of those that are chosen, in two round trips."""
        selection, site = parse_selection(query), conf.settings().analytics.site
        names = [name.decode(errors="replace") for name in (yield names_read(site))]
        chosen = [query[step] for step in STEPS if query.get(step) in names]
        if len(chosen) < 2:
            return FunnelCounts(selection, names, chosen, [])
        counts = yield from funnel_flow(site, chosen, selection.days)
        if counts is None:
            return FunnelCounts(selection, names, chosen, None)
        before = [counts[0], *counts]
        rows = [FunnelStep(*row, counts[0]) for row in zip(chosen, counts, before, strict=False)]
        return FunnelCounts(selection, names, chosen, rows)

    def context(self, value: FunnelCounts) -> dict[str, Any]:
        """Return the form and the table."""
        chosen = [*value.chosen, "", "", "", ""]
        note = _("Users who did all steps so far in %(period)s, in any order.")
        table = Table(_COLUMNS, note=note % {"period": range_name(value.selection.days)})
        kept = {name: text for name, text in value.selection.parameters.items() if name not in STEPS}
        return {
            **table.context(value.steps or []),
            "fields": [(step, chosen[at], at + 1) for at, step in enumerate(STEPS)],
            "names": value.names if len(value.names) > 1 else [],
            "kept": kept,
            "is_too_large": value.steps is None,
        }

    def data(self, value: FunnelCounts) -> list[dict[str, Any]] | None:
        """Return the steps; null if there are too many users."""
        return None if value.steps is None else [{"event": step.event, "users": step.users} for step in value.steps]


_COLUMNS: list[Column[FunnelStep]] = [
    Column("event", gettext_lazy("Event"), lambda step: step.event, "name"),
    Column("users", gettext_lazy("Users"), lambda step: step.users),
    Column("previous", gettext_lazy("Of the step before"), lambda step: _share(step.users, step.before)),
    Column("first", gettext_lazy("Of the first step"), lambda step: _share(step.users, step.first)),
]


def _share(users: int, whole: int) -> str | None:
    return short_percent(users / whole) if whole else None

"""The panel of events: users of today, of this week and of this month."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.utils.translation import gettext_lazy

from django_redis_components.analytics.events import missing_units_flow, names_read
from django_redis_components.analytics.periods import Unit, label
from django_redis_components.core import keys
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Batch, Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.panels.analytics import AnalyticsPanel
from django_redis_components.dashboard.table import Column, Table

#: Events that are counted. Each takes 3 commands, and all take one more.
MAX_EVENTS = 10
#: Periods that are counted.
UNITS: tuple[Unit, ...] = ("day", "week", "month")


@dataclasses.dataclass(frozen=True, slots=True)
class EventUsers:
    """An event with its users of the current periods; None for a period that is not kept."""

    name: str
    day: int | None
    week: int | None
    month: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class EventCounts:
    """The events of a site. `others` have no room in the table."""

    rows: list[EventUsers]
    others: int


_TABLE: Table[EventUsers] = Table(
    [
        Column("name", gettext_lazy("Event"), lambda row: row.name, "name"),
        Column("day", gettext_lazy("Users today"), lambda row: row.day),
        Column("week", gettext_lazy("This week"), lambda row: row.week),
        Column("month", gettext_lazy("This month"), lambda row: row.month),
    ]
)


class EventsPanel(AnalyticsPanel):
    """The events of the site of analytics."""

    name = "events"
    title = gettext_lazy("Events")
    order = 40
    template_name = "django_redis_components/dashboard/panels/events.html"

    def read(self) -> Flow[EventCounts]:
        """Read the names, then the users of each, in two round trips."""
        site = conf.settings().analytics.site
        stored_names = yield names_read(site)
        names = [name.decode(errors="replace") for name in stored_names]
        listed = names[:MAX_EVENTS]
        users, missing = yield from gather_values([_users(site, listed), missing_units_flow(site, listed)])
        rows = [
            EventUsers(name, *[None if unit in missing[name] else users[name, unit] for unit in UNITS])
            for name in listed
        ]
        return EventCounts(rows, len(names) - len(listed))

    def context(self, value: EventCounts) -> dict[str, Any]:
        """Return the rows of the table."""
        return {**_TABLE.context(value.rows), "others": value.others}

    def data(self, value: EventCounts) -> list[EventUsers]:
        """Return the events."""
        return value.rows


def _users(site: str, names: list[str]) -> Flow[dict[tuple[str, Unit], int]]:
    """Read the users of the current periods of events."""
    wanted = [(name, unit) for name in names for unit in UNITS]
    reads = [Read("BITCOUNT", keys.key("analytics", site, f"ev:{name}:{unit}:{label(unit)}")) for name, unit in wanted]
    return dict(zip(wanted, (yield Batch(reads)) if reads else [], strict=True))

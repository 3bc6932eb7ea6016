"""The panels of cohorts: the retention of sign-ins, and the tables of events that were stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Any

from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.analytics.cohorts import Cohort
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.periods import Unit
from django_redis_components.analytics.retention import stored_counts_flow
from django_redis_components.analytics.stored_cohorts import StoredCohorts, events_of, stored_cohorts_flow
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import NO_VALUE
from django_redis_components.dashboard.formats import number, short_percent
from django_redis_components.dashboard.panels.analytics import AnalyticsPanel, interval_name, sign_ins_counter
from django_redis_components.dashboard.panels.selection import OTHERS, PARAMETERS, kept_parameters

#: Days of the retention, up to yesterday.
DAYS = 14
#: Tables of events that are shown, those that were stored last; and their columns.
MAX_TABLES, MAX_COLUMNS = 3, 14
#: Shades of a cell: "drc-share-0" to "drc-share-5".
SHADES = 5


@dataclasses.dataclass(frozen=True, slots=True)
class CohortCell:
    """A part of a cohort: its share as text, the number of users, and the class of the shade."""

    share: str
    count: str
    shade: str


@dataclasses.dataclass(frozen=True, slots=True)
class CohortLine:
    """A row: the period, its users, and the cells of the periods after it."""

    start: str
    size: str
    cells: list[CohortCell]


@dataclasses.dataclass(frozen=True, slots=True)
class CohortTable:
    """A table of cohorts as texts."""

    caption: str
    columns: list[str]
    lines: list[CohortLine]
    note: str


class RetentionPanel(AnalyticsPanel):
    """How many users of a day signed in again on each of the next days."""

    name = "retention"
    title = gettext_lazy("Retention of sign-ins")
    order = 97
    template_name = "django_redis_components/dashboard/panels/cohorts.html"

    def read(self) -> Flow[list[Cohort]]:
        """Read the stored numbers by one command. Days without any are left out."""
        yesterday = site_date() - timedelta(days=1)
        starts = [yesterday - timedelta(days=ago) for ago in range(DAYS - 1, -1, -1)]
        stored = yield from stored_counts_flow(sign_ins_counter(), starts)
        return [Cohort(start, counts[0], tuple(counts)) for start, counts in zip(starts, stored, strict=True) if counts]

    def context(self, value: list[Cohort]) -> dict[str, Any]:
        """Return the table."""
        note = _("Stored numbers of days that are over. Dates are in %(zone)s.") % {"zone": formats.days_zone()}
        caption = _("Users by day of sign-in, and the share that signed in again N days later")
        return {"tables": [_table(caption, "day", value, note)] if value else [], "is_retention": True}


@dataclasses.dataclass(frozen=True, slots=True)
class StoredTables:
    """Stored tables of cohorts.

    Attributes:
        names: of all that are stored.
        chosen: the name of the one that is shown, or "".
        kept: parameters of the page that the form keeps.
    """

    names: list[str]
    tables: list[StoredCohorts]
    chosen: str
    kept: dict[str, str]


class CohortsPanel(AnalyticsPanel):
    """The stored tables of cohorts of events: the last ones, or the one that is chosen."""

    name = "cohorts"
    title = gettext_lazy("Cohorts")
    order = 98
    template_name = "django_redis_components/dashboard/panels/cohorts.html"
    parameters = (*PARAMETERS, *OTHERS)

    def read(self, **query: str) -> Flow[StoredTables]:
        """Read the tables in two round trips."""
        chosen = query.get("cohorts", "")
        names, tables = yield from stored_cohorts_flow(conf.settings().analytics.site, MAX_TABLES, chosen)
        return StoredTables(names, tables, chosen if chosen in names else "", kept_parameters(query, "cohorts"))

    def context(self, value: StoredTables) -> dict[str, Any]:
        """Return the tables, and the form that chooses one of several."""
        choices = [(name, _choice_text(name), name == value.chosen) for name in value.names]
        return {
            "tables": [_stored_table(table) for table in value.tables],
            "is_retention": False,
            "choices": choices if len(choices) > 1 else [],
            "kept": value.kept,
            "last_count": MAX_TABLES,
        }

    def data(self, value: StoredTables) -> list[StoredCohorts]:
        """Return the tables."""
        return value.tables


def _choice_text(name: str) -> str:
    first, later, unit = events_of(name)
    text = {
        "hour": _("%(first)s, then %(later)s, by hour"),
        "day": _("%(first)s, then %(later)s, by day"),
        "week": _("%(first)s, then %(later)s, by week"),
        "month": _("%(first)s, then %(later)s, by month"),
    }[unit]
    return text % {"first": first, "later": later}


def _stored_table(table: StoredCohorts) -> CohortTable:
    caption = {
        "hour": _("Users of %(first)s by hour, and the share with %(later)s N hours later"),
        "day": _("Users of %(first)s by day, and the share with %(later)s N days later"),
        "week": _("Users of %(first)s by week, and the share with %(later)s N weeks later"),
        "month": _("Users of %(first)s by month, and the share with %(later)s N months later"),
    }[table.unit]
    note = _("Computed on %(time)s") % {"time": date_format(formats.local(table.at), "DATETIME_FORMAT")}
    return _table(caption % {"first": table.first, "later": table.later}, table.unit, table.rows, note)


def _table(caption: str, unit: Unit, rows: Sequence[Cohort], note: str) -> CohortTable:
    width = min(max((len(row.later) for row in rows), default=0), MAX_COLUMNS)
    lines = [
        CohortLine(
            _start(row.start, unit),
            number(row.size),
            [_cell(count, row.size) for count in row.later[:width]],
        )
        for row in rows
    ]
    return CohortTable(caption, [number(column) for column in range(width)], lines, note)


def _cell(count: int, size: int) -> CohortCell:
    if not size:
        return CohortCell(NO_VALUE, "", "drc-share-0")
    share = count / size
    return CohortCell(short_percent(share), number(count), f"drc-share-{round(min(share, 1.0) * SHADES)}")


def _start(start: date, unit: Unit) -> str:
    if isinstance(start, datetime):
        return date_format(start, "DATETIME_FORMAT")
    return interval_name(start, unit)

"""The panel of sources: where the views of the range come from."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_redis_components.analytics.countries import UNKNOWN_COUNTRY
from django_redis_components.analytics.range_counts import ViewSums, view_sums_flow
from django_redis_components.analytics.view_counters import OTHER, Dimension
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.panels.analytics import CsvRow, SelectionPanel
from django_redis_components.dashboard.panels.comparison import change
from django_redis_components.dashboard.panels.selection import Selection
from django_redis_components.dashboard.panels.traffic import name_label, page_views_counter, share_of

#: Rows of each table.
TOP = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Sources:
    """The values of each dimension with the most views, and the views with any value."""

    selection: Selection
    dimensions: dict[Dimension, ViewSums]


@dataclasses.dataclass(frozen=True, slots=True)
class SourceRow:
    """A value as texts.

    Attributes:
        code: of a country that the browser names, or "".
        url: of the page with the counts of this value, or of all if it is chosen.
    """

    name: str
    code: str
    views: str
    share: str
    change: str
    url: str
    is_chosen: bool


class SourcesPanel(SelectionPanel):
    """Where views come from. A click on a value shows its views."""

    name = "sources"
    title = gettext_lazy("Sources")
    order = 35
    template_name = "django_redis_components/dashboard/panels/sources.html"
    filters = ("source",)

    def read_selection(self, selection: Selection) -> Flow[Sources]:
        """Read the values and the sum of each dimension in one round trip."""
        views, dimensions = page_views_counter(), get_args(Dimension)
        flows = [
            view_sums_flow(views, selection.days, selection.before, dimension=each, limit=TOP) for each in dimensions
        ]
        found = yield from gather_values(flows)
        return Sources(selection, dict(zip(dimensions, found, strict=True)))

    def context(self, value: Sources) -> dict[str, Any]:
        """Return a table for each dimension with values."""
        titles: dict[Dimension, str] = {
            "referrer": _("Linking site"),
            "utm_source": _("Campaign (utm_source)"),
            "device": _("Device"),
            "country": _("Country"),
        }
        tables = [
            (titles[dimension], number(sums.total), _rows(value.selection, dimension, sums))
            for dimension, sums in value.dimensions.items()
            if sums.names
        ]
        return {
            "tables": tables,
            "has_changes": any(row.change for _title, _total, rows in tables for row in rows),
            "filter_note": self.filter_note(value.selection),
        }

    def data(self, value: Sources) -> dict[str, Any]:
        """Return the values of each dimension."""
        return {
            dimension: {"total": sums.total, "values": {name: views for name, (views, _before) in sums.names.items()}}
            for dimension, sums in value.dimensions.items()
        }

    def csv_rows(self, value: Sources) -> list[CsvRow]:
        """Return the values with their dimensions."""
        has_before = value.selection.before is not None
        return [
            (f"{dimension}:{name}", views, before if has_before else "")
            for dimension, sums in value.dimensions.items()
            for name, (views, before) in sums.names.items()
        ]


def _rows(selection: Selection, dimension: Dimension, sums: ViewSums) -> list[SourceRow]:
    return [_row(selection, dimension, name, views, before, sums.total) for name, (views, before) in sums.names.items()]


def _row(selection: Selection, dimension: Dimension, name: str, views: int, before: int, total: int) -> SourceRow:
    is_chosen = (dimension, name) == (selection.dimension, selection.source)
    is_country = dimension == "country" and name not in (UNKNOWN_COUNTRY, OTHER)
    return SourceRow(
        name=source_label(dimension, name),
        code=name if is_country else "",
        views=number(views),
        share=share_of(views, total),
        change=change(views, before) if selection.before is not None else "",
        url=selection.url(page="", source="" if is_chosen else f"{dimension}:{name}"),
        is_chosen=is_chosen,
    )


def source_label(dimension: Dimension, name: str) -> str:
    """Return a value as it is shown; the browser names countries."""
    labels: dict[str, str] = {}
    if dimension == "country":
        labels[UNKNOWN_COUNTRY] = _("Unknown")
    if dimension == "device":
        labels |= {
            "desktop": pgettext("device", "desktop"),
            "mobile": pgettext("device", "mobile"),
            "tablet": pgettext("device", "tablet"),
            "other": pgettext("device", "other"),
        }
    return labels.get(name) or name_label(name)

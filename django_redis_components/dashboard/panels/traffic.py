"""The panel of traffic: visitors now, and the page views of the range."""

from __future__ import annotations

import dataclasses
from datetime import date
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from django_redis_components.analytics import Estimate, PageViews
from django_redis_components.analytics.range_counts import ViewSums, name_series_flow, view_sums_flow
from django_redis_components.analytics.view_counters import OTHER, SUM, page_name
from django_redis_components.analytics.visitors import active_flow, recent_flow
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.panels.analytics import (
    CsvRow,
    SelectionPanel,
    counts_views,
    range_context,
    today_of,
    visitors_counter,
)
from django_redis_components.dashboard.panels.comparison import Figure, compare
from django_redis_components.dashboard.panels.selection import Selection

#: Hours of the recent visitors, including the current one.
HOURS = 24
#: Minutes in which a visitor counts as active.
ACTIVE_MINUTES = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Traffic:
    """Visitors of the last minutes and hours, and views by interval, of the range, and of the earlier one or None."""

    selection: Selection
    active: Estimate
    recent: Estimate
    days: dict[date, int]
    total: int
    before: int | None


class TrafficPanel(SelectionPanel):
    """Visitors now and in 24 hours, and page views of the range."""

    name = "traffic"
    title = gettext_lazy("Page views")
    order = 5
    template_name = "django_redis_components/dashboard/panels/traffic.html"
    filters = ("page", "source")

    def read_selection(self, selection: Selection) -> Flow[Traffic]:
        """Read all in one round trip."""
        views, visitors = page_views_counter(), visitors_counter()
        name = selection.source or (page_name(selection.page) if selection.page else SUM)
        flows: list[Flow[Any]] = [
            active_flow(visitors, ACTIVE_MINUTES),
            recent_flow(visitors, HOURS),
            name_series_flow(views, name, selection.starts, selection.unit, selection.dimension),
            view_sums_flow(
                views,
                selection.days,
                selection.before,
                dimension=selection.dimension,
                names=[name] if selection.is_filtered else [],
            ),
        ]
        active, recent, series, sums = yield from gather_values(flows)
        total, before = _of(sums, name)
        counts = dict(zip(selection.starts, series, strict=True))
        return Traffic(selection, active, recent, counts, total, before if selection.before else None)

    def context(self, value: Traffic) -> dict[str, Any]:
        """Return the figures and the chart."""
        selection = value.selection
        label = ngettext("Views in %(days)d day", "Views in %(days)d days", selection.length)
        comparison = compare(value.total, value.before, selection.before)
        shown = range_context(
            selection,
            value.days,
            value.total,
            label % {"days": selection.length},
            comparison,
            "",
            _visitors_now(value) if selection.is_until_today and not selection.is_filtered else (),
            _("Views today"),
        )
        return {**shown, "counts_views": counts_views()}

    def data(self, value: Traffic) -> dict[str, Any]:
        """Return the figures."""
        return {
            "visitors_active": int(value.active),
            "visitors_24_hours": int(value.recent),
            "visitors_24_hours_are_unique": value.recent.is_unique,
            "today": today_of(value.selection, value.days),
            "range": value.total,
            "before": value.before,
            "days": {day.isoformat(): views for day, views in value.days.items()},
        }

    def csv_rows(self, value: Traffic) -> list[CsvRow]:
        """Return the intervals and the range."""
        rows: list[CsvRow] = [(day.isoformat(), views, "") for day, views in value.days.items()]
        return [*rows, ("", value.total, "" if value.before is None else value.before)]


def page_views_counter() -> PageViews:
    """Return the counter of page views that the dashboard shows."""
    settings = conf.settings().analytics
    return PageViews(settings.site, using=settings.using)


def about(estimate: int) -> str:
    """Format an estimate."""
    return f"≈\N{NO-BREAK SPACE}{number(estimate)}"


def name_label(name: str) -> str:
    """Return the name of a page or of a source as it is shown."""
    return pgettext("sources", "others") if name == OTHER else name


def share_of(views: int, total: int) -> str:
    """Format a share of views; "" without any."""
    return formats.percent(views / total) if total else ""


def _of(sums: ViewSums, name: str) -> tuple[int, int]:
    return sums.names[name] if name else (sums.total, sums.before)


def _visitors_now(value: Traffic) -> list[Figure]:
    recent = _("Visitors in 24 hours") if value.recent.is_unique else _("Visitors in 24 hours (sum of 2 days)")
    return [
        Figure(_("Visitors in the last 5 minutes"), about(int(value.active))),
        Figure(recent, about(int(value.recent))),
    ]

"""The panels of traffic: visitors now, page views, the pages with the most views, and where visitors come from."""

from __future__ import annotations

import dataclasses
from datetime import date
from typing import Any, get_args

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_redis_components.analytics import Estimate, PageViews, UniqueVisitors
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.pageviews import breakdown_flow, top_flow, view_count_flow, view_series_flow
from django_redis_components.analytics.view_counters import SUM, Dimension, value_key
from django_redis_components.analytics.visitors import active_flow, recent_flow, visitor_count_flow
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import charts, formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.gather import gather
from django_redis_components.dashboard.panels.analytics import AnalyticsPanel, chart_days, visitors_counter
from django_redis_components.dashboard.table import Column, Table

#: Rows of each table.
TOP = 10
#: Hours of the recent visitors, including the current one.
HOURS = 24
#: Minutes in which a visitor counts as active.
ACTIVE_MINUTES = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Traffic:
    """Visitors of the last minutes and hours, and views of the last days."""

    active: Estimate
    recent: Estimate
    days: dict[date, int]


@dataclasses.dataclass(frozen=True, slots=True)
class TopPages:
    """The pages of a day with the most views, as (page, views, visitors), and the views of all pages."""

    name: str
    day: date
    pages: list[tuple[str, int, int]]
    total: int


@dataclasses.dataclass(frozen=True, slots=True)
class SourceValues:
    """The values of a dimension with the most views of a month, and the views with any value."""

    dimension: Dimension
    values: list[tuple[str, int]]
    total: int


class TrafficPanel(AnalyticsPanel):
    """Visitors now and in 24 hours, and page views of 30 days."""

    name = "traffic"
    title = gettext_lazy("Page views")
    order = 5
    template_name = "django_redis_components/dashboard/panels/traffic.html"

    def read(self) -> Flow[Traffic]:
        """Read all in one round trip."""
        views, visitors = _views(), visitors_counter()
        flows = [
            active_flow(visitors, ACTIVE_MINUTES),
            recent_flow(visitors, HOURS),
            view_series_flow(views, *chart_days(), "day"),
        ]
        outcomes = yield from gather(flows)
        return Traffic(*(outcome.unwrap() for outcome in outcomes))

    def context(self, value: Traffic) -> dict[str, Any]:
        """Return the figures and the chart."""
        if not any(value.days.values()):
            return {"chart": None}
        recent = _("Visitors in 24 hours") if value.recent.is_unique else _("Visitors in 24 hours (sum of 2 days)")
        facts = [
            (_("Visitors in the last 5 minutes"), _about(int(value.active))),
            (recent, _about(int(value.recent))),
            (_("Views today"), number(list(value.days.values())[-1])),
            (_("Views in %(days)d days") % {"days": len(value.days)}, number(sum(value.days.values()))),
        ]
        note = _("Dates are in %(zone)s.") % {"zone": formats.days_zone()}
        return {"facts": facts, "chart": charts.daily_chart(value.days), "note": note}

    def data(self, value: Traffic) -> dict[str, Any]:
        """Return the figures."""
        return {
            "visitors_active": int(value.active),
            "visitors_24_hours": int(value.recent),
            "visitors_24_hours_are_unique": value.recent.is_unique,
            "days": {day.isoformat(): views for day, views in value.days.items()},
        }


class TopPagesPanel(AnalyticsPanel):
    """The pages of today with the most views."""

    name = "top-pages"
    title = gettext_lazy("Top pages today")
    order = 30
    template_name = "django_redis_components/dashboard/panels/table.html"

    def read(self) -> Flow[TopPages]:
        """Read the pages and the sum, then the visitors of each page."""
        views, day = _views(), site_date()
        outcomes = yield from gather([top_flow(views, day, TOP), view_count_flow(views, None, day)])
        pages, total = (outcome.unwrap() for outcome in outcomes)
        counters = [UniqueVisitors(views.name, page=page, using=views.using) for page, _views_ in pages]
        visitors = yield from gather([visitor_count_flow(counter, day) for counter in counters])
        rows = [(*row, int(outcome.unwrap())) for row, outcome in zip(pages, visitors, strict=True)]
        return TopPages(views.name, day, rows, total)

    def context(self, value: TopPages) -> dict[str, Any]:
        """Return the table, with the views of all pages."""
        columns: list[Column[tuple[str, int, int]]] = [
            Column("page", _("Page"), lambda row: row[0], "name", total=lambda rows: _("All pages")),
            Column("views", pgettext("of pages", "Views"), lambda row: row[1], total=lambda rows: value.total),
            Column("share", _("Share"), lambda row: _share(row[1], value.total)),
            Column("visitors", _("Visitors"), lambda row: _about(row[2]) if row[2] else ""),
        ]
        empty = _("No page views today. To count page views, append this to MIDDLEWARE:")
        table = Table(columns, empty=empty, example="django_redis_components.analytics.AnalyticsMiddleware")
        return table.context(value.pages, totals=value.pages)

    def data(self, value: TopPages) -> dict[str, Any]:
        """Return the pages and the sum."""
        return {
            "name": value.name,
            "day": value.day.isoformat(),
            "total": value.total,
            "pages": [{"page": page, "views": views, "visitors": visitors} for page, views, visitors in value.pages],
        }


class SourcesPanel(AnalyticsPanel):
    """Where the views of this month come from."""

    name = "sources"
    title = gettext_lazy("Sources this month")
    order = 35
    template_name = "django_redis_components/dashboard/panels/sources.html"

    def read(self) -> Flow[list[SourceValues]]:
        """Read the values and the sum of each dimension in one round trip."""
        views, day = _views(), site_date()
        dimensions: tuple[Dimension, ...] = get_args(Dimension)
        flows: list[Flow[Any]] = [breakdown_flow(views, dimension, day, TOP, "month") for dimension in dimensions]
        flows += [_sum_flow(views, dimension, day) for dimension in dimensions]
        values = [outcome.unwrap() for outcome in (yield from gather(flows))]
        return [SourceValues(*row) for row in zip(dimensions, values, values[len(dimensions) :], strict=False)]

    def context(self, value: list[SourceValues]) -> dict[str, Any]:
        """Return a table for each dimension with values."""
        titles = {
            "referrer": _("Linking site"),
            "utm_source": _("Campaign (utm_source)"),
            "device": _("Device"),
            "country": _("Country"),
        }
        tables = [
            (titles[source.dimension], [(name, number(views), _share(views, source.total)) for name, views in rows])
            for source in value
            if (rows := source.values)
        ]
        return {"tables": tables}

    def data(self, value: list[SourceValues]) -> dict[str, Any]:
        """Return the values of each dimension."""
        return {source.dimension: {"total": source.total, "values": dict(source.values)} for source in value}


def _views() -> PageViews:
    settings = conf.settings().analytics
    return PageViews(settings.site, using=settings.using)


def _sum_flow(views: PageViews, dimension: Dimension, day: date) -> Flow[int]:
    found: bytes | None = yield Read("ZSCORE", value_key(views.name, dimension, "month", day), SUM)
    return int(float(found or 0))


def _about(estimate: int) -> str:
    return f"≈\N{NO-BREAK SPACE}{number(estimate)}"


def _share(views: int, total: int) -> str:
    return formats.percent(views / total) if total else ""

"""The panels of daily counts: visitors and sign-ins."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.analytics import Estimate, SignIns, UniqueVisitors
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.signins import sign_in_series_flow
from django_redis_components.analytics.visitors import IDENTITY_PERIODS, visitor_count_flow, visitor_series_flow
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import charts, formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.gather import gather
from django_redis_components.dashboard.panel import Panel

#: Days in the charts, including today.
DAYS = 30


@dataclasses.dataclass(frozen=True, slots=True)
class DailyVisitors:
    """Visitors per day, and in the whole range (`Estimate.is_unique` tells whether they are unique)."""

    name: str
    days: dict[date, Estimate]
    range: Estimate


@dataclasses.dataclass(frozen=True, slots=True)
class DailySignIns:
    """Users who signed in, per day."""

    name: str
    days: dict[date, int]


@dataclasses.dataclass(frozen=True, slots=True)
class DailyCounts:
    """Daily counts as texts. `chart` is None if all counts are zero."""

    id: str
    name: str
    chart: charts.Chart | None
    today: str
    range_label: str
    range: str
    note: str


class AnalyticsPanel(Panel):
    """A panel of the page "Analytics": it reads the connection of analytics."""

    page = "analytics"

    def using(self) -> str:
        """Return the alias of analytics."""
        return conf.settings().analytics.using


class VisitorsPanel(AnalyticsPanel):
    """Unique visitors of 30 days."""

    name = "visitors"
    title = gettext_lazy("Visitors")
    order = 10
    template_name = "django_redis_components/dashboard/panels/visitors.html"

    def read(self) -> Flow[DailyVisitors]:
        """Read the days and the range in one round trip."""
        visitors, (start, end) = visitors_counter(), chart_days()
        outcomes = yield from gather(
            [visitor_series_flow(visitors, start, end), visitor_count_flow(visitors, start, end)]
        )
        days, total = (outcome.unwrap() for outcome in outcomes)
        return DailyVisitors(visitors.name, days, total)

    def context(self, value: DailyVisitors) -> dict[str, Any]:
        """Return the chart."""
        return {"days": _visitors(value)}

    def data(self, value: DailyVisitors) -> dict[str, Any]:
        """Return the counts by day."""
        return {
            "name": value.name,
            "today": int(list(value.days.values())[-1]),
            "range_days": len(value.days),
            "range": int(value.range),
            "is_unique": value.range.is_unique,
            "standard_error": value.range.error,
            "days": {day.isoformat(): int(count) for day, count in value.days.items()},
        }


class SignInsPanel(AnalyticsPanel):
    """Users who signed in, of 30 days."""

    name = "sign-ins"
    title = gettext_lazy("Sign-ins")
    order = 20
    template_name = "django_redis_components/dashboard/panels/sign_ins.html"

    def read(self) -> Flow[DailySignIns]:
        """Read the days in one round trip."""
        sign_ins = sign_ins_counter()
        return DailySignIns(sign_ins.name, (yield from sign_in_series_flow(sign_ins, *chart_days())))

    def context(self, value: DailySignIns) -> dict[str, Any]:
        """Return the chart."""
        return {"days": _sign_ins(value)}

    def data(self, value: DailySignIns) -> dict[str, Any]:
        """Return the counts by day."""
        return {
            "name": value.name,
            "today": list(value.days.values())[-1],
            "days": {day.isoformat(): count for day, count in value.days.items()},
        }


def visitors_counter() -> UniqueVisitors:
    """Return the counter of visitors that the dashboard shows."""
    settings = conf.settings()
    return UniqueVisitors(settings.dashboard.visitors or settings.analytics.site, using=settings.analytics.using)


def sign_ins_counter() -> SignIns:
    """Return the counter of sign-ins that the dashboard shows."""
    settings = conf.settings()
    return SignIns(settings.dashboard.sign_ins or settings.analytics.site, using=settings.analytics.using)


def chart_days() -> tuple[date, date]:
    """Return the first and the last day of the charts, as dates in TIME_ZONE."""
    today = site_date()
    return today - timedelta(days=DAYS - 1), today


def _visitors(visitors: DailyVisitors) -> DailyCounts:
    days = {"days": len(visitors.days)}
    note = _("HyperLogLog estimates, standard error ±%(error)s.") % {"error": formats.percent(visitors.range.error)}
    if visitors.range.is_unique:
        label = _("Unique visitors, %(days)d days") % days
    else:
        identity = conf.settings().analytics.visitor_identity
        label, policy = {
            "week": (
                _("Weekly visitors, sum over %(days)d days"),
                _("Returning visitors count once per week: ids rotate weekly (VISITOR_IDENTITY “%(policy)s”)."),
            ),
            "month": (
                _("Monthly visitors, sum over %(days)d days"),
                _("Returning visitors count once per month: ids rotate monthly (VISITOR_IDENTITY “%(policy)s”)."),
            ),
        }.get(
            str(IDENTITY_PERIODS[identity]),
            (
                _("Daily visitors, sum of %(days)d days"),
                _("Returning visitors count once per day: ids rotate daily (VISITOR_IDENTITY “%(policy)s”)."),
            ),
        )
        label, note = label % days, f"{note} {policy % {'policy': identity}}"
    return _daily_counts("visitors", visitors.name, visitors.days, label, int(visitors.range), note)


def _sign_ins(sign_ins: DailySignIns) -> DailyCounts:
    label = _("Sign-ins, %(days)d days") % {"days": len(sign_ins.days)}
    note = _("Each user counts once per day.")
    return _daily_counts("sign-ins", sign_ins.name, sign_ins.days, label, sum(sign_ins.days.values()), note)


def _daily_counts(panel: str, name: str, counts: Mapping[date, int], label: str, total: int, note: str) -> DailyCounts:
    zone = _("Dates are in %(zone)s.") % {"zone": formats.days_zone()}
    return DailyCounts(
        id=panel,
        name=name,
        chart=charts.daily_chart(counts) if any(counts.values()) else None,
        today=number(list(counts.values())[-1]),
        range_label=label,
        range=number(total),
        note=f"{note} {zone}",
    )

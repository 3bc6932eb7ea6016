"""The panels of counts of users by day: visitors and sign-ins."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, ClassVar

from django.conf import settings as django_settings
from django.utils.formats import date_format
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from django_redis_components.analytics import AnalyticsMiddleware, Estimate, SignIns, UniqueVisitors, periods
from django_redis_components.analytics.periods import Unit
from django_redis_components.analytics.range_counts import sign_in_counts_flow
from django_redis_components.analytics.visitors import IDENTITY_PERIODS, visitor_count_flow, visitor_periods_flow
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import charts, formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.panel import Panel
from django_redis_components.dashboard.panels.comparison import Comparison, Figure, compare
from django_redis_components.dashboard.panels.selection import OTHERS, PARAMETERS, Selection, parse_selection

#: A row of the CSV of a page: what it counts, the count, and that of the earlier range or "".
CsvRow = tuple[str, int, int | str]
#: Days up to which every other one has a label in a chart.
FEW_DAYS = 12


@dataclasses.dataclass(frozen=True, slots=True)
class DailyVisitors:
    """Visitors by interval, and in the whole range (`Estimate.is_unique` tells whether they are unique).

    Attributes:
        before: of the earlier range, or None.
    """

    selection: Selection
    name: str
    days: dict[date, Estimate]
    range: Estimate
    before: Estimate | None


@dataclasses.dataclass(frozen=True, slots=True)
class DailySignIns:
    """Users who signed in, by day, and the sum of the earlier range or None."""

    selection: Selection
    name: str
    days: dict[date, int]
    before: int | None


class AnalyticsPanel(Panel):
    """A panel of the page "Analytics": it reads the connection of analytics."""

    page = "analytics"

    def using(self) -> str:
        """Return the alias of analytics."""
        return conf.settings().analytics.using


class SelectionPanel(AnalyticsPanel):
    """A panel of the range that the page shows.

    Attributes:
        filters: "page" and "source", if its counts are stored by them. The note of the panel names the others.
    """

    parameters = (*PARAMETERS, *OTHERS)
    filters: ClassVar[tuple[str, ...]] = ()

    def read(self, **query: str) -> Flow[Any]:
        """Read the counts of the range."""
        return (yield from self.read_selection(parse_selection(query)))

    def read_selection(self, selection: Selection) -> Flow[Any]:
        """Read the counts of a selection."""
        raise NotImplementedError

    def csv_rows(self, value: Any) -> list[CsvRow]:
        """Return the rows of the CSV for the value of `read`."""
        raise NotImplementedError

    def filter_note(self, selection: Selection) -> str:
        """Return why the chosen page or source does not apply; "" if it does."""
        if selection.page and "page" not in self.filters:
            return _("Not stored by page: these are the counts of all pages.")
        if selection.dimension and "source" not in self.filters:
            return _("Not stored by source: these are the counts of all sources.")
        return ""


class VisitorsPanel(SelectionPanel):
    """Unique visitors of the range."""

    name = "visitors"
    title = gettext_lazy("Visitors")
    order = 10
    template_name = "django_redis_components/dashboard/panels/visitors.html"
    filters = ("page",)

    def read_selection(self, selection: Selection) -> Flow[DailyVisitors]:
        """Read the intervals and the ranges in one round trip."""
        visitors = visitors_counter(selection.page)
        flows = [
            visitor_periods_flow(visitors, selection.starts, selection.unit),
            *(visitor_count_flow(visitors, *days) for days in (selection.days, selection.before) if days),
        ]
        days, *counts = yield from gather_values(flows)
        return DailyVisitors(selection, visitors.name, days, counts[0], counts[1] if selection.before else None)

    def context(self, value: DailyVisitors) -> dict[str, Any]:
        """Return the figures and the chart."""
        selection, before = value.selection, value.before
        label, note = _visitor_texts(value)
        comparison = compare(int(value.range), None if before is None else int(before), selection.before)
        return {
            **range_context(selection, value.days, int(value.range), label, comparison, note),
            "filter_note": self.filter_note(selection),
            "counts_views": counts_views(),
        }

    def data(self, value: DailyVisitors) -> dict[str, Any]:
        """Return the counts by interval."""
        return {
            "name": value.name,
            "today": today_of(value.selection, value.days),
            "range_days": value.selection.length,
            "range": int(value.range),
            "before": None if value.before is None else int(value.before),
            "is_unique": value.range.is_unique,
            "standard_error": value.range.error,
            "days": {day.isoformat(): int(count) for day, count in value.days.items()},
        }

    def csv_rows(self, value: DailyVisitors) -> list[CsvRow]:
        """Return the intervals and the range."""
        before = "" if value.before is None else int(value.before)
        return [*_interval_rows(value.days), ("", int(value.range), before)]


class SignInsPanel(SelectionPanel):
    """Users who signed in, in the range."""

    name = "sign-ins"
    title = gettext_lazy("Sign-ins")
    order = 20
    template_name = "django_redis_components/dashboard/panels/sign_ins.html"

    def read_selection(self, selection: Selection) -> Flow[DailySignIns]:
        """Read the days in one round trip."""
        sign_ins = sign_ins_counter()
        flows = [sign_in_counts_flow(sign_ins, days) for days in (selection.days, selection.before) if days]
        days, *earlier = yield from gather_values(flows)
        before = sum(earlier[0].values()) if earlier else None
        return DailySignIns(selection, sign_ins.name, days, before)

    def context(self, value: DailySignIns) -> dict[str, Any]:
        """Return the figures and the chart."""
        selection, total = value.selection, sum(value.days.values())
        days = {"days": selection.length}
        label = ngettext("Sign-ins, %(days)d day", "Sign-ins, %(days)d days", selection.length) % days
        comparison = compare(total, value.before, selection.before)
        note = _("Each user counts once per day.")
        counts = _by_interval(value.days, selection)
        return {
            **range_context(selection, counts, total, label, comparison, note),
            "filter_note": self.filter_note(selection),
        }

    def data(self, value: DailySignIns) -> dict[str, Any]:
        """Return the counts by day."""
        return {
            "name": value.name,
            "today": today_of(value.selection, value.days),
            "range": sum(value.days.values()),
            "before": value.before,
            "days": {day.isoformat(): count for day, count in value.days.items()},
        }

    def csv_rows(self, value: DailySignIns) -> list[CsvRow]:
        """Return the days and the range."""
        before = "" if value.before is None else value.before
        return [*_interval_rows(value.days), ("", sum(value.days.values()), before)]


def counts_views() -> bool:
    """Return whether the site has `AnalyticsMiddleware` or a subclass."""
    found = map(import_string, django_settings.MIDDLEWARE)
    return any(isinstance(each, type) and issubclass(each, AnalyticsMiddleware) for each in found)


def visitors_counter(page: str = "") -> UniqueVisitors:
    """Return the counter of visitors that the dashboard shows; with a page the one that the middleware counts it in."""
    settings = conf.settings()
    name = settings.analytics.site if page else settings.dashboard.visitors or settings.analytics.site
    return UniqueVisitors(name, page=page or None, using=settings.analytics.using)


def sign_ins_counter() -> SignIns:
    """Return the counter of sign-ins that the dashboard shows."""
    settings = conf.settings()
    return SignIns(settings.dashboard.sign_ins or settings.analytics.site, using=settings.analytics.using)


def range_context(
    selection: Selection,
    counts: Mapping[date, int],
    total: int,
    label: str,
    comparison: Comparison | None,
    note: str,
    figures: Sequence[Figure] = (),
    today_label: str = "",
) -> dict[str, Any]:
    """Return the context of a panel with figures and a chart; `chart` is None without counts or with one interval.

    Args:
        figures: those that come first.
        today_label: of the figure of today.
    """
    is_empty = (
        not selection.is_filtered and not total and not any(counts.values()) and not (comparison and comparison.change)
    )
    shown = [*figures]
    today = today_of(selection, counts)
    if today is not None and len(counts) > 1:
        shown.append(Figure(today_label or _("Today"), number(today)))
    shown.append(Figure(label, number(total), comparison))
    notes = [note, _("Dates are in %(zone)s.") % {"zone": formats.days_zone()}]
    if selection.unit != "day":
        notes.append(_("Bars are whole weeks.") if selection.unit == "week" else _("Bars are whole months."))
    chart = _range_chart(selection, counts) if len(counts) > 1 and any(counts.values()) else None
    return {"figures": shown, "is_empty": is_empty, "chart": chart, "note": " ".join(each for each in notes if each)}


def today_of(selection: Selection, counts: Mapping[date, int]) -> int | None:
    """Return the count of today; None if the range ends earlier, or intervals are longer."""
    is_known = selection.is_until_today and selection.unit == "day"
    return int(list(counts.values())[-1]) if is_known else None


def interval_name(start: date, unit: Unit) -> str:
    """Return the name of a day, week or month in full."""
    if unit == "month":
        return date_format(start, "YEAR_MONTH_FORMAT")
    text = formats.day_long(start)
    return pgettext("a week", "from %(day)s") % {"day": text} if unit == "week" else text


def _range_chart(selection: Selection, counts: Mapping[date, int]) -> charts.Chart:
    unit, is_open = selection.unit, selection.is_until_today
    if is_open and unit == "day" and len(counts) > FEW_DAYS:
        return charts.daily_chart(counts)
    points = [
        charts.Point(start.isoformat(), interval_name(start, unit), _short(start, unit), int(count))
        for start, count in counts.items()
    ]
    peak = max(points, key=lambda point: point.value)
    finding = _("Peak: %(peak)s (%(day)s)") % {"peak": number(peak.value), "day": peak.day}
    if is_open and unit == "day":
        finding = charts.daily_finding(counts)
    label_every = {"week": 4, "month": 1}.get(unit, charts.LABEL_EVERY if len(points) > FEW_DAYS else 2)
    return charts.bar_chart(points, finding, label_every, is_last_open=is_open)


def _short(start: date, unit: Unit) -> str:
    return date_format(start, "M") if unit == "month" else formats.day_short(start)


def _by_interval(days: Mapping[date, int], selection: Selection) -> dict[date, int]:
    found = dict.fromkeys(selection.starts, 0)
    for day, count in days.items():
        found[periods.start_of(selection.unit, day)] += count
    return found


def _interval_rows(counts: Mapping[date, int]) -> list[CsvRow]:
    return [(day.isoformat(), int(count), "") for day, count in counts.items()]


def _visitor_texts(value: DailyVisitors) -> tuple[str, str]:
    """Return the label of the range, and the note: what is estimated, and who counts more than once."""
    days = {"days": value.selection.length}
    note = _("HyperLogLog estimates, standard error ±%(error)s.") % {"error": formats.percent(value.range.error)}
    if value.range.is_unique:
        label = ngettext("Unique visitors, %(days)d day", "Unique visitors, %(days)d days", value.selection.length)
        return label % days, note
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
    return label % days, f"{note} {policy % {'policy': identity}}"

"""Texts of ranges of days, and of counts that are compared with those of an earlier range."""

from __future__ import annotations

import dataclasses
from datetime import date, timedelta

from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.range_counts import DayRange
from django_redis_components.dashboard.formats import day_long, day_short, decimal, number


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """How a count differs from an earlier one.

    Attributes:
        change: such as "+12 %", with its sign; "" if there was nothing before.
        text: what it is compared with.
        kind: CSS class: "up", "down" or "same".
    """

    change: str
    text: str
    kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A count with its label, and its comparison or None."""

    label: str
    value: str
    comparison: Comparison | None = None


def compare(count: int, before: int | None, days: DayRange | None) -> Comparison | None:
    """Return the comparison with the count of an earlier range; None without one."""
    if before is None or days is None:
        return None
    named = {"period": range_name(days), "count": number(before)}
    if not before:
        return Comparison("", _("0 in %(period)s") % named, "same")
    kind = "same" if count == before else "up" if count > before else "down"
    text = _("against %(period)s (%(count)s)") % named
    return Comparison(change(count, before), text, kind)


def change(count: int, before: int) -> str:
    """Return the change of a count in percent, with its sign; "" if there was nothing before."""
    if not before:
        return ""
    sign = {1: "+", 0: "±", -1: "−"}[(count > before) - (count < before)]
    percents = 100 * abs(count - before) / before
    text = number(round(percents)) if percents >= 10 else decimal(percents)
    return sign + pgettext("a percentage", "%s %%") % text


def range_name(days: DayRange) -> str:
    """Return the name of a range: a month, a day, or the first and the last day."""
    first, last = days
    if first == last:
        return day_long(first)
    if first.day == 1 and (last + timedelta(days=1)).day == 1 and (first.year, first.month) == (last.year, last.month):
        return date_format(first, "F" if _is_recent(first) else "YEAR_MONTH_FORMAT")
    format_ = day_short if _is_recent(first) else day_long
    return pgettext("a range of days", "%(first)s – %(last)s") % {"first": format_(first), "last": format_(last)}


def _is_recent(day: date) -> bool:
    """Return whether a day needs no year, because the same day of last year is far away."""
    return (site_date() - day).days < 300

"""What the page of analytics shows: a range of days, the one before to compare with, and a page or source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import date, timedelta
from typing import cast, get_args

from django.utils.http import urlencode
from django.utils.translation import gettext, gettext_lazy

from django_redis_components.analytics import periods
from django_redis_components.analytics.dates import site_date, span
from django_redis_components.analytics.periods import Unit
from django_redis_components.analytics.range_counts import DayRange
from django_redis_components.analytics.view_counters import Dimension
from django_redis_components.core.arguments import short_repr
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.parameters import InvalidParameter, not_one_of

#: The periods that the page links to; "custom" has a first and a last day.
PERIODS = {
    "today": gettext_lazy("Today"),
    "7d": gettext_lazy("7 days"),
    "30d": gettext_lazy("30 days"),
    "month": gettext_lazy("This month"),
    "last-month": gettext_lazy("Last month"),
}
#: What a range is compared with.
COMPARISONS = {
    "before": gettext_lazy("the period before"),
    "year": gettext_lazy("the same days of last year"),
    "none": gettext_lazy("nothing"),
}
#: Days of a custom range. Longer ones would need more commands than a page may send.
MAX_DAYS = 366
#: Days from which on a chart has weeks, and from which on it has months.
WEEKS_FROM, MONTHS_FROM = 46, 201
#: Query parameters that choose what is shown, and those of other panels, which links keep.
PARAMETERS = ("period", "start", "end", "compare", "page", "source")
OTHERS = ("user", "year", "cohorts", "step1", "step2", "step3", "step4")


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The chosen range and filter.

    Attributes:
        period: a key of `PERIODS`, or "custom".
        days: first and last day.
        compare: a key of `COMPARISONS`.
        before: first and last day of the range to compare with; None without one, or if its counts are not kept.
        page: the page whose counts are shown, or "".
        dimension, source: the value of a dimension whose counts are shown; None and "" without one.
        others: parameters of other panels.
    """

    period: str
    days: DayRange
    compare: str
    before: DayRange | None
    page: str = ""
    dimension: Dimension | None = None
    source: str = ""
    others: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def length(self) -> int:
        """The number of days."""
        return len(span(*self.days))

    @property
    def is_until_today(self) -> bool:
        """Whether the last day is today."""
        return self.days[1] == site_date()

    @property
    def unit(self) -> Unit:
        """The length of the intervals of charts."""
        return "day" if self.length < WEEKS_FROM else "week" if self.length < MONTHS_FROM else "month"

    @property
    def starts(self) -> list[date]:
        """The starts of the intervals of charts; the first week or month may begin before the first day."""
        return periods.starts(self.unit, *self.days)

    @property
    def is_filtered(self) -> bool:
        """Whether a page or a source is chosen."""
        return bool(self.page or self.dimension)

    @property
    def parameters(self) -> dict[str, str]:
        """The query parameters that choose this, without those that are empty or as by default."""
        found = {
            "period": "" if self.period == "30d" else self.period,
            "start": self.days[0].isoformat() if self.period == "custom" else "",
            "end": self.days[1].isoformat() if self.period == "custom" else "",
            "compare": "" if self.compare == "before" else self.compare,
            "page": self.page,
            "source": f"{self.dimension}:{self.source}" if self.dimension else "",
            **self.others,
        }
        return {name: value for name, value in found.items() if value}

    def url(self, **changes: str) -> str:
        """Return the query string with other parameters. Empty ones are left out."""
        found = {**self.parameters, **changes}
        order = dict.fromkeys((*PARAMETERS, *OTHERS, *changes))
        return f"?{urlencode({name: found[name] for name in order if found.get(name)})}"


def parse_selection(query: Mapping[str, str]) -> Selection:
    """Return the selection of a query string.

    Raises:
        ValueError: a parameter is not valid.
    """
    given = {name: str(query.get(name, "")) for name in (*PARAMETERS, *OTHERS)}
    has_days = given["start"] or given["end"]
    period = given["period"] or ("custom" if has_days else "30d")
    compare = given["compare"] or "before"
    _check(period, "period", [*PERIODS, "custom"])
    _check(compare, "compare", [*COMPARISONS])
    days = _custom_days(given["start"], given["end"]) if period == "custom" else _days_of(period)
    dimension, _, source = given["source"].partition(":")
    if given["source"] and not (dimension in get_args(Dimension) and source):
        text = gettext("source=%(value)s: expected one of %(accepted)s, a colon and a value.")
        facts = {"value": short_repr(given["source"]), "accepted": ", ".join(get_args(Dimension))}
        raise InvalidParameter(text % facts)
    return Selection(
        period,
        days,
        compare,
        _kept(_days_before(days, compare)),
        page="" if source else given["page"],
        dimension=cast("Dimension | None", dimension or None),
        source=source,
        others={name: given[name] for name in OTHERS if given[name]},
    )


def kept_parameters(query: Mapping[str, str], *changed: str) -> dict[str, str]:
    """Return the parameters that a form keeps when it changes others. Those that are not valid are dropped."""
    try:
        parameters = parse_selection(query).parameters
    except ValueError:
        return {}
    return {name: value for name, value in parameters.items() if name not in changed}


def first_day() -> date:
    """Return the first day whose counts are kept."""
    ttl = timedelta(seconds=conf.settings().analytics.ttl_s)
    return site_date() - timedelta(days=min(ttl.days, 400) - 1)


def _check(value: str, name: str, accepted: list[str]) -> None:
    if value not in accepted:
        raise not_one_of(name, value, accepted)


def _days_of(period: str) -> DayRange:
    today = site_date()
    if period == "month":
        return today.replace(day=1), today
    if period == "last-month":
        last = today.replace(day=1) - timedelta(days=1)
        return last.replace(day=1), last
    return today - timedelta(days={"today": 0, "7d": 6, "30d": 29}[period]), today


def _custom_days(start: str, end: str) -> DayRange:
    """Return the range of two days in either order, until today at the latest."""
    today = site_date()
    last = _day(end, "end") if end else today
    found = sorted((_day(start, "start") if start else last, last))
    first, last = (min(day, today) for day in found)
    if (last - first).days >= MAX_DAYS:
        text = gettext("%(first)s to %(last)s are %(days)s days: expected at most %(most)s.")
        facts = {"first": first, "last": last, "days": (last - first).days + 1, "most": MAX_DAYS}
        raise InvalidParameter(text % facts)
    if first < first_day():
        text = gettext("start=%(day)s: expected a day from %(first)s on: earlier counts are not kept.")
        raise InvalidParameter(text % {"day": repr(str(first)), "first": first_day()})
    return first, last


def _day(text: str, name: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        facts = {"name": name, "value": short_repr(text)}
        raise InvalidParameter(gettext("%(name)s=%(value)s: expected a day as YYYY-MM-DD.") % facts) from None


def _days_before(days: DayRange, compare: str) -> DayRange | None:
    first, last = days
    if compare == "none":
        return None
    if compare == "year":
        return _months_earlier(first, 12), _months_earlier(last, 12)
    ends_month = (last + timedelta(days=1)).day == 1
    if first.day == 1 and (ends_month or (first.year, first.month) == (last.year, last.month)):
        # Months are compared with months, and the first days of a month with the same ones of the month before.
        months = (last.year - first.year) * 12 + last.month - first.month + 1
        before_first = _months_earlier(first, months)
        return before_first, first - timedelta(days=1) if ends_month else _months_earlier(last, 1)
    length = last - first + timedelta(days=1)
    return first - length, first - timedelta(days=1)


def _months_earlier(day: date, months: int) -> date:
    """Return the same day of an earlier month, or the last one of a shorter month."""
    first = periods.following("month", day.replace(day=1), -months)
    last = periods.following("month", first) - timedelta(days=1)
    return min(first + timedelta(days=day.day - 1), last)


def _kept(days: DayRange | None) -> DayRange | None:
    """Return a range whose counts are kept; None for an older one: it would be zero, and is not."""
    return days if days and days[0] >= first_day() else None

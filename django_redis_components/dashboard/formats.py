"""Format numbers, durations and times in the active language and time zone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal

from django.conf import settings
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.core.units import aware


@dataclasses.dataclass(frozen=True, slots=True)
class Timestamp:
    """A formatted time.

    Attributes:
        text: the time of day, or date and time if it is not today.
        iso: for ``<time datetime=…>``.
        title: date, time and zone.
    """

    text: str
    iso: str
    title: str


def number(value: int) -> str:
    """Format an integer with thousands separators."""
    return number_format(int(value), decimal_pos=0, use_l10n=True, force_grouping=True)


def short_number(value: int) -> str:
    """Format a number for the axis of a chart: 950, 12k, 1.5M."""
    for size, mark in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if value >= size * (10 if size == 1_000 else 1):
            digits = 0 if value % size == 0 or value >= 100 * size else 1
            return f"{_rounded(value / size, digits)}{mark}"
    return number(value)


def decimal(value: float) -> str:
    """Format a number with one decimal place."""
    return _rounded(value, 1)


def rate(per_minute: float) -> str:
    """Format a number per minute: 0, < 0.1, 0.3, 84."""
    if 0 < per_minute < 0.05:
        return f"< {decimal(0.1)}"
    return decimal(per_minute) if 0 < per_minute < 10 else number(round(per_minute))


def percent(share: float) -> str:
    """Format a ratio as a percentage with two decimal places: 0.0081 is 0.81 %."""
    return pgettext("a percentage", "%s %%") % _rounded(share * 100, 2)


def short_percent(share: float) -> str:
    """Format a ratio as a percentage with one decimal place below 100 %: 0.133 is 13.3 %."""
    return pgettext("a percentage", "%s %%") % (_rounded(share * 100, 1) if share < 1 else number(round(share * 100)))


def age(seconds: float) -> str:
    """Format a duration in its two largest units."""
    whole = max(0, int(seconds))
    days, hours, minutes, rest_s = whole // 86_400, whole // 3_600 % 24, whole // 60 % 60, whole % 60
    if days and not hours:
        return _("%(days)d d") % {"days": days}
    if days:
        return _("%(days)d d %(hours)d h") % {"days": days, "hours": hours}
    if hours:
        return _("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes}
    if minutes:
        return _("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": rest_s}
    if whole:
        return _("%(seconds)d s") % {"seconds": whole}
    return _("< 1 s")


def duration(seconds: float) -> str:
    """Format a wait or run time with about two digits: < 1 ms, 23 ms, 1.4 s, 2 min 5 s."""
    if seconds <= 0.001:
        return _("< 1 ms")
    if seconds < 1:
        return _("%(ms)s ms") % {"ms": number(round(seconds * 1_000))}
    return _("%(seconds)s s") % {"seconds": decimal(seconds)} if seconds < 10 else age(seconds)


def axis_duration(seconds: float) -> str:
    """Format a duration for the axis of a chart, in one unit: 0, 20 ms, 5 s, 10 min, 2 h."""
    if seconds < 1:
        return _("%(ms)s ms") % {"ms": number(round(seconds * 1_000))} if seconds else number(0)
    if seconds < 60:
        return _("%(seconds)s s") % {"seconds": _rounded(seconds, 0 if seconds % 1 == 0 else 1)}
    if seconds < 3_600:
        return _("%(minutes)s min") % {"minutes": number(round(seconds / 60))}
    return _("%(hours)s h") % {"hours": _rounded(seconds / 3_600, 0 if seconds % 3_600 == 0 else 1)}


def day_and_clock(at: datetime) -> str:
    """Format a day and the time of day, short."""
    return pgettext("a day and the time of day", "%(day)s, %(time)s") % {
        "day": day_short(local(at).date()),
        "time": clock_short(at),
    }


def clock_short(at: datetime) -> str:
    """Format the time of day in hours and minutes."""
    return date_format(local(at), "H:i")


def input_time(at: datetime) -> str:
    """Format a time as the value of a field of a form."""
    return f"{local(at):%Y-%m-%dT%H:%M}"


def timestamp(at: datetime, now: datetime) -> Timestamp:
    """Format a time relative to the page's: without the date if it is today."""
    here, today = local(at), local(now)
    clock = date_format(here, "H:i:s")
    same_day = here.date() == today.date()
    text = clock if same_day else f"{day_long(here.date())} {clock}"
    return Timestamp(text, aware(at).isoformat(timespec="seconds"), f"{day_long(here.date())} {clock} ({zone()})")


def local(at: datetime) -> datetime:
    """Convert a time to the active zone, or to a naive time in TIME_ZONE without USE_TZ."""
    if settings.USE_TZ:
        return timezone.localtime(at)
    return timezone.make_naive(aware(at), timezone.get_default_timezone())


def zone() -> str:
    """Return the name of the zone that `local` converts to."""
    return timezone.get_current_timezone_name() if settings.USE_TZ else settings.TIME_ZONE


def days_zone() -> str:
    """Return the name of the zone whose dates analytics counts by."""
    return timezone.get_default_timezone_name()


def listed(parts: Iterable[str]) -> str:
    """Join phrases as the active language does."""
    return pgettext("between phrases", ", ").join(parts)


def server(address: str) -> str:
    """Format the address of a server, the text of an `Endpoint`."""
    nodes, separator, alias = address.partition(" (connection ")
    if not separator:
        return address
    return _("%(nodes)s (connection %(alias)s)") % {"nodes": nodes, "alias": alias.removesuffix(")")}


def day_long(day: date) -> str:
    """Format a day in full."""
    return date_format(day, "DATE_FORMAT")


def day_short(day: date) -> str:
    """Format a day for the axis of a chart."""
    return date_format(day, pgettext("format of a day on a chart's axis, see the docs of Django's filter date", "M j"))


def _rounded(value: float, digits: int) -> str:
    """Format a rounded number: `number_format` truncates, and would show the float 0.81 as 0.80."""
    return number_format(Decimal(f"{value:.{digits}f}"), digits, use_l10n=True)

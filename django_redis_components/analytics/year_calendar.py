"""A user's sign-ins of a year as a calendar: places in an SVG, and rows of a table. Without Redis."""

from __future__ import annotations

import calendar
import dataclasses
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import groupby

from django.utils.dates import WEEKDAYS_ABBR
from django.utils.formats import date_format, get_format, number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.analytics import bits
from django_redis_components.core import keys

#: Width of a day, and the distance of two, in units of the SVG.
SIZE, STEP = 10, 13
#: Room for the names of weekdays and months.
LEFT, TOP = 32, 16


@dataclasses.dataclass(frozen=True, slots=True)
class CalendarDay:
    """A day in the SVG.

    Attributes:
        kind: "on" with a sign-in, "off" without, "later" after today.
    """

    x: int
    y: int
    kind: str
    is_today: bool
    title: str


@dataclasses.dataclass(frozen=True, slots=True)
class CalendarLabel:
    """A name of a month or of a weekday in the SVG."""

    at: int
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class CalendarMonth:
    """A row of the table: the days are text, as in "1–5, 8"."""

    name: str
    count: str
    days: str


@dataclasses.dataclass(frozen=True, slots=True)
class YearCalendar:
    """The calendar of a year.

    Attributes:
        id: prefix of HTML ids.
        title, summary: what it shows, and the sign-ins in a sentence.
        rows: the months of the table, without those after today.
    """

    id: str
    title: str
    summary: str
    width: int
    height: int
    months: list[CalendarLabel]
    weekdays: list[CalendarLabel]
    days: list[CalendarDay]
    rows: list[CalendarMonth]


def year_calendar(year: int, signed: Sequence[bool], today: date, *, subject: str = "") -> YearCalendar:
    """Return the calendar of a year in the active language; weeks begin as they do in its country.

    Args:
        signed: for each day of the year whether there was a sign-in; see `SignIns.year`.
        today: days after it are left empty.
        subject: what HTML ids are made of, so that those of two calendars in a page differ.
    """
    first = date(year, 1, 1)
    days = [first + timedelta(days=number) for number in range(len(signed))]
    first_weekday = int(get_format("FIRST_DAY_OF_WEEK"))
    rows = [(day.isoweekday() - first_weekday) % 7 for day in days]
    columns = [(number + rows[0]) // 7 for number in range(len(days))]
    return YearCalendar(
        id=f"drc-sign-ins-{keys.digest(f'{subject}:{year}')[:8]}",
        title=_("Sign-ins of %(year)s") % {"year": year},
        summary=_summary(days, signed, today),
        width=LEFT + (max(columns, default=0) + 1) * STEP,
        height=TOP + 7 * STEP,
        months=[
            CalendarLabel(LEFT + column * STEP, date_format(day, "M"))
            for day, column in zip(days, columns, strict=True)
            if day.day == 1
        ],
        weekdays=[
            CalendarLabel(TOP + row * STEP + SIZE, str(WEEKDAYS_ABBR[(row + first_weekday - 1) % 7]))
            for row in (1, 3, 5)
        ],
        days=[
            _day(day, is_signed, today, LEFT + column * STEP, TOP + row * STEP)
            for day, is_signed, column, row in zip(days, signed, columns, rows, strict=True)
        ],
        rows=[_month(each, signed) for each in days if each.day == 1 and each <= today],
    )


def _day(day: date, is_signed: bool, today: date, x: int, y: int) -> CalendarDay:
    text = date_format(day, "DATE_FORMAT")
    if is_signed:
        return CalendarDay(x, y, "on", day == today, _("%(day)s: signed in") % {"day": text})
    if day > today:
        return CalendarDay(x, y, "later", False, text)
    return CalendarDay(x, y, "off", day == today, _("%(day)s: no sign-in") % {"day": text})


def _summary(days: Sequence[date], signed: Sequence[bool], today: date) -> str:
    total = sum(day <= today for day in days)
    count = sum(signed)
    longest = bits.longest_run("".join("1" if each else "0" for each in signed))
    found = ngettext("Signed in on %(count)s of %(total)s day.", "Signed in on %(count)s of %(total)s days.", total)
    streak = ngettext("Longest streak: %(days)s day.", "Longest streak: %(days)s days.", longest)
    parts = [found % {"count": number_format(count), "total": number_format(total)}]
    return " ".join([*parts, streak % {"days": number_format(longest)}] if longest else parts)


def _month(first: date, signed: Sequence[bool]) -> CalendarMonth:
    start = first.timetuple().tm_yday - 1
    length = calendar.monthrange(first.year, first.month)[1]
    numbers = [number for number in range(1, length + 1) if signed[start + number - 1]]
    return CalendarMonth(date_format(first, "F"), number_format(len(numbers)), _ranges(numbers))


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as text, those that follow each other as a range: "1–5, 8"."""
    parts = []
    for _key, pairs in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _place, number in pairs]
        parts.append(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]))
    return ", ".join(parts)

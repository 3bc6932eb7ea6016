"""The panel with the calendar of sign-ins of one user."""

from __future__ import annotations

import dataclasses
from datetime import date, timedelta
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext_lazy

from django_redis_components.analytics.bits import EPOCH, LAST_DAY
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.rendering import CALENDAR_TEMPLATE, calendar_context
from django_redis_components.analytics.signins import SignIns, year_flow
from django_redis_components.analytics.year_calendar import year_calendar
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard.panels.analytics import AnalyticsPanel, sign_ins_counter


@dataclasses.dataclass(frozen=True, slots=True)
class UserYear:
    """The days of a user in a year, in order. None without a user, and `error` if the id is not accepted."""

    user: str
    year: int
    days: list[bool] | None = None
    error: str = ""


class CalendarPanel(AnalyticsPanel):
    """A form for the id of a user, and the calendar of the year."""

    name = "sign-in-calendar"
    title = gettext_lazy("Sign-ins of a user")
    order = 27
    template_name = "django_redis_components/dashboard/panels/sign_in_calendar.html"
    parameters = ("user", "year")

    def read(self, user: str = "", year: str = "") -> Flow[UserYear]:
        """Read the days by one command."""
        user_id, number = user.strip(), _year(year)
        if not user_id:
            return UserYear("", number)
        counter = sign_ins_counter()
        # The key of a user is the same with and without mapping.
        sign_ins = SignIns(counter.name, mapped=True, using=counter.using)
        try:
            days = yield from year_flow(sign_ins, user_id, number)
        except ValueError as exc:
            return UserYear(user_id, number, error=str(exc))
        return UserYear(user_id, number, days)

    def context(self, value: UserYear) -> dict[str, Any]:
        """Return the form and the calendar."""
        context = {"value": value, "first_year": EPOCH.year, "last_year": LAST_DAY.year, "calendar": ""}
        if value.days is not None:
            calendar = year_calendar(value.year, value.days, site_date(), subject=value.user)
            context["calendar"] = render_to_string(CALENDAR_TEMPLATE, calendar_context(calendar))
        return context

    def data(self, value: UserYear) -> dict[str, Any]:
        """Return the days with a sign-in."""
        first = date(value.year, 1, 1)
        signed = [first + timedelta(days=number) for number, is_set in enumerate(value.days or []) if is_set]
        return {"user": value.user, "year": value.year, "days": signed, "error": value.error}


def _year(value: str) -> int:
    """Return the year of a form; this year if it is empty or out of range."""
    is_year = value.isascii() and value.isdecimal() and len(value) == 4
    return int(value) if is_year and EPOCH.year <= int(value) <= LAST_DAY.year else site_date().year

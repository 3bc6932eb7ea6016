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
from django_redis_components.dashboard.display_names import Kind, Names
from django_redis_components.dashboard.panel import NamingPanel
from django_redis_components.dashboard.panels.analytics import AnalyticsPanel, sign_ins_counter
from django_redis_components.dashboard.panels.selection import OTHERS, PARAMETERS, kept_parameters


@dataclasses.dataclass(frozen=True, slots=True)
class UserYear:
    """The days of a user in a year, in order. None without a user, and `error` if the id is not accepted.

    Attributes:
        kept: parameters of the page that the form keeps.
    """

    user: str
    year: int
    kept: dict[str, str]
    days: list[bool] | None = None
    error: str = ""


class CalendarPanel(NamingPanel, AnalyticsPanel):
    """A form for the id of a user, and the calendar of the year."""

    name = "sign-in-calendar"
    title = gettext_lazy("Sign-ins of a user")
    order = 96
    template_name = "django_redis_components/dashboard/panels/sign_in_calendar.html"
    parameters = (*PARAMETERS, *OTHERS)

    def read(self, user: str = "", year: str = "", **query: str) -> Flow[UserYear]:
        """Read the days by one command."""
        user_id, number, kept = user.strip(), _year(year), kept_parameters(query)
        if not user_id:
            return UserYear("", number, kept)
        counter = sign_ins_counter()
        # The key of a user is the same with and without mapping.
        sign_ins = SignIns(counter.name, mapped=True, using=counter.using)
        try:
            days = yield from year_flow(sign_ins, user_id, number)
        except ValueError as exc:
            return UserYear(user_id, number, kept, error=str(exc))
        return UserYear(user_id, number, kept, days)

    def ids(self, value: UserYear) -> dict[Kind, list[str]]:
        """Return the user."""
        return {"user": [value.user] if value.days is not None else []}

    def named_context(self, value: UserYear, names: Names) -> dict[str, Any]:
        """Return the form and the calendar."""
        context = {"value": value, "first_year": EPOCH.year, "last_year": LAST_DAY.year, "calendar": ""}
        context["named"] = names.text_of("user", value.user) if names.name_of("user", value.user) else ""
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

"""The calendar of sign-ins in pages: reading the days of a user, the context of the template, and its stylesheet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from django import forms
from redis.exceptions import RedisError

from django_redis_components.analytics.bits import EPOCH, LAST_DAY
from django_redis_components.analytics.dates import local_date
from django_redis_components.analytics.signins import SignIns, year_flow
from django_redis_components.analytics.user_ids import UserId
from django_redis_components.analytics.year_calendar import SIZE, YearCalendar, year_calendar
from django_redis_components.core.arguments import check_int, short_repr
from django_redis_components.core.circuit_breaker import should_log_failure
from django_redis_components.core.client import connections
from django_redis_components.core.client.page_clients import cause_of
from django_redis_components.core.exceptions import UnsupportedServer
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf

CALENDAR_TEMPLATE = "django_redis_components/analytics/sign_in_calendar.html"

logger = guarded_logger("django_redis_components.analytics")


def read_calendar(user_id: UserId, name: str, year: int | None, days: Sequence[bool] | None) -> YearCalendar | None:
    """Return the calendar of a user; None if Redis is unavailable or does not answer in ``ANALYTICS["TIMEOUT"]``.

    Args:
        name: of the sign-ins; ``ANALYTICS["SITE"]`` if empty.
        year: this year if None.
        days: of the year, if they were read before.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    settings, today = conf.settings().analytics, local_date()
    shown_year = today.year if year is None else year
    # The key of a user is the same with and without mapping.
    sign_ins = SignIns(name or settings.site, mapped=True, using=settings.using)
    if days is not None:
        _check_days(days, shown_year)
    else:
        try:
            client = connections.page_client(settings.using, settings.timeout_s)
            days = run(client, year_flow(sign_ins, user_id, shown_year))
        except (RedisError, UnsupportedServer, TimeoutError) as exc:
            if should_log_failure("calendar of sign-ins"):
                logger.warning("%s, the calendar of sign-ins is not shown: %s", cause_of(exc), exc)
            return None
    return year_calendar(shown_year, days, today, subject=f"{sign_ins.name}:{user_id}")


def _check_days(days: Sequence[bool], year: int) -> None:
    check_int(year, "year", EPOCH.year, LAST_DAY.year)
    number = (date(year + 1, 1, 1) - date(year, 1, 1)).days
    if not isinstance(days, list | tuple) or len(days) != number:
        raise ValueError(f"days={short_repr(days)}: expected the {number} of {year}, as SignIns.ayear returns them.")


def calendar_context(calendar: YearCalendar | None) -> dict[str, Any]:
    """Return the context of the template."""
    return {"calendar": calendar, "size": SIZE}


def media() -> forms.Media:
    """Return the stylesheet."""
    return forms.Media(css={"all": ["django_redis_components/analytics.css"]})

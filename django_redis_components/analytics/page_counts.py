"""Counts of a page for templates: they are bounded in time and never fail the page."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TypeVar

from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.estimate import Estimate
from django_redis_components.analytics.pageviews import PageViews, view_count_flow
from django_redis_components.analytics.safeguard import SAFEGUARD
from django_redis_components.analytics.view_counters import page_name
from django_redis_components.analytics.visitors import UniqueVisitors, visitor_count_flow
from django_redis_components.core.arguments import check_int
from django_redis_components.core.client import connections
from django_redis_components.core.day_ranges import MAX_RANGE_DAYS
from django_redis_components.core.protocol import Flow, run
from django_redis_components.core.settings import conf

T = TypeVar("T")


def views_of(page: str, days: int, site: str | None) -> int | str:
    """Return the views of a page in the last days; "" if they cannot be read.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    analytics = conf.settings().analytics
    start, end = _last_days(days)
    views = PageViews(site or analytics.site, using=analytics.using)
    return _read("page views", view_count_flow(views, page_name(page), start, end))


def visitors_of(page: str, days: int, site: str | None) -> Estimate | str:
    """Return the unique visitors of a page in the last days; "" if they cannot be read.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    analytics = conf.settings().analytics
    start, end = _last_days(days)
    visitors = UniqueVisitors(site or analytics.site, page=page, using=analytics.using)
    return _read("visitors", visitor_count_flow(visitors, start, end))


def _last_days(days: int) -> tuple[date, date]:
    check_int(days, "days", 1, MAX_RANGE_DAYS)
    end = site_date()
    return end - timedelta(days=days - 1), end


def _read(what: str, flow: Flow[T]) -> T | str:
    analytics = conf.settings().analytics
    found: T | str = ""
    if SAFEGUARD.allows_attempt():
        with SAFEGUARD.suppress_errors(what):
            found = run(connections.client_with_timeout(analytics.using, analytics.timeout_s, retries=0), flow)
    return found

"""The counters of views in Redis: their names, keys, TTLs and maximum sizes.

A counter is a zset of names and views, with the member `SUM` for all of them. Pages have counters by hour, day, week
and month; values of a dimension by day, week and month.
"""

from __future__ import annotations

from datetime import date
from typing import Literal

from django_redis_components.analytics import periods
from django_redis_components.analytics.counter import SHORT_TTL_MS, ttl_ms
from django_redis_components.analytics.dates import local_date
from django_redis_components.analytics.periods import Unit
from django_redis_components.core import keys
from django_redis_components.core.arguments import check_string
from django_redis_components.core.settings import conf

#: The name that views are counted under once a period has its maximum of names. Also in ``count_members.lua``.
OTHER = "__other__"
#: The member that counts all names. A name is never empty.
SUM = ""
#: Maximum length of a name in UTF-8 bytes; a longer one is truncated and ends with its digest.
MAX_PAGE_BYTES = 200
#: Bytes that are kept of a truncated name.
TRUNCATED_BYTES = 160
#: Maximum pages of an hour, and maximum values of a dimension in a period.
MAX_PAGES_PER_HOUR, MAX_VALUES = 1_000, 500

#: What views are broken down by: the host of the site that links here, the ``utm_source`` of the URL, the kind of
#: device, and the country.
Dimension = Literal["referrer", "utm_source", "device", "country"]
#: Units of the counters of pages, and of dimensions.
PAGE_UNITS: tuple[Unit, ...] = ("day", "hour", "week", "month")
VALUE_UNITS: tuple[Unit, ...] = ("day", "week", "month")


def page_key(site: str, unit: Unit, at: date | None) -> str:
    """Return the key of the views of a period.

    Args:
        at: a time of the period; a date is enough, except for an hour.
    """
    if unit != "hour":
        at = local_date(at)
    return keys.key("analytics", site, "pv", periods.label(unit, at))


def value_key(site: str, dimension: Dimension, unit: Unit, at: date | None) -> str:
    """Return the key of the views by values of a dimension in a period."""
    return keys.key("analytics", site, "dm", dimension, periods.label(unit, local_date(at)))


def page_limits(unit: Unit) -> tuple[int, int]:
    """Return the TTL of a period in milliseconds, and its maximum of pages."""
    most = conf.settings().analytics.max_pages_per_day
    return (SHORT_TTL_MS, min(MAX_PAGES_PER_HOUR, most)) if unit == "hour" else (ttl_ms(), most)


def value_limits() -> tuple[int, int]:
    """Return the TTL of the values of a dimension in milliseconds, and their maximum number."""
    return ttl_ms(), MAX_VALUES


def page_name(page: str) -> str:
    """Return the name that a page is counted under; a long one is truncated and ends with its digest.

    Raises:
        TypeError: not a string.
        ValueError: empty.
    """
    if not check_string(page, "page"):
        raise ValueError("page='': expected a path or another name.")
    data = page.encode("utf-8", "replace")
    if len(data) > MAX_PAGE_BYTES:
        return f"{data[:TRUNCATED_BYTES].decode('utf-8', 'ignore')}…{keys.digest(page)}"
    return data.decode()

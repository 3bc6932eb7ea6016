"""Read the counters of pages and visitors, and count what members do.

The middleware counts pages and visitors. While Redis is unavailable the numbers are None and pages omit them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from typing import ParamSpec, TypeVar

from django.utils import timezone
from redis.exceptions import RedisError

from django_redis_components.analytics import (
    Events,
    PageViews,
    RankedMember,
    Ranking,
    SignIns,
    UniqueVisitors,
    roll_up_cohorts,
    roll_up_retention,
)
from example_project.market.models import Item

#: Number of days that an item's page counts.
SEEN_DAYS = 30

#: Sellers that the page of the user's items lists.
TOP_SELLERS = 5

#: Gold that sellers got, by user name.
_sellers = Ranking("market sellers", units=("month", "all"))

P = ParamSpec("P")
T = TypeVar("T")


def _or_none(count: Callable[P, T]) -> Callable[P, T | None]:
    @wraps(count)
    def counted(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return count(*args, **kwargs)
        except RedisError:
            return None

    return counted


@_or_none
def visitors_today() -> int:
    """Return the number of unique visitors today."""
    return UniqueVisitors("default").count(timezone.localdate())


@_or_none
def views_today(path: str) -> int:
    """Return the number of views of a page today."""
    return PageViews().count(path, timezone.localdate())


@_or_none
def mark(event: str, user_id: int, at: datetime) -> int:
    """Mark that a member did something; return whether it is the first time on that day."""
    return Events(event).mark(user_id, at=at)


@_or_none
def add_sale(item: Item) -> float:
    """Add the price of a sold item to its seller's gold."""
    return _sellers.incr(item.seller.username, item.price, at=item.sold_at)


@_or_none
def top_sellers() -> list[RankedMember]:
    """Return the sellers with the most gold this month."""
    return _sellers.top(limit=TOP_SELLERS)


def roll_up() -> None:
    """Store the retention of sign-ins, and how many sellers list again, for the dashboard."""
    listed = Events("list item")
    roll_up_retention(SignIns("default"))
    roll_up_cohorts(listed, listed)


@_or_none
def seen_by(item: Item, user_id: int | None) -> int:
    """Count a member as a viewer of the item; return the number of unique recent viewers."""
    visitors = UniqueVisitors(f"item-{item.pk}")
    if user_id is not None:
        visitors.add(user_id)
        Events("view item").mark(user_id)
    today = timezone.localdate()
    listed = timezone.localdate(item.listed_at)
    return visitors.count(max(listed, today - timedelta(days=SEEN_DAYS - 1)), today)

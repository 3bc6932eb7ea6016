"""Cost of the dashboard's page of analytics with a year of data of 1,000,000 users.

    python -m benchmarks.analytics_page [--users 1000000] [--days 365] [--pages 20]

Writes for each day views of 10,000 pages, a full HyperLogLog of visitors, and sign-ins and ten events of a random half
of the users; hours, weeks and months as well. Prints what `benchmarks.dashboard` prints of its pages. ``REDIS_URL``
names another server: keys with the prefix "bench-dashboard" are written there and deleted.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from datetime import datetime, time, timedelta

import redis

from benchmarks.dashboard import PREFIX, empty, measure_pages, set_up
from benchmarks.environment import server_url

BASE = f"{PREFIX}:analytics:{{default}}"
EVENTS, PAGES, VALUES, VISITORS = 10, 10_000, 500, 100_000
#: Days back of the bitmaps of events; those of all days would take half a gigabyte.
EVENT_DAYS = 31


def main() -> None:
    """Fill the server and measure the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1_000_000, help="users (default: 1000000)")
    parser.add_argument("--days", type=int, default=365, help="days (default: 365)")
    parser.add_argument("--pages", type=int, default=20, help="responses of each page (default: 20)")
    options = parser.parse_args()
    with server_url() as url:
        measure(url, options)


def measure(url: str, options: argparse.Namespace) -> None:
    """Request the page, and the overview, which has the numbers of today."""
    set_up(url)
    raw = redis.Redis.from_url(url)
    admin = "/admin/django_redis_components"
    try:
        fill(raw, options.users, options.days)
        used = raw.info("memory")["used_memory_human"]
        print(f"{options.users:,} users, {options.days} days, {raw.dbsize():,} keys, {used}")
        measure_pages(raw, {"analytics": f"{admin}/analytics/", "overview": f"{admin}/overview/"}, options.pages)
    finally:
        empty(raw)


def fill(raw: redis.Redis, users: int, days: int) -> None:
    """Write the data: one counter of each kind, which is copied to all periods."""
    from django_redis_components.analytics import Ranking

    raw.zadd(f"{BASE}:pages", {f"/page/{number}/": number + 1 for number in range(PAGES)} | {"": PAGES * PAGES // 2})
    raw.zadd(
        f"{BASE}:values", {f"site-{number}.example": number + 1 for number in range(VALUES)} | {"": VALUES**2 // 2}
    )
    for first in range(0, VISITORS, 10_000):
        raw.pfadd(f"{BASE}:visitors", *range(first, first + 10_000))
    for number in range(0, users, 10_000):
        Ranking("default").add(number, number)
    for label, ago in labels(days):
        raw.copy(f"{BASE}:pages", f"{BASE}:pv:{label}")
        raw.copy(f"{BASE}:visitors", f"{BASE}:uv:{label}")
        for dimension in ("referrer", "utm_source", "device", "country"):
            raw.copy(f"{BASE}:values", f"{BASE}:dm:{dimension}:{label}")
        if len(label) == len("20261231"):
            raw.set(f"{BASE}:si:d:{label}", os.urandom(users // 8))
        unit = {7: "week", 6: "month", 8: "day"}.get(len(label))
        if unit and ago <= EVENT_DAYS:
            for event in range(EVENTS):
                raw.set(f"{BASE}:ev:event {event}:{unit}:{label}", os.urandom(users // 8))
    raw.zadd(f"{BASE}:ev", {f"event {event}": 0 for event in range(EVENTS)})


def labels(days: int) -> Iterator[tuple[str, int]]:
    """Yield the label of each day, week and month, and of the hours of 8 days; and how many days ago it is."""
    from django_redis_components.analytics.dates import site_date
    from django_redis_components.analytics.periods import label

    seen: set[str] = set()
    for ago in range(days):
        day = site_date() - timedelta(days=ago)
        moments = [datetime.combine(day, time(hour)) for hour in range(24)] if ago < 8 else []
        found = [label("day", day), label("week", day), label("month", day), *(label("hour", each) for each in moments)]
        yield from ((each, ago) for each in found if each not in seen)
        seen.update(found)


if __name__ == "__main__":
    main()

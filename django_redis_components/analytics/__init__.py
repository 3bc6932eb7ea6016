"""Analytics: page views, unique visitors, sign-ins, events, cohorts, rankings and small counters.

Guarantees:

- `PageViews.hit` is sent once: a lost reply never counts a view twice, but leaves open whether it was counted.
- `PageViews.hit_later` and the middleware count in the memory of the process; a view is added to Redis once, within a
  second, also after lost replies and an outage. A process that is killed loses the views that it has not added.
- Adding visitors and signing in are idempotent; the client repeats them after a lost reply.
- A sign-in is written to the user's days and to the day's users in one step. Exactly one caller gets True for
  the first sign-in of the day, also when the reply is lost and the call is repeated.
- A day is a local date (``timezone.localdate``). Daylight saving, midnight and New Year need no special handling.
- Counting never fails the middleware or a login; sign-ins are skipped while Redis is unavailable.
- Memory is bounded: pages per day, the largest user id and the days of a query have limits.

Keys, all with prefix ``<prefix>:analytics:{<name>}:``:

========================  ==================================  ========================================
``pv:<period>``           zset: page to views; "" is the sum  TTL ``ANALYTICS["TTL"]`` from each write; hours 8 days
``dm:<what>:<period>``    zset: value to views; "": the sum   TTL ``ANALYTICS["TTL"]`` from each write
``batch:<process>``       string: number of the last batch    1 day
``uv:<period>``           HyperLogLog of visitors             TTL ``ANALYTICS["TTL"]`` from each write; hours 8 days
``uv:minute:<number>``    HyperLogLog of visitors             10 minutes
``uvp:<page>:<period>``   HyperLogLog of a page's visitors    TTL ``ANALYTICS["TTL"]`` from each write
``uvp:<yyyymmdd>``        set: pages with counted visitors    2 days
``salt:<period>``         string: random salt of the period   a day after the period
``si:u:<id>``             bitmap: bit 0 is 2020-01-01         none; `SignIns.forget` deletes it
``si:d:<yyyymmdd>``       bitmap: bit n is user n             none; `SignIns.prune` deletes it
``si:c:<id>:<yyyymmdd>``  string: token of a sign-in          60 s
``ev:<event>:<period>``   bitmap: bit n is user n             TTL ``ANALYTICS["TTL"]`` from each write
``ev:<event>``            set: names of its bitmaps           as long as its bitmaps
``ev``                    zset: names of events               none; `Events.delete` deletes a name
``si:a:<id>``             list: 100 changes by hand           none; `SignIns.forget` deletes it
``si:r:<day>``            string: a row of retention          TTL ``ANALYTICS["TTL"]`` from each write
``si:r:last``             string: latest day of the rows      TTL ``ANALYTICS["TTL"]`` from each write
``co``                    zset: stored tables of cohorts      TTL ``ANALYTICS["TTL"]`` from each write
``co:<events>:<unit>``    string: a stored table, JSON        TTL ``ANALYTICS["TTL"]`` from each write
``ids``                   hash: id to number, if mapped       none; `forget_number` deletes an id
``scratch:<number>``      bitmap                              only while a script runs, 60 s at most
``rk:all``                zset: member to score               none; `Ranking.delete` deletes it
``rk:<period>``           zset: member to score               TTL ``ANALYTICS["TTL"]`` from each write
``rk``                    set: names of its periods           as long as its periods
``bc``                    string: counters of a few bits      none; `BitCounters.delete` deletes it
``uv:scratch, uv:part``   HyperLogLog                         only while a script runs
========================  ==================================  ========================================

Example::

    from django.utils import timezone
    from django_redis_components.analytics import PageViews, SignIns, UniqueVisitors

    today = timezone.localdate()
    PageViews().hit("/items/7/")
    UniqueVisitors().add("visitor 1", "visitor 2")
    if SignIns().sign_in(42):
        print("first time today")
    print(PageViews().count("/items/7/", today), UniqueVisitors().count(today), SignIns().streak(42))

See also: docs/components/analytics.md; ``ANALYTICS`` in `core.settings.sections` for the settings.
"""

from __future__ import annotations

from django_redis_components.analytics.audit import SignInChange
from django_redis_components.analytics.bit_counters import BitCounters
from django_redis_components.analytics.buffer import flush
from django_redis_components.analytics.cohorts import Cohort, acohorts, afunnel, cohorts, funnel
from django_redis_components.analytics.estimate import Estimate
from django_redis_components.analytics.events import Events
from django_redis_components.analytics.expressions import UserSet
from django_redis_components.analytics.identity import opt_in, opt_out
from django_redis_components.analytics.middleware import AnalyticsMiddleware
from django_redis_components.analytics.pageviews import PageViews
from django_redis_components.analytics.ranking import RankedMember, Ranking
from django_redis_components.analytics.retention import (
    aretention_triangle,
    aroll_up_retention,
    retention_triangle,
    roll_up_retention,
)
from django_redis_components.analytics.signins import SignIns
from django_redis_components.analytics.stored_cohorts import StoredCohorts, aroll_up_cohorts, roll_up_cohorts
from django_redis_components.analytics.user_ids import aforget_number, forget_number
from django_redis_components.analytics.view_counters import OTHER
from django_redis_components.analytics.visitors import UniqueVisitors
from django_redis_components.core.day_ranges import MAX_RANGE_DAYS

__all__ = [
    "MAX_RANGE_DAYS",
    "OTHER",
    "AnalyticsMiddleware",
    "BitCounters",
    "Cohort",
    "Estimate",
    "Events",
    "PageViews",
    "RankedMember",
    "Ranking",
    "SignInChange",
    "SignIns",
    "StoredCohorts",
    "UniqueVisitors",
    "UserSet",
    "acohorts",
    "aforget_number",
    "afunnel",
    "aretention_triangle",
    "aroll_up_cohorts",
    "aroll_up_retention",
    "cohorts",
    "flush",
    "forget_number",
    "funnel",
    "opt_in",
    "opt_out",
    "retention_triangle",
    "roll_up_cohorts",
    "roll_up_retention",
]

"""Analytics: page views, unique visitors and sign-ins, by local day.

What it guarantees:

- A view is sent once: a lost reply never counts it twice, but may leave open whether it was counted.
- Adding visitors and signing in are safe to repeat, and are repeated by themselves after a lost reply.
- A sign-in is written to the user's days and to the day's users in one step, and exactly one caller is
  told that it was the first of the day, also when the reply is lost and the call is sent again.
- A day is a local date (``timezone.localdate``). Daylight saving, midnight and New Year are nothing special.
- The middleware and the login never fail because of counting, and skip it while Redis is away.
- Memory is bounded: different pages in a day, the largest user id and the days in a question have limits.

Keys, all with prefix ``<prefix>:analytics:{<name>}:``:

========================  ==============================  ==================================================
``pv:<yyyymmdd>``         zset: page to views; "" is all  TTL ``ANALYTICS["TTL"]`` from each write
``uv:<yyyymmdd>``         HyperLogLog of visitors         TTL ``ANALYTICS["TTL"]`` from each write
``salt:<yyyymmdd>``       string: the day's random salt   2 days
``si:u:<id>``             bitmap: bit 0 is 2020-01-01     none; `SignIns.forget` deletes it
``si:d:<yyyymmdd>``       bitmap: bit n is user n         none; `SignIns.prune` deletes it
``si:c:<id>:<yyyymmdd>``  string: token of a sign-in      60 s
``uv:scratch, uv:part``   HyperLogLog                     only while a script runs
========================  ==============================  ==================================================

Example::

    from django.utils import timezone
    from django_redis_components.analytics import PageViews, SignIns, UniqueVisitors

    today = timezone.localdate()
    PageViews().hit("/items/7/")
    UniqueVisitors("default").add("visitor 1", "visitor 2")
    if SignIns("default").sign_in(42):
        print("first time today")
    print(PageViews().count("/items/7/", today), UniqueVisitors("default").count(today), SignIns("default").streak(42))

See also: docs/components/analytics.md; ``ANALYTICS`` in `core.sections` for the settings.
"""

from __future__ import annotations

from django_redis_components.analytics.days import MAX_RANGE_DAYS
from django_redis_components.analytics.estimate import Estimate
from django_redis_components.analytics.middleware import AnalyticsMiddleware
from django_redis_components.analytics.pageviews import OTHER, PageViews
from django_redis_components.analytics.signins import SignIns
from django_redis_components.analytics.visitors import UniqueVisitors

__all__ = [
    "MAX_RANGE_DAYS",
    "OTHER",
    "AnalyticsMiddleware",
    "Estimate",
    "PageViews",
    "SignIns",
    "UniqueVisitors",
]

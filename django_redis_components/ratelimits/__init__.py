"""Rate limits: at most so many hits in a time, for each visitor, customer or address.

Guarantees. One script on the server's clock decides on all rates of a limit: a hit counts in all of them or in
none, and a denied one writes nothing (with a penalty, the number of denials). No number of processes gets more
through than the algorithm allows. GCRA keeps rational intervals, so that no rate drifts. A hit whose reply was
lost is repeated and counted once, unless more than eight others came in between for the same key. While Redis is
away, hits are let through or denied as `on_error` says; after a failure it is left alone for five seconds.

Keys, all of a visitor in one slot; ``<hash>`` is of the visitor's key:

=====================================================  ======  =====================================================
``drc:ratelimits:{name:<hash>}:gcra:<limit>/<us>``     string  when it will be unused again; until then
``drc:ratelimits:{name:<hash>}:fixed:<limit>/<us>``    string  begin of the window and its hits; until the window ends
``drc:ratelimits:{name:<hash>}:sliding:<limit>/<us>``  zset    the hits of the last period; a period from the last one
``drc:ratelimits:{name:<hash>}:penalty``               list    the last denials, or the block; until it ends
=====================================================  ======  =====================================================

Example::

    from django_redis_components.ratelimits import RateLimit, RateLimited, rate_limit

    logins = RateLimit("login", "5/m", "50/d")
    if not logins.hit("ada@example.org"):
        print("try again later")

    @rate_limit("10/s", "1000/h", key="{customer_id}")
    def report(customer_id: int) -> str:
        return "done"

    report(customer_id=7)

See also: `django_redis_components.semaphores` for how many at once; docs/components/ratelimits.md.
"""

from __future__ import annotations

from django_redis_components.ratelimits.decision import Decision
from django_redis_components.ratelimits.decorator import rate_limit
from django_redis_components.ratelimits.exceptions import RateLimited, RateLimitError
from django_redis_components.ratelimits.limit import RateLimit
from django_redis_components.ratelimits.middleware import RateLimitMiddleware
from django_redis_components.ratelimits.signals import rate_limited

__all__ = [
    "Decision",
    "RateLimit",
    "RateLimitError",
    "RateLimitMiddleware",
    "RateLimited",
    "rate_limit",
    "rate_limited",
]

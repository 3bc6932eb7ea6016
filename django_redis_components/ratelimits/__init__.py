"""Rate limits: a number of hits in a period, for each visitor, customer or address.

Guarantees. One script on the server's clock decides on all rates of a limit: a hit counts in all of them or in none,
and a denied hit writes nothing (with a penalty, the denial). The number of processes does not affect the limit. GCRA
stores rational intervals, so no rate drifts. A hit whose reply was lost is repeated and counted once, unless more than
eight other hits of the same key came in between. An operator's block is a part of the keys of the rates, whose TTL it
extends: a hit reads no other key for it. While Redis is unavailable, `on_error` allows or denies hits; after a
failure no request is sent for five seconds.

Keys, those of a visitor in one slot; ``<hash>`` is the hash of the visitor's key; each string lives at least 1 s:

=====================================================  ======  ========================================================
``drc:ratelimits:{name:<hash>}:gcra:<limit>/<us>``     string  when the limit is fully available again; TTL: until then
``drc:ratelimits:{name:<hash>}:fixed:<limit>/<us>``    string  start and hits of the window; until it ends
``drc:ratelimits:{name:<hash>}:sliding:<limit>/<us>``  zset    hits of the last period; one period after the last
``drc:ratelimits:{name:<hash>}:penalty``               list    the last denials, or the block; the penalty's seconds
``drc:ratelimits:{<policy id>}:hits:<hour>``           hash    hits by minute, for the dashboard; two hours
``drc:ratelimits:{<policy id>}:denied:<hour>``         zset    keys by denials, for the dashboard; two hours
=====================================================  ======  ========================================================

Example::

    from django_redis_components.ratelimits import RateLimit, RateLimited, rate_limit

    logins = RateLimit("login", "5/m", "50/d")
    if not logins.hit("ada@example.org"):
        print("try again later")

    @rate_limit("10/s", "1000/h", key="{customer_id}")
    def report(customer_id: int) -> str:
        return "done"

    report(customer_id=7)

See also: `django_redis_components.semaphores` for a limit of concurrent holders; docs/components/ratelimits.md.
"""

from __future__ import annotations

from django_redis_components.core.rates import ParsedRate
from django_redis_components.ratelimits.algorithms import RateState
from django_redis_components.ratelimits.decision import Decision
from django_redis_components.ratelimits.decorator import rate_limit
from django_redis_components.ratelimits.denials import clear_denial_cache
from django_redis_components.ratelimits.exceptions import RateLimited, RateLimitError
from django_redis_components.ratelimits.limit import RateLimit
from django_redis_components.ratelimits.limiter import HashedKey, RateLimitPolicy
from django_redis_components.ratelimits.middleware import RateLimitMiddleware
from django_redis_components.ratelimits.signals import rate_limited

__all__ = [
    "Decision",
    "HashedKey",
    "ParsedRate",
    "RateLimit",
    "RateLimitError",
    "RateLimitMiddleware",
    "RateLimitPolicy",
    "RateLimited",
    "RateState",
    "clear_denial_cache",
    "rate_limit",
    "rate_limited",
]
